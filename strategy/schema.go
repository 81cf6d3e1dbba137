package strategy

import _ "embed" // for schema.json

//go:embed schema.json
var schema string

// Schema is a JSON Schema (2020-12) of the file, for editors and checks in a pipeline. Whatever Parse accepts it accepts;
// Parse refuses a little more, such as keys that stand twice and strings of more than seven days.
func Schema() string { return schema }
