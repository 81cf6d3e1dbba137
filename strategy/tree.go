// JSON with line numbers: encoding/json says what a value is, but not where it stood, nor that a key stood twice. A file
// becomes a tree of nodes, each with the line on which it begins, and the parser reads the tree.

package strategy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// node is one JSON value: a string, a json.Number, a bool, nil, []node or []member.
type node struct {
	line  int
	value any
}

// member is a key of an object and its value. An object keeps its members as they stand in the file, duplicates too.
type member struct {
	key  string
	line int
	node
}

// readTree reads one JSON value that fills the whole of data.
func readTree(data []byte) (node, *Mistake) {
	data = bytes.TrimPrefix(data, []byte("\ufeff")) // some editors begin a file with a byte order mark
	if len(bytes.TrimSpace(data)) == 0 {
		return node{}, &Mistake{Line: 1, Text: `the file is empty; the smallest strategy is [1, 4, 16]`}
	}
	var whole json.RawMessage
	if err := json.Unmarshal(data, &whole); err != nil {
		return node{}, syntaxMistake(data, err)
	}
	r := treeReader{data: data, dec: json.NewDecoder(bytes.NewReader(data)), line: 1}
	r.dec.UseNumber()
	return r.next(), nil
}

// syntaxMistake says where data stops being JSON. Nothing after that place can be judged, so it is the only mistake.
func syntaxMistake(data []byte, err error) *Mistake {
	m := &Mistake{Line: 1, Text: fmt.Sprintf("this is no JSON: %v", err)}
	var syntax *json.SyntaxError
	if !errors.As(err, &syntax) {
		return m
	}
	at := int(syntax.Offset) - 1 // of the byte that does not fit
	m.Line += bytes.Count(data[:at], []byte("\n"))
	switch c := data[at]; {
	case strings.HasPrefix(syntax.Error(), "unexpected end"):
		m.Text += "; a closing bracket or quote is missing, or the file was cut"
	case strings.HasSuffix(syntax.Error(), "after top-level value"):
		m.Text += "; take away what follows the strategy"
	case c == '/', c == '#':
		m.Text += `; JSON has no comments, use "$comment"`
	case c == ']', c == '}':
		m.Text += "; take away the comma before it"
	case c == '\'':
		m.Text += "; use double quotes"
	default:
		m.Text += "; correct it there or just before, such as a missing comma, quote or bracket"
	}
	return m
}

// treeReader walks the tokens of data. data is valid JSON, so that no token is an error.
type treeReader struct {
	data    []byte
	dec     *json.Decoder
	line    int // of the byte at counted
	counted int
}

// token is the next token and the line on which it begins.
func (r *treeReader) token() (json.Token, int) {
	begin := int(r.dec.InputOffset())
	for begin < len(r.data) && strings.IndexByte(" \t\r\n,:", r.data[begin]) >= 0 {
		begin++
	}
	r.line += bytes.Count(r.data[r.counted:begin], []byte("\n"))
	r.counted = begin
	token, _ := r.dec.Token()
	return token, r.line
}

func (r *treeReader) next() node {
	token, line := r.token()
	switch token {
	case json.Delim('['):
		items := []node{}
		for r.dec.More() {
			items = append(items, r.next())
		}
		r.token()
		return node{line, items}
	case json.Delim('{'):
		members := []member{}
		for r.dec.More() {
			key, at := r.token()
			members = append(members, member{key.(string), at, r.next()})
		}
		r.token()
		return node{line, members}
	}
	return node{line, token}
}

// kind is what a person calls the value.
func (n node) kind() string {
	switch n.value.(type) {
	case string:
		return "a string"
	case json.Number:
		return "a number"
	case bool:
		return "true or false"
	case []node:
		return "an array"
	case []member:
		return "an object"
	}
	return "null"
}
