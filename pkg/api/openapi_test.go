package api_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"slices"
	"testing"

	"hanbeon/pkg/api"
	"hanbeon/pkg/kinds"
)

var update = flag.Bool("update", false, "write docs/openapi.json")

const document = "../../docs/openapi.json"

// The document in docs/ is that of the code. After a change of the routes: go test ./pkg/api -run OpenAPI -update
func TestOpenAPIDocumentIsThatOfTheCode(t *testing.T) {
	t.Parallel()
	want, err := api.OpenAPI()
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(document, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("docs/openapi.json is not what the routes say: go test ./pkg/api -run OpenAPI -update")
	}
	for range 20 {
		if again, err := api.OpenAPI(); err != nil || !bytes.Equal(again, want) {
			t.Fatalf("two documents of one code differ (%v)", err)
		}
	}
}

// The kinds that a list may be asked for are those there are.
func TestTheDocumentHasEveryKind(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var want []string
	for _, k := range kinds.All(w.store, seoul) {
		want = append(want, string(k.Kind()))
		if r := send(w.handler(spring, nil), "GET", "/v1/jobs?kind="+string(k.Kind()), ""); r.StatusCode != 200 {
			t.Errorf("jobs of %s = %d %s", k.Kind(), r.StatusCode, r.body)
		}
	}
	slices.Sort(want)
	b, err := api.OpenAPI()
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Paths map[string]map[string]struct {
			Parameters []struct {
				Name   string
				Schema struct{ Enum []string }
			}
		}
	}
	if err := json.Unmarshal(b, &doc); err != nil {
		t.Fatal(err)
	}
	for _, p := range doc.Paths["/v1/jobs"]["get"].Parameters {
		if p.Name == "kind" && !slices.Equal(p.Schema.Enum, want) {
			t.Errorf("kind is one of %v, want %v, in alphabetical order", p.Schema.Enum, want)
		}
	}
}
