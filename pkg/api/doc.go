// Package api is the HTTP API of hanbeon: one contract (Service), done on a store and a queue (NewService), served over HTTP (New), described by an
// OpenAPI document made from the same code (OpenAPI), and asked for over the network (NewClient).
//
// Who may call is decided before a request comes here, by IAM at the gateway or by the verifier of the laptop stack; both put the caller into the
// context (hanbeon/pkg/api/request). The signature of the client is a http.RoundTripper of hanbeon/pkg/api/sigv4.
//
// Bodies are read strictly: what is unknown, occurs twice, has another type or another spelling is refused with the name of the field, never guessed.
// A repeated request is recognised by its parsed fields, not by its text.
package api
