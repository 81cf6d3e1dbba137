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

// is notes a mistake where v is of another kind.
func (d *Doc) is(v *Value, kind Kind) bool {
	if v == nil {
		return false
	}
	if v.Kind != kind {
		d.Wrong(v, "this is %v; write %v", v.Kind, kind)
		return false
	}
	return true
}

// Object answers the members of v by name; names that are not in known are mistakes, save "$comment" and "$schema", which are always allowed.
// The map is nil where v is no object.
func (d *Doc) Object(v *Value, known ...string) map[string]*Value {
	if !d.is(v, Object) {
		return nil
	}
	fields := make(map[string]*Value, len(v.Members))
	for _, m := range v.Members {
		switch {
		case slices.Contains(known, m.Name):
			fields[m.Name] = m.Value
		case m.Name == "$comment" || m.Name == "$schema":
		default:
			d.WrongAt(m.Value.Path, m.Line, "unknown; known here: %s", strings.Join(known, ", "))
		}
	}
	return fields
}

// Array answers the items of v.
func (d *Doc) Array(v *Value) ([]*Value, bool) {
	if !d.is(v, Array) {
		return nil, false
	}
	return v.Items, true
}

// Bool answers true or false.
func (d *Doc) Bool(v *Value) (value, ok bool) {
	if !d.is(v, Bool) {
		return false, false
	}
	return v.Bool, true
}

// String answers the text of v, which may be empty.
func (d *Doc) String(v *Value) (string, bool) {
	if !d.is(v, String) {
		return "", false
	}
	return v.Text, true
}

// OneOf answers the text of v, which must be one of words.
func (d *Doc) OneOf(v *Value, words ...string) (string, bool) {
	if !d.is(v, String) {
		return "", false
	}
	if !slices.Contains(words, v.Text) {
		d.Wrong(v, "%q is unknown; write one of %s", cut(v.Text), `"`+strings.Join(words, `", "`)+`"`)
		return "", false
	}
	return v.Text, true
}

// Number answers a number between low and high, both included.
func (d *Doc) Number(v *Value, low, high float64) (float64, bool) {
	if !d.is(v, Number) {
		return 0, false
	}
	n, err := strconv.ParseFloat(v.Text, 64)
	if err != nil || n < low || n > high {
		d.Wrong(v, "%s is out of range; write a number from %v to %v", cut(v.Text), low, high)
		return 0, false
	}
	return n, true
}

// Whole answers a whole number between low and high, both included.
func (d *Doc) Whole(v *Value, low, high int) (int, bool) {
	if !d.is(v, Number) {
		return 0, false
	}
	n, err := strconv.Atoi(v.Text)
	if err != nil || n < low || n > high {
		d.Wrong(v, "%s is out of range or not whole; write a whole number from %d to %d", cut(v.Text), low, high)
		return 0, false
	}
	return n, true
}

// Duration answers a time span between low and high, both included. A number is seconds, a string is a Go duration such as "1m30s".
func (d *Doc) Duration(v *Value, low, high time.Duration) (time.Duration, bool) {
	if v == nil {
		return 0, false
	}
	var span time.Duration
	switch v.Kind {
	case Number:
		seconds, err := strconv.ParseFloat(v.Text, 64)
		if err != nil || math.Abs(seconds) > float64(math.MaxInt64/int64(time.Second)) {
			d.Wrong(v, "%s is out of range; write a time from %v to %v", cut(v.Text), low, high)
			return 0, false
		}
		span = time.Duration(math.Round(seconds * float64(time.Second)))
	case String:
		var err error
		if span, err = time.ParseDuration(v.Text); err != nil {
			d.Wrong(v, `%q is no duration; write seconds as a number (90), or text such as "250ms" or "1m30s"`, cut(v.Text))
			return 0, false
		}
	default:
		d.Wrong(v, `this is %v; write seconds as a number (90), or text such as "250ms" or "1m30s"`, v.Kind)
		return 0, false
	}
	if span < low || span > high {
		d.Wrong(v, "%s is out of range; write a time from %v to %v", cut(v.Text), low, high)
		return 0, false
	}
	return span, true
}

// Missing notes that the object v lacks a field; example is what could be its value, in JSON.
func (d *Doc) Missing(v *Value, name, example string) {
	d.WrongAt(join(v.Path, name), v.Line, "missing; write for example %s", fmt.Sprintf("%q: %s", name, example))
}
