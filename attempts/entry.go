package attempts

// What an entry may say, and which of two stands. Both stores go through here, so that nothing without a bound gets
// into them and both answer alike.

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// kinds are the verdicts that there can be: the KIND header of the dead letter that is due, and "" for none.
var kinds = map[string]bool{"": true, "permanent": true, "panic": true, "exhausted": true, "crash": true, "skipped": true}

// check refuses an entry that no caller can mean.
func (e Entry) check(r Record) error {
	switch {
	case r.Offset < 0:
		return fmt.Errorf("attempts: offset %d is no record's; save it under the offset that the record has", r.Offset)
	case e.Attempts < 1:
		return fmt.Errorf("attempts: an entry has at least one attempt, this one has %d; save it when its call has failed or is noted", e.Attempts)
	case !kinds[e.Verdict]:
		return fmt.Errorf("attempts: verdict %q is unknown; use permanent, panic, exhausted, crash or skipped", e.Verdict)
	case e.Noted && e.Verdict != "":
		return fmt.Errorf("attempts: a note has no verdict, this one has %q; save one or the other", e.Verdict)
	}
	return nil
}

// bounded is e as a store keeps it.
func (e Entry) bounded() Entry {
	e.Attempts = min(e.Attempts, MaxAttempts)
	e.Deaths = max(0, min(e.Deaths, MaxAttempts))
	e.Wait = max(0, min(e.Wait, MaxWait))
	if !e.FirstFailed.IsZero() {
		e.FirstFailed = time.UnixMilli(max(1, min(e.FirstFailed.UnixMilli(), lastInstant))).UTC()
	}
	e.FirstError = cut(e.FirstError, MaxErrorText)
	e.LastError = cut(e.LastError, MaxErrorText)
	e.Class = cut(e.Class, MaxClass)
	e.Stack = cut(e.Stack, MaxStack)
	return e
}

// replaces says whether e, written over old, stands: more attempts before fewer, then a verdict before a note, then one
// that is due for the DLQ before one that is retried. What is equal is a repeat, and old stands.
func (e Entry) replaces(old Entry) bool {
	switch {
	case e.Attempts != old.Attempts:
		return e.Attempts > old.Attempts
	case e.Noted != old.Noted:
		return old.Noted
	default:
		return e.Verdict != "" && old.Verdict == ""
	}
}

// cut is text as UTF-8 of at most limit bytes, ending between two characters.
func cut(text string, limit int) string {
	text = strings.ToValidUTF8(text, string(utf8.RuneError))
	if len(text) <= limit {
		return text
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit]
}
