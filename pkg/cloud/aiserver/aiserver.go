// Package aiserver makes the client of the AI server for a Lambda function, with the key from Secrets Manager. It stands apart from package cloud so that only the function that asks an AI server carries the two clients.
package aiserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"

	"hanbeon/pkg/ai"
	"hanbeon/pkg/cloud"
)

// New makes the client. Nothing is called yet: the secret is fetched at the first call of the AI server.
func New(cfg cloud.ModelConfig) (cloud.Model, error) {
	s := &secret{
		arn:    cfg.Secret,
		client: secretsmanager.NewFromConfig(cfg.AWS, func(o *secretsmanager.Options) { o.BaseEndpoint = cfg.Secrets }),
	}
	client, err := ai.New(ai.Config{BaseURL: cfg.BaseURL, Model: cfg.Name, Key: s.key, Timeout: cfg.Timeout, Now: cfg.Now, Log: cfg.Log})
	if err != nil {
		return nil, err // not the nil client, which would be a Model that is not nil
	}
	return client, nil
}

// secret is a key in Secrets Manager, kept once it was fetched. It is safe for concurrent use.
type secret struct {
	arn    string
	client *secretsmanager.Client

	mu  sync.Mutex
	has string
}

// key is the key that was fetched before, or, with refresh or where there is none yet, the one that the secret holds now. No error holds it. What could not be fetched
// or read is not kept, and what was kept stays.
func (s *secret) key(ctx context.Context, refresh bool) (string, error) {
	s.mu.Lock()
	has := s.has
	s.mu.Unlock()
	if has != "" && !refresh {
		return has, nil
	}
	out, err := s.client.GetSecretValue(ctx, &secretsmanager.GetSecretValueInput{SecretId: &s.arn}) // without the lock: one that hangs must not hold up others
	if err != nil {
		return "", fmt.Errorf("secret %s: %w", s.arn, err)
	}
	if out.SecretString == nil {
		return "", fmt.Errorf("secret %s: binary, want a text", s.arn)
	}
	key, err := parse(*out.SecretString)
	if err != nil {
		return "", fmt.Errorf("secret %s: %w", s.arn, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.has = key
	return key, nil
}

// parse reads a secret: a JSON object whose apiKey is the key (the form that the console of Secrets Manager makes), or else the key itself. Errors of the JSON package quote what they read, so theirs is dropped.
func parse(text string) (string, error) {
	text = strings.TrimSpace(text)
	if strings.HasPrefix(text, "{") {
		var fields struct {
			APIKey string `json:"apiKey"`
		}
		if json.Unmarshal([]byte(text), &fields) != nil {
			return "", errors.New(`not the JSON object {"apiKey":"..."}`)
		}
		text = strings.TrimSpace(fields.APIKey)
	}
	if text == "" {
		return "", errors.New("holds no key")
	}
	if strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }) { // kept, it would be sent until the process ends
		return "", errors.New("the key has a character that a header cannot hold")
	}
	return text, nil
}
