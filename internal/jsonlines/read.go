package jsonlines

// The readers: each takes a value that may be nil (nothing noted, false), and answers true only where the value is of its kind and in range.

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// is notes a mistake where v is of another kind; cure says what to write.
func (d *Doc) is(v *Value, kind Kind, cure string) bool {
	if v == nil {
		return false
	}
	if v.Kind != kind {
		d.Wrong(v, "it is %v; %s", v.Kind, cure)
		return false
	}
	return true
}

// Object answers the members of v by name; names that are not in known are mistakes, save "$comment" and "$schema", which are always allowed.
// The map is nil where v is no object.
func (d *Doc) Object(v *Value, known ...string) map[string]*Value {
	if !d.is(v, Object, "write an object with "+strings.Join(known, ", ")) {
		return nil
	}
	fields := make(map[string]*Value, len(v.Members))
	for _, m := range v.Members {
		switch {
		case slices.Contains(known, m.Name):
			fields[m.Name] = m.Value
		case !isComment(m.Name):
			d.WrongAt(m.Value.Path, m.Line, "this key is unknown; %s", oneOf(m.Name, known))
		}
	}
	return fields
}

// Need answers the field of that name of the object v, which has to be there; example is what could be its value, in JSON. fields is what Object
// answered for v.
func (d *Doc) Need(v *Value, fields map[string]*Value, name, example string) *Value {
	if fields != nil && fields[name] == nil {
		d.WrongAt(join(v.Path, name), v.Line, "it is missing; write for instance %q: %s", name, example)
	}
	return fields[name]
}

// Array answers the items of v, which has at least one; example is such an array.
func (d *Doc) Array(v *Value, example string) ([]*Value, bool) {
	if !d.is(v, Array, "write an array, such as "+example) {
		return nil, false
	}
	if len(v.Items) == 0 {
		d.Wrong(v, "it is empty; write at least one, such as %s", example)
		return nil, false
	}
	return v.Items, true
}

// Bool answers true or false.
func (d *Doc) Bool(v *Value) (value, ok bool) {
	if !d.is(v, Bool, "write true or false") {
		return false, false
	}
	return v.Bool, true
}

// String answers the text of v, which may be empty.
func (d *Doc) String(v *Value) (string, bool) {
	if !d.is(v, String, "write a string") {
		return "", false
	}
	return v.Text, true
}

// OneOf answers the text of v, which must be one of words.
func (d *Doc) OneOf(v *Value, words ...string) (string, bool) {
	if !d.is(v, String, oneOf("", words)) {
		return "", false
	}
	if !slices.Contains(words, v.Text) {
		d.Wrong(v, "%v is unknown; %s", v, oneOf(v.Text, words))
		return "", false
	}
	return v.Text, true
}

// Number answers a number between low and high, both included.
func (d *Doc) Number(v *Value, low, high float64) (float64, bool) {
	cure := fmt.Sprintf("write a number from %v to %v", low, high)
	if !d.is(v, Number, cure) {
		return 0, false
	}
	n, _ := strconv.ParseFloat(v.Text, 64) // infinite where it is too large
	if n < low || n > high {
		d.Wrong(v, "%v is out of range; %s", v, cure)
		return 0, false
	}
	return n, true
}

// Whole answers a whole number between low and high, both included. It may be written as 3.0 or 1e3, too.
func (d *Doc) Whole(v *Value, low, high int) (int, bool) {
	cure := fmt.Sprintf("write a whole number from %d to %d", low, high)
	if !d.is(v, Number, cure) {
		return 0, false
	}
	f, _ := strconv.ParseFloat(v.Text, 64) // infinite where it is too large
	n, err := strconv.Atoi(v.Text)
	if err != nil {
		n = int(max(-1<<53, min(f, 1<<53))) // floats hold each whole number up to there
	}
	switch {
	case f != math.Trunc(f):
		d.Wrong(v, "%v is no whole number; %s", v, cure)
	case float64(n) != f, n < low, n > high:
		d.Wrong(v, "%v is out of range; %s", v, cure)
	default:
		return n, true
	}
	return 0, false
}

// Duration answers a time span between low and high, both included and low not negative. A number is seconds, a string is a Go duration such as
// "1m30s".
func (d *Doc) Duration(v *Value, low, high time.Duration) (time.Duration, bool) {
	if v == nil {
		return 0, false
	}
	var span time.Duration
	negative, tooLong := false, false
	switch v.Kind {
	case Number:
		seconds, _ := strconv.ParseFloat(v.Text, 64) // infinite where it is too large
		negative, tooLong = seconds < 0, seconds > high.Seconds()
		span = time.Duration(math.Round(seconds * float64(time.Second)))
	case String:
		var err error
		if span, err = time.ParseDuration(v.Text); err != nil {
			d.Wrong(v, `%v is no duration; write for instance "250ms", "1m30s" or "2h" (the units are ms, s, m, h), or a number of seconds`, v)
			return 0, false
		}
		negative, tooLong = strings.HasPrefix(v.Text, "-"), span > high
	default:
		d.Wrong(v, `it is %v; write a number of seconds, or a string such as "1m30s"`, v.Kind)
		return 0, false
	}
	switch {
	case negative:
		d.Wrong(v, "%v is negative; write %s or more", v, Brief(low))
	case tooLong:
		d.Wrong(v, "%v is too long; write %s (%.10g seconds) at most", v, Brief(high), high.Seconds())
	case span < low:
		d.Wrong(v, "%v is too short; write %s or more", v, Brief(low))
	default:
		return span, true
	}
	return 0, false
}
