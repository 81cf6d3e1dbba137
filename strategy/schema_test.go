package strategy_test

import (
	"encoding/json"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/breakwater-go/breakwater/strategy"
)

// validator checks documents against the schema, as an editor does.
var validator = sync.OnceValue(func() *jsonschema.Resolved {
	var s jsonschema.Schema
	if err := json.Unmarshal([]byte(strategy.Schema()), &s); err != nil {
		panic(err)
	}
	resolved, err := s.Resolve(&jsonschema.ResolveOptions{ValidateDefaults: true})
	if err != nil {
		panic(err)
	}
	return resolved
})

// schemaError is what the schema has against a document.
func schemaError(document []byte) error {
	var v any
	if err := json.Unmarshal([]byte(strings.TrimPrefix(string(document), "\ufeff")), &v); err != nil {
		return err
	}
	return validator().Validate(v)
}

func TestSchemaAcceptsWhatTheParserAccepts(t *testing.T) {
	for _, c := range accepted {
		if err := schemaError([]byte(c)); err != nil {
			t.Errorf("%s: %v", c, err)
		}
	}
}

func TestSchemaRefusesWhatTheParserRefuses(t *testing.T) {
	for _, c := range refused {
		if err := schemaError([]byte(c.json)); (err == nil) != c.laxSchema {
			t.Errorf("%s: the schema says %v; want it lax: %v", short(c.json), err, c.laxSchema)
		}
	}
}

func TestTheFileThatWeShipNamesTheSchemaAndFitsIt(t *testing.T) {
	data, err := os.ReadFile("../strategy.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := schemaError(data); err != nil {
		t.Error(err)
	}
	var file struct {
		Schema string `json:"$schema"`
	}
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile("../" + file.Schema); err != nil || string(text) != strategy.Schema() {
		t.Errorf("$schema is %q, which is not the schema: %v", file.Schema, err)
	}
}
