package attempts

// What stands in a field of the hash: one entry as JSON, which a person can read with HGETALL. Whatever is read is
// distrusted: a value that Save can't have written is no entry at all. saveScript applies the same test, in Lua.

import (
	"encoding/json"
	"strconv"
	"time"
)

// lastInstant is the latest instant that a value may name, in milliseconds: the end of what Lua's JSON keeps exactly, in
// the year 5138.
const lastInstant = 99_999_999_999_999

// value is an entry on its way to and from Redis. Times are milliseconds since 1970, waits milliseconds.
type value struct {
	ID         string `json:"id"` // the record's timestamp
	Attempts   int64  `json:"attempts"`
	Deaths     int64  `json:"deaths"`
	Noted      bool   `json:"noted"`
	Wait       int64  `json:"wait"`
	At         int64  `json:"at"` // when the wait began, on the store's clock
	Verdict    string `json:"verdict"`
	First      int64  `json:"first"` // 0: none
	FirstError string `json:"firstError"`
	LastError  string `json:"lastError"`
	Class      string `json:"class"`
	Stack      string `json:"stack"`
}

// identity is what tells two records at the same offset apart.
func identity(r Record) string { return strconv.FormatInt(r.Timestamp.UnixMilli(), 10) }

// encode is e as saveScript takes it. The start of the wait is the script's to set.
func encode(r Record, e Entry) ([]byte, error) {
	e = e.bounded()
	v := value{
		ID: identity(r), Attempts: int64(e.Attempts), Deaths: int64(e.Deaths), Noted: e.Noted,
		Wait:    int64((e.Wait + time.Millisecond - 1) / time.Millisecond), // up: a retry is never early
		Verdict: e.Verdict, FirstError: e.FirstError, LastError: e.LastError, Class: e.Class, Stack: e.Stack,
	}
	if !e.FirstFailed.IsZero() {
		v.First = e.FirstFailed.UnixMilli()
	}
	return json.Marshal(v)
}

// decode is the record and the entry that text holds at the instant now, in milliseconds of the store's clock; ok is
// false where nobody here can have written it.
func decode(offset int64, text string, now int64) (r Record, e Entry, ok bool) {
	var v value
	if json.Unmarshal([]byte(text), &v) != nil {
		return r, e, false
	}
	id, err := strconv.ParseInt(v.ID, 10, 64)
	if err != nil {
		return r, e, false
	}
	r = NewRecord(offset, time.UnixMilli(id))
	within := func(x, most int64) bool { return 0 <= x && x <= most }
	if identity(r) != v.ID || v.Attempts < 1 || !within(v.Attempts, MaxAttempts) || !within(v.Deaths, MaxAttempts) ||
		!within(v.Wait, MaxWait.Milliseconds()) || !within(v.At, lastInstant) || !within(v.First, lastInstant) ||
		!kinds[v.Verdict] || v.Noted && v.Verdict != "" {
		return r, e, false
	}
	e = Entry{
		Attempts: int(v.Attempts), Deaths: int(v.Deaths), Noted: v.Noted,
		// The clock may have been set back, or a replica with another one taken over: never more than the wait.
		Wait:    time.Duration(max(0, min(v.Wait, v.At+v.Wait-now))) * time.Millisecond,
		Verdict: v.Verdict, FirstError: v.FirstError, LastError: v.LastError, Class: v.Class, Stack: v.Stack,
	}
	if v.First > 0 {
		e.FirstFailed = time.UnixMilli(v.First)
	}
	return r, e.bounded(), true
}

// decodeOffset reads the name of a field: the plain decimal number of an offset, and nothing else.
func decodeOffset(field string) (int64, bool) {
	offset, err := strconv.ParseInt(field, 10, 64)
	return offset, err == nil && offset >= 0 && strconv.FormatInt(offset, 10) == field
}
