package cloud

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
)

// Model answers texts: see Complete of hanbeon/pkg/ai for what it promises and which errors it makes.
type Model interface {
	Complete(ctx context.Context, system, user, name string, schema json.RawMessage) (string, error)
}

// ModelConfig says which AI server is asked, and with what its client is made.
type ModelConfig struct {
	BaseURL string        // http or https
	Name    string        // of the model
	Secret  string        // ARN of the secret that holds the key
	Timeout time.Duration // of a whole call

	AWS     aws.Config // of the client of Secrets Manager
	Secrets *string    // address of an emulator of Secrets Manager, nil on AWS
	Now     func() time.Time
	Log     *slog.Logger
}

func (e *environment) model() ModelConfig {
	m := ModelConfig{BaseURL: e.text("AI_BASE_URL"), Name: e.text("AI_MODEL"), Secret: e.secret("AI_KEY_SECRET"), Timeout: e.seconds("AI_TIMEOUT"), Secrets: e.endpoint("AWS_ENDPOINT_URL_SECRETS_MANAGER")}
	if m.BaseURL != "" && !isURL(m.BaseURL) {
		e.fail("AI_BASE_URL", "not an http or https URL") // not quoted: it may hold a password
	}
	return m
}
