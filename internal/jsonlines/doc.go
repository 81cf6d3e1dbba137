// Package jsonlines is JSON that knows its lines.
//
// A file that a person writes by hand (strategy.json, a bench scenario) is refused with all its mistakes at once, each with the path of the
// field, the line and the cure. encoding/json stops at the first mistake and knows neither, so the file is read into a tree of values that do.
//
//	doc := jsonlines.Parse("strategy.json", data, "[1, 4, 16]")
//	fields := doc.Object(doc.Root, "intervals", "jitter")
//	jitter, ok := doc.Number(fields["jitter"], 0, 1)
//	…
//	return doc.Err() // nil, or a *Error with every mistake
//
// Each reading method notes a mistake and answers false where the value is of the wrong kind or out of range, and answers false in silence for a
// nil value, so that a reader never has to ask first whether a field is there.
package jsonlines
