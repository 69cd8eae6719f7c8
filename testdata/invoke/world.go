package main

import (
	"context"
	"crypto/md5"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path"
	"strings"

	"hanbeon/pkg/ai/aistub"
)

const region = "ap-northeast-2"

// documented is the address in events/env.json: what a container calls this machine, and the port that -serve is documented with.
const documented = "http://host.docker.internal:4566"

// world is what a function works with, at one address: DynamoDB (the emulator dynoxide), and stand-ins of SQS, of Secrets Manager and of an AI server. The queues keep nothing: they take messages as SQS
// would and print them.
type world struct {
	address string // http://127.0.0.1:4566
	values  map[string]string
	dynamo  *process
	server  *http.Server
}

func startWorld(ctx context.Context, address string) (*world, error) {
	vars, err := values()
	if err != nil {
		return nil, err
	}
	emulator, err := tool("dynoxide", "HANBEON_DYNOXIDE")
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	p, onDynamoDB, err := startAt(ctx, nil, emulator, func(address string) []string {
		host, port, _ := net.SplitHostPort(address) // of a listener: it has both
		return []string{"serve", "--host", host, "--port", port, "--log", "quiet"}
	})
	if err != nil {
		return nil, err
	}
	w := &world{address: "http://" + l.Addr().String(), values: vars, dynamo: p}
	dynamo := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: onDynamoDB})
	stub := aistub.New(aistub.Behaviour{})
	w.server = &http.Server{Handler: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		service, operation, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
		switch {
		case service == "DynamoDB_20120810":
			dynamo.ServeHTTP(rw, r)
		case service == "AmazonSQS":
			w.sqs(rw, r, operation)
		case service == "secretsmanager" && operation == "GetSecretValue":
			answer(rw, map[string]string{"SecretString": "local"})
		case strings.HasSuffix(r.URL.Path, "/chat/completions"):
			stub.ServeHTTP(rw, r)
		default:
			refuse(rw, "UnknownOperationException", r.Method+" "+r.URL.Path+" "+r.Header.Get("X-Amz-Target"))
		}
	})}
	go func() { _ = w.server.Serve(l) }() // until stop
	if err := w.makeTables(ctx); err != nil {
		w.stop()
		return nil, err
	}
	return w, nil
}

func (w *world) stop() {
	_ = w.server.Close()
	w.dynamo.stop()
}

func (w *world) log(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "--- "+format+"\n", args...)
}

// sqs answers the two operations that functions use.
func (w *world) sqs(rw http.ResponseWriter, r *http.Request, operation string) {
	var in struct {
		QueueURL string `json:"QueueUrl"`
		Entries  []struct {
			ID                string `json:"Id"`
			MessageBody       string
			ReceiptHandle     string
			VisibilityTimeout int
		}
	}
	body, err := io.ReadAll(r.Body)
	if err == nil {
		err = json.Unmarshal(body, &in)
	}
	switch {
	case err != nil:
		refuse(rw, "com.amazonaws.sqs#InvalidMessageContents", err.Error())
		return
	case operation != "SendMessageBatch" && operation != "ChangeMessageVisibilityBatch":
		refuse(rw, "com.amazonaws.sqs#UnsupportedOperation", operation)
		return
	case len(in.Entries) == 0 || len(in.Entries) > 10:
		refuse(rw, "com.amazonaws.sqs#TooManyEntriesInBatchRequest", fmt.Sprint(len(in.Entries)))
		return
	}
	done := []map[string]string{}
	for _, e := range in.Entries {
		ok := map[string]string{"Id": e.ID}
		if operation == "SendMessageBatch" {
			sum := md5.Sum([]byte(e.MessageBody))
			ok["MessageId"], ok["MD5OfMessageBody"] = "m-"+e.ID, hex.EncodeToString(sum[:])
			w.log("sent to %s: %s", path.Base(in.QueueURL), e.MessageBody)
		} else {
			w.log("put off in %s for %d s: %s", path.Base(in.QueueURL), e.VisibilityTimeout, e.ReceiptHandle)
		}
		done = append(done, ok)
	}
	answer(rw, map[string]any{"Successful": done, "Failed": []any{}})
}

func answer(rw http.ResponseWriter, v any) {
	rw.Header().Set("Content-Type", "application/x-amz-json-1.0")
	_ = json.NewEncoder(rw).Encode(v) // the function is gone
}

func refuse(rw http.ResponseWriter, kind, text string) {
	rw.Header().Set("Content-Type", "application/x-amz-json-1.0")
	rw.WriteHeader(http.StatusBadRequest)
	_ = json.NewEncoder(rw).Encode(map[string]string{"__type": kind, "message": text}) // the function is gone
}
