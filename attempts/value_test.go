package attempts

import (
	"math"
	"testing"
	"time"
	"unicode/utf8"
)

func FuzzDecode(f *testing.F) {
	now := time.Now().UnixMilli()
	r := NewRecord(42, time.UnixMilli(now))
	for _, e := range []Entry{{Attempts: 1}, {Attempts: MaxAttempts, Deaths: 3, Noted: true, Wait: MaxWait, FirstFailed: time.UnixMilli(now), Stack: "x"}} {
		text, err := encode(r, e)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(int64(42), string(text), now)
	}
	f.Add(int64(-1), `{"id":"9223372036854775807","attempts":1}`, int64(math.MinInt64))
	f.Add(int64(0), `{"id":"-9223372036854775808","attempts":1,"wait":1209600000,"at":99999999999999}`, int64(0))
	f.Fuzz(func(t *testing.T, offset int64, text string, now int64) {
		r, e, ok := decode(offset, text, now)
		if !ok {
			return
		}
		if r.Offset != offset || r != NewRecord(r.Offset, r.Timestamp) {
			t.Errorf("record %v is not in its one form", r)
		}
		if e.Attempts < 1 || e.Attempts > MaxAttempts || e.Deaths < 0 || e.Wait < 0 || e.Wait > MaxWait || !kinds[e.Verdict] || e.Noted && e.Verdict != "" {
			t.Errorf("accepted %+v", e)
		}
		for _, s := range []string{e.FirstError, e.LastError, e.Class, e.Stack} {
			if !utf8.ValidString(s) || len(s) > MaxStack {
				t.Errorf("accepted a text of %d bytes", len(s))
			}
		}
		// What is accepted can be written, and reads the same.
		again, err := encode(r, e)
		if err != nil {
			t.Fatal(err)
		}
		r2, e2, ok := decode(offset, string(again), 0)
		e2.Wait = e.Wait
		if !ok || r2 != r || e2 != e {
			t.Errorf("%v %+v\nbecame\n%v %+v %v", r, e, r2, e2, ok)
		}
	})
}

func TestAWaitIsNeverRoundedDown(t *testing.T) {
	r := NewRecord(1, time.UnixMilli(5))
	for wait, want := range map[time.Duration]time.Duration{
		0: 0, 1: time.Millisecond, time.Millisecond: time.Millisecond, time.Millisecond + 1: 2 * time.Millisecond, MaxWait + 1: MaxWait, -1: 0,
	} {
		text, err := encode(r, Entry{Attempts: 1, Wait: wait})
		if err != nil {
			t.Fatal(err)
		}
		if _, e, ok := decode(1, string(text), 0); !ok || e.Wait != want {
			t.Errorf("a wait of %v is kept as %v, %v; want %v", wait, e.Wait, ok, want)
		}
	}
}

func TestOffsetsHaveOneName(t *testing.T) {
	for field, want := range map[string]int64{"0": 0, "17": 17, "9223372036854775807": math.MaxInt64} {
		if got, ok := decodeOffset(field); !ok || got != want {
			t.Errorf("%q is read as %d, %v", field, got, ok)
		}
	}
	for _, field := range []string{"", "-1", "+1", "01", "1 ", " 1", "1e3", "0x1", "1.0", "owner", "9223372036854775808", "１"} {
		if got, ok := decodeOffset(field); ok {
			t.Errorf("%q is read as %d", field, got)
		}
	}
}

func TestCut(t *testing.T) {
	for _, c := range []struct {
		text  string
		limit int
		want  string
	}{
		{"", 0, ""}, {"abc", 3, "abc"}, {"abc", 2, "ab"}, {"aé", 3, "aé"}, {"aé", 2, "a"}, {"鍵鍵", 5, "鍵"}, {"鍵", 2, ""}, {"😀😀", 7, "😀"},
		{"a\xffb", 10, "a\uFFFDb"}, {"\xff\xff", 3, "\uFFFD"}, {"a\xff", 3, "a"},
	} {
		if got := cut(c.text, c.limit); got != c.want {
			t.Errorf("cut(%q, %d) is %q, want %q", c.text, c.limit, got, c.want)
		}
	}
}

// Two records are the same exactly if == says so, however their timestamps were made.
func TestARecordHasOneForm(t *testing.T) {
	for _, ms := range []int64{0, -1, 1_700_000_000_123, time.Time{}.UnixMilli()} {
		want := NewRecord(7, time.UnixMilli(ms))
		for name, at := range map[string]time.Time{
			"UTC": time.UnixMilli(ms).UTC(), "a zone": time.UnixMilli(ms).In(time.FixedZone("x", 7200)), "nanoseconds": time.UnixMilli(ms).Add(999_999),
		} {
			if got := NewRecord(7, at); got != want {
				t.Errorf("%d ms from %s: %v, want %v", ms, name, got, want)
			}
		}
	}
	if NewRecord(0, time.Time{}) != (Record{}) {
		t.Error("a record without a timestamp differs from the zero Record")
	}
	now := time.Now() // with a monotonic reading
	if got := NewRecord(1, now); got != NewRecord(1, time.UnixMilli(now.UnixMilli())) {
		t.Error("the monotonic reading is part of the name")
	}
}
