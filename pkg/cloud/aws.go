package cloud

import (
	"context"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
)

// requestTimeout bounds one attempt of a request, answer included. Without it a connection that hangs holds the function until it is killed. The store has a shorter one of its own.
const requestTimeout = 10 * time.Second

// idleConnections is how many are kept open: groups and batches in flight at once.
const idleConnections = 32

// aws is the configuration of the clients. The SDK's own loader would look for profiles that a function does not have, and adds 2 MB to the binary.
func (e *environment) aws() aws.Config {
	return aws.Config{
		Region:      e.text("AWS_REGION"),
		Credentials: e.credentials(),
		HTTPClient: awshttp.NewBuildableClient().WithTimeout(requestTimeout).WithTransportOptions(func(t *http.Transport) {
			t.MaxIdleConnsPerHost = idleConnections
		}),
	}
}

// credentials are those that Lambda gives to its function for the life of the process.
func (e *environment) credentials() aws.CredentialsProvider {
	c := aws.Credentials{AccessKeyID: e.text("AWS_ACCESS_KEY_ID"), SecretAccessKey: e.text("AWS_SECRET_ACCESS_KEY"), Source: "environment"}
	c.SessionToken, _ = e.lookup("AWS_SESSION_TOKEN") // long-lived keys have none
	return aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) { return c, nil })
}

// endpoint is the address of an emulator, nil on AWS: the variable of the service, or else the one of all services (the names are those of the AWS SDKs).
func (e *environment) endpoint(name string) *string {
	for _, name := range []string{name, "AWS_ENDPOINT_URL"} {
		v, ok := e.lookup(name)
		if !ok {
			continue
		}
		// Set and unusable is an error: falling back to AWS would be a surprise.
		if !isURL(v) {
			e.fail(name, "%q is not an http or https URL", v)
		}
		return &v
	}
	return nil
}
