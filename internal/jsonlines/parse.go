package jsonlines

// Syntax first, by encoding/json, which knows every rule of it; then one walk over its tokens, which can't fail any more and counts the lines.
// What the syntax allows and no person means is a mistake here too: a name twice in one object, text that is no UTF-8, a nesting without end.

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// MaxDepth is how deep arrays and objects may be nested. No file that a person writes comes near it.
const MaxDepth = 64

// Kind is what a value is.
type Kind int

// The kinds of JSON.
const (
	Null Kind = iota
	Bool
	Number
	String
	Array
	Object
)

// String says the kind with its article, as it stands in a message.
func (k Kind) String() string {
	return [...]string{"null", "true or false", "a number", "a string", "an array", "an object"}[k]
}

// Value is one JSON value and the place where it stands.
type Value struct {
	Path    string // "breaker.window", "intervals[3].wait"; "" for the whole document
	Line    int    // where the value begins, from 1
	Kind    Kind
	Bool    bool     // of a Bool
	Text    string   // of a String, its text; of a Number, as it is written
	Items   []*Value // of an Array
	Members []Member // of an Object, in the order of the file
}

// Member is one name of an object, with its value.
type Member struct {
	Name  string
	Line  int // of the name
	Value *Value
}

// Doc is one document and the mistakes that were found in it so far. Not for concurrent use.
type Doc struct {
	Root     *Value // nil where the document is no JSON; every reading method takes that
	name     string
	mistakes []Mistake
}

// Parse reads data. name and example, a small file that means something, are for messages only.
func Parse(name string, data []byte, example string) *Doc {
	d := &Doc{name: name}
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf")) // some editors begin a file with it
	if len(bytes.TrimSpace(data)) == 0 {
		d.WrongAt("", 1, "the file is empty; write for instance %s", example)
		return d
	}
	for i := 0; i < len(data); {
		r, size := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && size == 1 {
			d.WrongAt("", lineAt(data, i), "this is not UTF-8; save the file as UTF-8")
			return d
		}
		i += size
	}
	if err := json.Unmarshal(data, new(json.RawMessage)); err != nil {
		at := 0
		if syntax := (*json.SyntaxError)(nil); errors.As(err, &syntax) {
			at = int(syntax.Offset) - 1 // the byte that doesn't fit
		}
		d.WrongAt("", lineAt(data, at), "this is not JSON: %v; %s", err, cure(data[at], err.Error()))
		return d
	}
	w := walker{doc: d, data: data, dec: json.NewDecoder(bytes.NewReader(data)), line: 1}
	w.dec.UseNumber()
	if root := w.value(w.next(), "", 0); !w.tooDeep {
		d.Root = root
	}
	return d
}

// lineAt is the line of the byte at offset, from 1.
func lineAt(data []byte, offset int) int {
	return 1 + bytes.Count(data[:offset], []byte("\n"))
}

// cure says what the author probably has to change at the byte where the syntax breaks.
func cure(at byte, problem string) string {
	switch {
	case strings.HasPrefix(problem, "unexpected end"):
		return "a closing bracket or quote is missing, or the file was cut"
	case strings.HasSuffix(problem, "after top-level value"):
		return "take away what follows that value"
	case at == '/' || at == '#':
		return `JSON has no comments, write "$comment": "…" instead`
	case at == ']' || at == '}':
		return "take away the comma before it"
	case at == '\'':
		return "use double quotes"
	}
	return "correct it there or just before: often a comma, a quote or a bracket is missing"
}

// walker reads the tokens of a document whose syntax is known to be right.
type walker struct {
	doc     *Doc
	data    []byte
	dec     *json.Decoder
	seen    int // bytes whose lines are counted
	line    int // of the last token: a token never spans lines
	tooDeep bool
}

func (w *walker) next() json.Token {
	token, _ := w.dec.Token()
	end := int(w.dec.InputOffset())
	w.line += bytes.Count(w.data[w.seen:end], []byte("\n"))
	w.seen = end
	return token
}

func (w *walker) value(token json.Token, path string, depth int) *Value {
	v := &Value{Path: path, Line: w.line}
	switch t := token.(type) {
	case bool:
		v.Kind, v.Bool = Bool, t
	case json.Number:
		v.Kind, v.Text = Number, t.String()
	case string:
		v.Kind, v.Text = String, t
	case json.Delim:
		if depth == MaxDepth {
			w.doc.WrongAt(path, w.line, "it is nested deeper than %d; take brackets away", MaxDepth)
			w.tooDeep = true
			return v
		}
		if t == '[' {
			v.Kind = Array
			for w.dec.More() && !w.tooDeep {
				v.Items = append(v.Items, w.value(w.next(), path+"["+strconv.Itoa(len(v.Items))+"]", depth+1))
			}
		} else {
			v.Kind = Object
			w.members(v, depth)
		}
		if !w.tooDeep {
			w.next() // the closing bracket
		}
	}
	return v
}

func (w *walker) members(v *Value, depth int) {
	first := map[string]int{}
	for w.dec.More() && !w.tooDeep {
		name, _ := w.next().(string)
		line := w.line
		noted := len(w.doc.mistakes)
		child := w.value(w.next(), join(v.Path, name), depth+1)
		if isComment(name) && !w.tooDeep {
			w.doc.mistakes = w.doc.mistakes[:noted] // nobody reads what stands in it
		}
		if before, twice := first[name]; twice {
			w.doc.WrongAt(child.Path, line, "it stands twice, first in line %d; take one away", before)
			continue
		}
		first[name] = line
		v.Members = append(v.Members, Member{Name: name, Line: line, Value: child})
	}
}

func join(path, name string) string {
	name = cut(name)
	if path == "" {
		return name
	}
	return path + "." + name
}

// Wrong notes a mistake at v.
func (d *Doc) Wrong(v *Value, format string, args ...any) {
	d.WrongAt(v.Path, v.Line, format, args...)
}

// WrongAt notes a mistake at a place that has no value, such as a field that is missing.
func (d *Doc) WrongAt(path string, line int, format string, args ...any) {
	d.mistakes = append(d.mistakes, Mistake{Path: path, Line: line, Text: fmt.Sprintf(format, args...)})
}

// isComment is true for the names that every object may have, and that mean nothing.
func isComment(name string) bool { return name == "$comment" || name == "$schema" }

// String is a string or number as it stands in the file, cut where it is long; the kind of any other value.
func (v *Value) String() string {
	switch v.Kind {
	case String:
		return strconv.Quote(cut(v.Text))
	case Number:
		return cut(v.Text)
	}
	return v.Kind.String()
}

// cut keeps a message readable that quotes what somebody wrote.
func cut(text string) string {
	const most = 60
	if utf8.RuneCountInString(text) <= most {
		return text
	}
	return string([]rune(text)[:most]) + "…"
}
