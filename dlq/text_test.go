package dlq

import (
	"regexp"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestTextsAreRedactedWholeAndThenCut(t *testing.T) {
	card := regexp.MustCompile(`\d{16}`)
	redact := func(s string) string { return card.ReplaceAllString(s, "[card]") }
	l := letter(record(0, 1))
	l.Kind, l.Reason = Skipped, "4111111111111111 is a test card"
	l.ErrorMessage = "declined: 4111111111111111"
	l.FirstErrorMessage = "4111111111111111"
	l.Stack = "pay(4111111111111111)"
	for limit := range 60 {
		for _, h := range l.Headers(redact, limit) {
			if strings.Contains(string(h.Value), "4111") {
				t.Errorf("limit %d: %s tells the card: %q", limit, h.Key, h.Value)
			}
		}
	}
	i, _ := Read(l.Headers(redact, 1000))
	if i.Reason != "skipped by a person after 14 attempts: [card] is a test card; last error: declined: [card]" || i.Stack != "pay([card])" {
		t.Errorf("%+v", i)
	}
}

func TestRedactThatPanicsStopsNoLetter(t *testing.T) {
	l := letter(record(0, 1))
	i, err := Read(l.Headers(func(string) string { panic("no") }, 1000))
	if err != nil || i.ErrorMessage != "(not written: Redact panicked on it)" {
		t.Errorf("%+v, %v", i, err)
	}
}

func TestTextsAreCutBetweenRunes(t *testing.T) {
	const text = "grüße an 世界 😀"
	for limit := -1; limit <= len(text)+1; limit++ {
		got := cut(text, limit)
		if !utf8.ValidString(got) || len(got) > max(0, limit) {
			t.Errorf("cut to %d: %q", limit, got)
		}
		if limit < len(text) && limit >= len(ellipsis) && !strings.HasSuffix(got, ellipsis) {
			t.Errorf("cut to %d without a mark: %q", limit, got)
		}
	}
}

func FuzzCut(f *testing.F) {
	f.Add("grüße \x1b[31m\x00\xff\u202e", 7)
	f.Fuzz(func(t *testing.T, s string, limit int) {
		p := printable(s)
		for _, r := range p {
			if unicode.IsControl(r) && r != '\n' && r != '\t' {
				t.Errorf("%q has control character %q", p, r)
			}
		}
		got := cut(p, limit)
		if !utf8.ValidString(got) || len(got) > max(0, limit) {
			t.Errorf("cut(%q, %d) = %q", s, limit, got)
		}
		if len(p) <= limit && got != p {
			t.Errorf("%q was cut to %q, though it fits", p, got)
		}
		if strings.ContainsAny(oneLine(s), "\n\t") {
			t.Errorf("%q has lines", oneLine(s))
		}
	})
}
