package main

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/breakwater-go/breakwater/consumer"
	"github.com/breakwater-go/breakwater/observe"
)

// screen is as much of a terminal as the board needs: it wraps long lines, goes up, and clears.
type screen struct {
	width    int
	rows     [][]rune
	row, col int
}

func (s *screen) Write(p []byte) (int, error) {
	for text := string(p); text != ""; {
		if rest, found := strings.CutPrefix(text, "\x1b["); found {
			end := strings.IndexFunc(rest, func(r rune) bool { return r >= '@' && r <= '~' })
			s.control(rest[:end], rest[end])
			text = rest[end+1:]
			continue
		}
		r, n := utf8.DecodeRuneInString(text)
		text = text[n:]
		switch {
		case r == '\r':
			s.col = 0
		case r == '\n':
			s.row, s.col = s.row+1, 0
		default:
			if s.col == s.width {
				s.row, s.col = s.row+1, 0
			}
			for len(s.rows) <= s.row {
				s.rows = append(s.rows, nil)
			}
			for len(s.rows[s.row]) <= s.col {
				s.rows[s.row] = append(s.rows[s.row], ' ')
			}
			s.rows[s.row][s.col] = r
			s.col++
		}
	}
	return len(p), nil
}

func (s *screen) control(parameter string, what byte) {
	switch what {
	case 'A':
		var n int
		fmt.Sscan(parameter, &n)
		s.row -= n
	case 'K', 'J':
		if s.row < len(s.rows) {
			s.rows[s.row] = s.rows[s.row][:min(s.col, len(s.rows[s.row]))]
			if what == 'J' {
				s.rows = s.rows[:s.row+1]
			}
		}
	case 'm', 'h', 'l':
	default:
		panic(fmt.Sprintf("the board sends %q%c", parameter, what))
	}
}

func (s *screen) String() string {
	var b strings.Builder
	for _, row := range s.rows {
		b.WriteString(strings.TrimRight(string(row), " ") + "\n")
	}
	return strings.TrimRight(b.String(), "\n") + "\n"
}

func liveBoard(width, height int) (*board, *screen) {
	s := &screen{width: width}
	return &board{began: time.Now(), live: true, colour: true, out: s, size: func() (int, int) { return width, height }}, s
}

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func outage() view {
	v := view{now: noon, strategy: "cmd/demo/strategy.json", figures: figures{produced: 212, handled: 180, dead: 1, whileDown: 3, isDown: true, downFor: 3200 * time.Millisecond}}
	v.status.Strategy = "calls at 0s, 1s, 3s, 7s, 11s, then the DLQ (5 calls)"
	v.status.Breaker = consumer.BreakerStatus{State: "open", Episode: "70b88feb", Opened: noon.Add(-3 * s), RetryAt: noon.Add(1300 * time.Millisecond)}
	for p := range int32(3) {
		v.status.Partitions = append(v.status.Partitions, consumer.PartitionStatus{Topic: "orders", Partition: p, Paused: p > 0, Reasons: []string{"breaker"}, Records: int64(p)})
	}
	v.status.Partitions[2].Reasons = []string{"breaker", "held"}
	v.status.Held = []consumer.HeldRecord{{Topic: "orders", Partition: 2, Offset: 17, Attempts: 2, WaitsFor: "retry", RetryAt: noon.Add(1300 * time.Millisecond)}}
	return v
}

