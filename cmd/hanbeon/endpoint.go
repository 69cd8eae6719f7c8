package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"regexp"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"

	"hanbeon/pkg/api"
	"hanbeon/pkg/api/sigv4"
)

// endpoint is the address of an API, from --endpoint.
type endpoint struct {
	url    *url.URL
	laptop bool // on this machine: never signed with AWS credentials
}

// parseEndpoint refuses what cannot be an API. Only a laptop is spoken to in clear.
func parseEndpoint(s string) (*endpoint, error) {
	u, err := url.Parse(s)
	if err != nil || u.Host == "" || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, misuse("--endpoint %.100q: want an address such as https://abc123.execute-api.ap-northeast-2.amazonaws.com or http://127.0.0.1:8787", s)
	}
	if u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, misuse("--endpoint: want an address without user, query and fragment")
	}
	e := &endpoint{u, isLoopback(u.Hostname())}
	if !e.laptop && u.Scheme != "https" {
		return nil, misuse("--endpoint %s: want https: only an API on this machine is spoken to in clear", u)
	}
	return e, nil
}

// isLoopback tells whether a host is this machine and nothing else.
func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// is tells whether two addresses on this machine are of the same server, however the machine is called in them.
func (e *endpoint) is(other string) bool {
	u, err := url.Parse(other)
	return err == nil && e.laptop && isLoopback(u.Hostname()) && u.Port() == e.url.Port() && u.Scheme == e.url.Scheme
}

// executeAPI finds the region in the host of an API of AWS.
var executeAPI = regexp.MustCompile(`\.execute-api\.([a-z0-9-]+)\.(?:amazonaws\.com|vpce\.amazonaws\.com|amazonaws\.com\.cn)$`)

// deployed is an API that AWS serves: signed with the credentials that the AWS command line would use.
func (a *app) deployed(ctx context.Context, e *endpoint) (*target, error) {
	region := a.region
	if m := executeAPI.FindStringSubmatch(e.url.Hostname()); region == "" && m != nil {
		region = m[1]
	}
	var options []func(*config.LoadOptions) error
	if region != "" {
		options = append(options, config.WithRegion(region))
	}
	cfg, err := config.LoadDefaultConfig(ctx, options...)
	if err != nil {
		return nil, fmt.Errorf("AWS configuration: %w", err)
	}
	if cfg.Region == "" {
		return nil, misuse("--region is missing: it is neither in the address nor in the AWS configuration of this machine")
	}
	who, err := cfg.Credentials.Retrieve(ctx)
	if err != nil {
		return nil, fmt.Errorf("AWS credentials for %s: %w: set AWS_PROFILE or sign in", e.url, err)
	}
	as := "key ..." + who.AccessKeyID[max(0, len(who.AccessKeyID)-4):]
	if who.Source != "" {
		as += " of " + who.Source
	}
	a.note("target: %s as %s region %s", e.url, as, cfg.Region)
	t := http.DefaultTransport.(*http.Transport).Clone()
	return &target{Service: api.NewClient(e.url.String(), sigv4.Transport(t, cfg.Credentials, cfg.Region)), where: e.url.String(), deployed: true}, nil
}

// connected is the API of a `hanbeon local`.
func (a *app) connected(c connection) *target {
	a.note("target: laptop %s", c.Endpoint)
	key := aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
		return aws.Credentials{AccessKeyID: c.KeyID, SecretAccessKey: c.Secret, Source: "connection file"}, nil
	})
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.Proxy = nil // it is on this machine
	return &target{Service: api.NewClient(c.Endpoint, sigv4.Transport(t, key, c.Region)), where: c.Endpoint}
}
