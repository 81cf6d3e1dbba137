package jsonlines

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"
)

func parse(data []byte) *Doc { return Parse("file", data, "[1]") }

func TestEachMistakeHasItsLineAndItsCure(t *testing.T) {
	cases := map[string]struct {
		file string
		line int
		cure string
	}{
		"empty":              {" \n ", 1, "the file is empty; write for instance [1]"},
		"not UTF-8":          {"{\n\"a\": \"\xff\"}", 2, "save the file as UTF-8"},
		"cut":                {"{\n\"a\": [1,\n2", 3, "the file was cut"},
		"two documents":      {"{}\n{}", 2, "take away what follows"},
		"comment":            {"{\n// why\n\"a\": 1}", 2, "$comment"},
		"hash":               {"{\n# why\n\"a\": 1}", 2, "$comment"},
		"comma at the end":   {"[1,\n2,\n]", 3, "take away the comma"},
		"single quotes":      {"{\n'a': 1}", 2, "double quotes"},
		"no comma":           {"{\"a\": 1\n\"b\": 2}", 2, "comma"},
		"a name twice":       {"{\"a\": 1,\n\"b\": 2,\n\"a\": 3}", 3, "it stands twice, first in line 1; take one away"},
		"twice, not comment": {"{\"$comment\": {\"a\": 1, \"a\": 2},\n\"b\": 1, \"b\": 2}", 2, "it stands twice"},
		"depth in comments":  {"{\n\"$comment\":" + strings.Repeat("[", 65) + strings.Repeat("]", 65) + "}", 2, "nested deeper than 64"},
		"a depth of 65":      {strings.Repeat("[\n", 65) + strings.Repeat("]", 65), 65, "nested deeper than 64"},
		"a depth of 100,000": {strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000), 1, "depth"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			only(t, parse([]byte(c.file)), "", c.line, c.cure)
		})
	}
}

func TestReadersRefuseWhatIsOfAnotherKindOrOutOfRange(t *testing.T) {
	const file = `{
		"text": "x",
		"number": 2.5,
		"list": [true, null],
		"soon": "5 minutes",
		"late": 1e300,
		"none": [],
		"edge": 9223372036854775808
	}`
	cases := map[string]struct {
		path string
		line int
		cure string
		read func(d *Doc, f map[string]*Value)
	}{
		"Object":      {"text", 2, "it is a string; write an object with a, b", func(d *Doc, f map[string]*Value) { d.Object(f["text"], "a", "b") }},
		"Array":       {"text", 2, "it is a string; write an array, such as [1]", func(d *Doc, f map[string]*Value) { d.Array(f["text"], "[1]") }},
		"no items":    {"none", 7, "it is empty; write at least one, such as [1]", func(d *Doc, f map[string]*Value) { d.Array(f["none"], "[1]") }},
		"Bool":        {"number", 3, "write true or false", func(d *Doc, f map[string]*Value) { d.Bool(f["number"]) }},
		"String":      {"list", 4, "write a string", func(d *Doc, f map[string]*Value) { d.String(f["list"]) }},
		"OneOf":       {"text", 2, `"x" is unknown; it can be "y", "z"`, func(d *Doc, f map[string]*Value) { d.OneOf(f["text"], "y", "z") }},
		"Number":      {"number", 3, "from 0 to 1", func(d *Doc, f map[string]*Value) { d.Number(f["number"], 0, 1) }},
		"Number huge": {"late", 6, "from 0 to 1", func(d *Doc, f map[string]*Value) { d.Number(f["late"], 0, 1) }},
		"Whole":       {"number", 3, "2.5 is no whole number; write a whole number from 1 to 9", func(d *Doc, f map[string]*Value) { d.Whole(f["number"], 1, 9) }},
		"Whole huge":  {"late", 6, "out of range", func(d *Doc, f map[string]*Value) { d.Whole(f["late"], 1, 9) }},
		"Whole edge":  {"edge", 8, "out of range", func(d *Doc, f map[string]*Value) { d.Whole(f["edge"], 0, math.MaxInt) }},
		"Duration":    {"soon", 5, `"1m30s"`, func(d *Doc, f map[string]*Value) { d.Duration(f["soon"], 0, time.Hour) }},
		"too long":    {"number", 3, "2.5 is too long; write 1s (1 seconds) at most", func(d *Doc, f map[string]*Value) { d.Duration(f["number"], 0, time.Second) }},
		"too short":   {"number", 3, "2.5 is too short; write 3s or more", func(d *Doc, f map[string]*Value) { d.Duration(f["number"], 3*time.Second, 4*time.Second) }},
		"overflow":    {"late", 6, "1e300 is too long; write 1h (3600 seconds) at most", func(d *Doc, f map[string]*Value) { d.Duration(f["late"], 0, time.Hour) }},
		"no duration": {"list[0]", 4, "it is true or false; write a number of seconds", func(d *Doc, f map[string]*Value) { d.Duration(f["list"].Items[0], 0, time.Hour) }},
		"null":        {"list[1]", 4, "it is null; write a string", func(d *Doc, f map[string]*Value) { d.String(f["list"].Items[1]) }},
		"Need":        {"wait", 1, `it is missing; write for instance "wait": "1s"`, func(d *Doc, f map[string]*Value) { d.Need(d.Root, f, "wait", `"1s"`) }},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			d := parse([]byte(file))
			f := d.Object(d.Root, "text", "number", "list", "soon", "late", "none", "edge")
			c.read(d, f)
			only(t, d, c.path, c.line, c.cure)
		})
	}
}