func TestThePictureOfAnOutage(t *testing.T) {
	got := strings.Join(outage().picture(func(_, text string) string { return text }, 80, 24), "\n")
	want := strings.Repeat("─", 79) + `
breaker   OPEN    next call in 1.3s  open for 3.0s, episode 70b88feb  ▪▪▪▪▪▪
payments  DOWN    for 3.2s, 3 calls reached it while down
orders/0  waits: breaker           0 buffered
orders/1  paused: breaker          1 buffered
orders/2  paused: breaker, held    2 buffered  @17 failed 2×, waits 1.3s
produced  212 = 180 handled + 1 dead-lettered + 31 to come
strategy  calls at 0s, 1s, 3s, 7s, 11s, then the DLQ (5 calls)`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestEventsScrollByAbovePicturesThatStayInPlace(t *testing.T) {
	b, screen := liveBoard(80, 24)
	v := outage()
	b.draw(v)
	b.say("OPEN", red, "a short line")
	b.draw(v)
	b.say("DLQ", red, strings.Repeat("a line that is too long for the terminal, ", 4))
	v.status.Partitions = v.status.Partitions[:1] // a smaller picture
	b.draw(v)
	got := screen.String()
	for _, once := range []string{"a short line", "breaker   OPEN", "orders/0", "strategy  "} {
		if strings.Count(got, once) != 1 {
			t.Errorf("%q is there %d times, want once, in\n%s", once, strings.Count(got, once), got)
		}
	}
	if strings.Contains(got, "orders/1") || strings.Index(got, "a short line") > strings.Index(got, "breaker") {
		t.Errorf("the screen is\n%s", got)
	}
	b.close()
	b.say("end", plain, "after it")
	if got := screen.String(); strings.Contains(got, "breaker") || !strings.Contains(got, "a short line") || !strings.Contains(got, "after it") {
		t.Errorf("the screen is\n%s", got)
	}
}

func TestThePictureFitsTheTerminal(t *testing.T) {
	v := outage()
	for p := range int32(200) {
		v.status.Partitions = append(v.status.Partitions, consumer.PartitionStatus{Topic: strings.Repeat("long", 30), Partition: p, Reasons: []string{"breaker", "held", "operator", "dlq"}})
	}
	for _, size := range [][2]int{{80, 24}, {120, 40}, {20, 10}, {1, 1}} {
		b, screen := liveBoard(size[0], size[1])
		b.draw(v)
		for _, row := range screen.rows {
			if len(row) >= size[0] && size[0] > 1 {
				t.Errorf("%v: a row of %d characters, which wraps when the cursor goes on", size, len(row))
			}
		}
		if n := len(screen.rows); n >= size[1] && size[1] > 6 {
			t.Errorf("%v: %d rows", size, n)
		}
	}
}

func TestElsewhereThanOnATerminalThereAreOnlyLines(t *testing.T) {
	var out strings.Builder
	b := newBoard(&out)
	b.draw(outage())
	b.say("OPEN", red, "sent by somebody: \x1b[2J\r\nhello")
	b.close()
	if got := out.String(); strings.ContainsAny(got, "\x1b\r") || strings.Count(got, "\n") != 2 {
		t.Errorf("%q", got)
	}
}

func TestEachEventIsOneLineInFewWords(t *testing.T) {
	e := observe.Event{At: noon, RetryAt: noon.Add(1300 * time.Millisecond), Topic: "orders", Partition: 2, Offset: 17, Attempt: 2, Count: 6, For: 6 * s,
		Err: errors.New("payments answered 503")}
	for kind, want := range map[observe.Kind]string{
		observe.Tripped:     "orders/2@17: payments answered 503. All pause, next call in 1.3s",
		observe.ProbeFailed: "orders/2@17: payments answered 503. Stays open, next call in 1.3s",
		observe.AlsoFailed:  "orders/2@17: payments answered 503. Was under way, waits too",
		observe.Held:        "orders/2@17: payments answered 503. Waits alone, next call in 1.3s",
		observe.Probing:     "orders/2@17, attempt 2",
		observe.Closed:      "orders/2@17 succeeded after 6.0s: everything resumes",
		observe.Assigned:    "6 partitions assigned",
	} {
		e.Kind = kind
		if _, _, got := tell(e); got != want || len(margin)+len(got) > 80 {
			t.Errorf("%v: %q, want %q", kind, got, want)
		}
	}
	// One that the demo has no words for has those of observe.
	e.Kind, e.Text = observe.StoreAway, "attempts are counted in memory"
	if _, tone, got := tell(e); tone != red || !strings.Contains(got, e.Kind.Sentence()) || !strings.Contains(got, e.Text) || !strings.Contains(got, "503") {
		t.Errorf("%q in %q", got, tone)
	}
}

func TestFit(t *testing.T) {
	for _, c := range []struct{ line, want string }{
		{"short", "short"},
		{"just five", "just "},
		{red + "x" + reset + "just five", red + "x" + reset + "just" + reset},
		{"×××××", "×××××"},
		{"××××××", "×××××"},
		{"12345" + reset, "12345" + reset},
	} {
		if got := fit(c.line, 5); got != c.want {
			t.Errorf("%q is cut to %q, want %q", c.line, got, c.want)
		}
	}
}
