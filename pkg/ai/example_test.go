package ai_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"time"

	"hanbeon/pkg/ai"
	"hanbeon/pkg/ai/aistub"
	"hanbeon/pkg/job"
)

// The error of a call goes to the worker as it is: it knows what passes, and when to come back.
func ExampleClient_Complete() {
	stub := aistub.New(aistub.Behaviour{FailFirst: 1, Status: 429, RetryAfter: 30 * time.Second})
	server := httptest.NewServer(stub)
	defer server.Close()
	client, err := ai.New(ai.Config{BaseURL: server.URL + "/v1", Model: "stub"})
	if err != nil {
		fmt.Println(err)
		return
	}
	schema := json.RawMessage(`{"type":"object","properties":{"title":{"type":"string"},"text":{"type":"string"},"keywords":{"type":"array","items":{"type":"string"}}}}`)
	for range 2 {
		text, err := client.Complete(context.Background(), "Summarise the notes of a day.", "Maps are not safe for concurrent use.", "til", schema)
		var later *job.LaterError
		if errors.As(err, &later) {
			fmt.Println(later.Reason, "after", later.After)
			continue
		}
		fmt.Println(text)
	}
	// Output:
	// ai-busy after 30s
	// {"title":"Maps are not safe for concurrent use","text":"Maps are not safe for concurrent use.","keywords":["maps","safe","concurrent","use"]}
}
