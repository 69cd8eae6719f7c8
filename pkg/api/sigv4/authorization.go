package sigv4

import (
	"errors"
	"net/http"
	"slices"
	"strings"
)

// authorization is the Authorization header of a signed request, taken apart.
type authorization struct {
	id            string // of the access key
	scope         string // 20240415/ap-northeast-2/execute-api/aws4_request
	signedHeaders string // host;x-amz-date
	signature     string
}

// String writes it as the SDK does, whatever spaces the client put between the parts.
func (a authorization) String() string {
	return algorithm + " Credential=" + a.id + "/" + a.scope + ", SignedHeaders=" + a.signedHeaders + ", Signature=" + a.signature
}

// authorizationOf reads `AWS4-HMAC-SHA256 Credential=ID/SCOPE, SignedHeaders=host;x-amz-date, Signature=HEX`: each part once, in any order. errMissing if there is no header.
func authorizationOf(r *http.Request) (authorization, error) {
	headers := r.Header.Values("Authorization")
	if len(headers) == 0 {
		return authorization{}, errMissing
	}
	scheme, rest, _ := strings.Cut(headers[0], " ")
	if len(headers) > 1 || scheme != algorithm {
		return authorization{}, errors.New("not one Authorization header of " + algorithm)
	}
	parts := map[string]string{}
	for part := range strings.SplitSeq(rest, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		if _, twice := parts[name]; twice {
			return authorization{}, errors.New("a part of the Authorization header twice")
		}
		parts[name] = value
	}
	a := authorization{signedHeaders: parts["SignedHeaders"], signature: parts["Signature"]}
	a.id, a.scope, _ = strings.Cut(parts["Credential"], "/")
	if len(parts) != 3 || a.id == "" || a.signedHeaders == "" || a.signature == "" {
		return authorization{}, errors.New("the Authorization header has not the three parts it needs")
	}
	// Without them a signature would be good for any host and for ever.
	if names := strings.Split(a.signedHeaders, ";"); !slices.Contains(names, "host") || !slices.Contains(names, "x-amz-date") {
		return authorization{}, errors.New("host and x-amz-date are not both signed")
	}
	return a, nil
}