func TestUnknownNamesAreMistakesAndCommentsAreNot(t *testing.T) {
	d := parse([]byte("{\"$schema\": 1,\n\"$comment\": 2,\n\"wait\": 3,\n\"wiat\": 4}"))
	if f := d.Object(d.Root, "wait", "times"); len(f) != 1 || f["wait"].Text != "3" {
		t.Errorf("got %v", f)
	}
	only(t, d, "wiat", 4, `unknown; it can be "wait", "times"`)
}

func TestAMistypedWordIsRecognized(t *testing.T) {
	words := []string{"jitter", "onExhausted", "dlq", "s"}
	for word, want := range map[string]string{
		"jiter": "jitter", "JITTER": "jitter", "jiffer": "jitter", "on_exhausted": "onExhausted", "DLQ": "dlq", "dq": "dlq", "dlqq": "dlq",
		"jam": "", "d": "", "x": "", "": "", "jitterjitterjitter": "",
	} {
		says := oneOf(word, words)
		if meant := fmt.Sprintf("did you mean %q?", want); want != "" && says != meant || want == "" && !strings.HasPrefix(says, "it can be ") {
			t.Errorf("of %q: %s", word, says)
		}
	}
}

func TestWholeNumbersAreExactHoweverTheyAreWritten(t *testing.T) {
	for text, want := range map[string]int{"0": 0, "-0": 0, "3.0": 3, "1e3": 1000, "-2E0": -2, "9223372036854775807": math.MaxInt, "9007199254740993": 1<<53 + 1} {
		d := parse([]byte(text))
		if got, ok := d.Whole(d.Root, -9, math.MaxInt); !ok || got != want {
			t.Errorf("%s is %d, %v", text, got, d.Err())
		}
	}
}

func TestReadersAreSilentAboutNothing(t *testing.T) {
	d := parse([]byte("{}"))
	f := d.Object(d.Root, "a")
	d.Object(f["a"])
	d.Array(f["a"], "[1]")
	d.Need(nil, nil, "a", "1")
	d.Bool(f["a"])
	d.String(f["a"])
	d.OneOf(f["a"])
	d.Number(f["a"], 0, 0)
	d.Whole(f["a"], 0, 0)
	if _, ok := d.Duration(f["a"], 0, 0); ok || d.Err() != nil {
		t.Errorf("got %v, %v", ok, d.Err())
	}
}

func TestTimesAreSecondsOrGoDurations(t *testing.T) {
	d := parse([]byte(`[90, 0.25, "1m30s", 0.1]`))
	for i, want := range []time.Duration{90 * time.Second, 250 * time.Millisecond, 90 * time.Second, 100 * time.Millisecond} {
		if got, ok := d.Duration(d.Root.Items[i], 0, time.Hour); !ok || got != want {
			t.Errorf("item %d is %v, want %v", i, got, want)
		}
	}
}

func TestAllMistakesComeInTheOrderOfTheirLines(t *testing.T) {
	d := parse([]byte("[\n1,\n2]"))
	d.Wrong(d.Root.Items[1], "second")
	d.Wrong(d.Root.Items[0], "first")
	if got, want := d.Err().Error(), "2 mistakes:\n\tfile:2: [0]: first\n\tfile:3: [1]: second"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	for range 40 {
		d.Wrong(d.Root, "more")
	}
	if got := d.Err().Error(); strings.Count(got, "\n") != shown+1 || !strings.HasSuffix(got, "and 22 more") {
		t.Errorf("got\n%s", got)
	}
}

func TestLongTextIsCutInMessages(t *testing.T) {
	long := strings.Repeat("ä", 1000)
	d := parse(fmt.Appendf(nil, `{"%s": 1, "a": "%s"}`, long, long))
	d.OneOf(d.Object(d.Root, "a")["a"], "b")
	if got := d.Err().Error(); len(got) > 1000 {
		t.Errorf("a message of %d bytes", len(got))
	}
}

