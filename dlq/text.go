package dlq

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// A text that a person reads is redacted first, whole, so that no cut can hide half a secret from the redaction; then made
// safe to print; then cut. What comes out is valid UTF-8, has no control character but the permitted ones, and is never
// longer than its limit in bytes.

const ellipsis = "…"

// redacted asks the user's function, which must not be able to stop a dead letter: what it panics on is not written.
func redacted(redact func(string) string, text string) (safe string) {
	if redact == nil || text == "" {
		return text
	}
	defer func() {
		if recover() != nil {
			safe = "(not written: Redact panicked on it)"
		}
	}()
	return redact(text)
}

// printable keeps newlines and tabs; a terminal or a log must survive the rest.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n', r == '\t':
			return r
		case unicode.IsControl(r), unicode.Is(unicode.Bidi_Control, r), r == '\u2028', r == '\u2029':
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, string(utf8.RuneError)))
}

// oneLine is text without line breaks and runs of blanks.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// cut shortens text to at most limit bytes, between two runes, and marks it where there is room for a mark.
func cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	mark := ellipsis
	if limit < len(mark) {
		mark = ""
	}
	end := max(0, limit-len(mark))
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + mark
}