// Whatever encoding/json reads, this reads too, and each value says the line on which it begins.
func TestTheTreeIsTheDocumentAndItsLinesAreTrue(t *testing.T) {
	for seed := range uint64(2000) {
		w := writer{rng: rand.New(rand.NewPCG(seed, 0)), line: 1}
		w.space()
		w.value(0)
		w.space()
		var want any
		if err := json.Unmarshal([]byte(w.text.String()), &want); err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, w.text.String())
		}
		d := parse([]byte(w.text.String()))
		if d.Err() != nil || !reflect.DeepEqual(plain(d.Root), want) {
			t.Fatalf("seed %d: %v\n%s\nread as %v", seed, d.Err(), w.text.String(), plain(d.Root))
		}
		if got := lines(d.Root); !reflect.DeepEqual(got, w.lines) {
			t.Fatalf("seed %d: the values are on the lines %v, and are said to be on %v\n%s", seed, w.lines, got, w.text.String())
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"a": [1, "x", null, {"b": true}]}`))
	f.Add([]byte("\xef\xbb\xbf[1,]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		d := parse(data)
		if d.Root == nil && d.Err() == nil {
			t.Error("neither a document nor a mistake")
		}
		if d.Err() == nil && !json.Valid([]byte(strings.TrimPrefix(string(data), "\ufeff"))) {
			t.Error("taken, and not JSON")
		}
	})
}

func Example() {
	doc := Parse("strategy.json", []byte(`{
  "jitter": 2,
  "intervalls": [1, 4]
}`), "[1, 4, 16]")
	fields := doc.Object(doc.Root, "intervals", "jitter")
	doc.Number(fields["jitter"], 0, 1)
	fmt.Println(doc.Err())
	// Output:
	// 2 mistakes:
	// 	strategy.json:2: jitter: 2 is out of range; write a number from 0 to 1
	// 	strategy.json:3: intervalls: this key is unknown; did you mean "intervals"?
}

// only fails the test unless d has exactly this mistake.
func only(t *testing.T, d *Doc, path string, line int, cure string) {
	t.Helper()
	var err *Error
	if !errors.As(d.Err(), &err) || len(err.Mistakes) != 1 {
		t.Fatalf("want one mistake, got %v", d.Err())
	}
	m := err.Mistakes[0]
	if m.Line != line || !strings.Contains(m.Text, cure) || path != "" && m.Path != path {
		t.Errorf("got %v; want %q on line %d at %q", m, cure, line, path)
	}
}

// plain is v as encoding/json would have it.
func plain(v *Value) any {
	switch v.Kind {
	case Bool:
		return v.Bool
	case Number:
		var n float64
		_ = json.Unmarshal([]byte(v.Text), &n)
		return n
	case String:
		return v.Text
	case Array:
		list := []any{}
		for _, item := range v.Items {
			list = append(list, plain(item))
		}
		return list
	case Object:
		object := map[string]any{}
		for _, m := range v.Members {
			object[m.Name] = plain(m.Value)
		}
		return object
	}
	return nil
}

// lines are the lines of v and of all in it, in the order of the document.
func lines(v *Value) []int {
	all := []int{v.Line}
	for _, item := range v.Items {
		all = append(all, lines(item)...)
	}
	for _, m := range v.Members {
		all = append(all, lines(m.Value)...)
	}
	return all
}

// writer writes a random document and notes on which lines its values begin.
type writer struct {
	rng   *rand.Rand
	text  strings.Builder
	line  int
	lines []int
}

func (w *writer) space() {
	for range w.rng.IntN(3) {
		space := []string{" ", "\n", "\t", "\r\n"}[w.rng.IntN(4)]
		w.line += strings.Count(space, "\n")
		w.text.WriteString(space)
	}
}

func (w *writer) value(depth int) {
	w.lines = append(w.lines, w.line)
	kinds := 8
	if depth > 4 {
		kinds = 6
	}
	switch kind := w.rng.IntN(kinds); kind {
	case 6, 7:
		w.text.WriteString([]string{"[", "{"}[kind-6])
		for i := range w.rng.IntN(4) {
			if i > 0 {
				w.text.WriteString(",")
			}
			w.space()
			if kind == 7 {
				fmt.Fprintf(&w.text, `"name%d"`, i)
				w.space()
				w.text.WriteString(":")
				w.space()
			}
			w.value(depth + 1)
			w.space()
		}
		w.space()
		w.text.WriteString([]string{"]", "}"}[kind-6])
	default:
		w.text.WriteString([]string{"null", "true", "-12.5e1", `""`, `"a\nb\u00e4"`, "false"}[kind])
	}
}
