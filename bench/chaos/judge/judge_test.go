package judge

import (
	"strings"
	"testing"
	"time"

	"github.com/breakwater-go/breakwater/dlq"
)

// A judge that cannot find anything is worth nothing: each violation is made by hand, and found, and each excuse is an excuse for what it says and no more.

var began = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// at is an instant of the history, in seconds.
func at(s float64) time.Time { return began.Add(time.Duration(s * float64(time.Second))) }

// good is a history in which nothing is wrong: five records, of which 1 fails once, 2 is refused and 3 fails until no interval is left. The partition moves from
// "a" to "b" in the middle of the waits of 3.
func good() History {
	call := func(who string, offset int64, attempt int, s float64, a Answer) Call {
		return Call{ID: ID{0, offset}, Caller: who, Attempt: attempt, Began: at(s), Ended: at(s + 0.1), Answer: a}
	}
	letter := func(who string, offset int64, kind dlq.Kind, attempts int) Letter {
		return Letter{ID: ID{0, offset}, Info: dlq.Info{Kind: kind, Attempts: attempts, Instance: who, FailedAt: at(9)}}
	}
	return History{
		Intervals: []time.Duration{time.Second, 4 * time.Second}, CrashLimit: 3, Ends: []int64{5}, Bound: time.Minute,
		Calls: []Call{
			call("a", 0, 1, 1, OK), call("a", 1, 1, 2, Failed), call("a", 1, 2, 4, OK), call("a", 2, 1, 5, Refused), call("a", 3, 1, 6, Failed),
			call("b", 3, 2, 22, Failed), call("b", 3, 3, 27, Failed), call("b", 4, 1, 28, OK),
		},
		Letters: []Letter{letter("a", 2, dlq.Permanent, 1), letter("b", 3, dlq.Exhausted, 3)},
		Lives:   []Life{{Name: "a", Began: at(0), Ended: at(20), How: "left"}, {Name: "b", Began: at(0), Ended: at(60), How: "left"}},
		Owned:   []Owned{{"a", 0, at(0), at(20)}, {"b", 0, at(21), at(60)}},
		Samples: []Sample{{at(5), at(5.2), []int64{2}}, {at(19), at(19.1), []int64{3}}, {at(50), at(50.1), []int64{5}}},
	}
}

func TestGoodHistoryIsGood(t *testing.T) {
	f := Judge(good())
	if len(f.Violations) != 0 || len(f.Excuses) != 0 {
		t.Fatalf("%+v", f)
	}
	if f.Done != 3 || f.Dead != 2 || f.Open != 0 {
		t.Errorf("%d handled, %d dead, %d open", f.Done, f.Dead, f.Open)
	}
}

func TestViolationsAreFound(t *testing.T) {
	for name, test := range map[string]struct {
		spoil func(h *History)
		law   string
		text  string
	}{
		"lost": {func(h *History) { h.Calls = h.Calls[:7] }, "1:", "neither handled nor dead-lettered"},
		"not done in time": {func(h *History) {
			h.Ends[0] = 6
		}, "progress", "after the faults had ended"},
		"done and not committed":       {func(h *History) { h.Samples[2].Committed[0] = 4 }, "progress", "not committed"},
		"committed before it was done": {func(h *History) { h.Samples[0].Committed[0] = 5 }, "1:", "before it was done"},
		"committed backwards":          {func(h *History) { h.Samples[1].Committed[0] = 1 }, "19:", "and then 1"},
		"called again after its commit": {func(h *History) {
			h.Calls[5].ID.Offset = 0
			h.Owned[1].From = at(21.9)
			h.Samples[0] = Sample{at(5), at(5.2), []int64{2}}
		}, "6:", "committed since"},
		"early in a process": {func(h *History) { h.Calls[2].Began = at(3) }, "7:", "100ms early"},
		"early after a move": {func(h *History) {
			h.Intervals[1] = 10 * time.Second
			h.Calls[4].Attempt, h.Calls[4].Began, h.Calls[4].Ended = 2, at(15), at(15.1)
			h.Calls[5].Attempt = 3
		}, "7:", "early"},
		"the count starts over after a move": {func(h *History) { h.Calls[5].Attempt = 1; h.Calls[6].Attempt = 2 }, "11:", "nothing kept the failure from being stored"},
		"the count starts over in a process": {func(h *History) { h.Calls[2].Attempt = 1 }, "6:", "counts attempt 1 after attempt 1"},
		"the count jumps":                    {func(h *History) { h.Calls[2].Attempt = 3 }, "6:", "counts attempt 3 after attempt 1"},
		"starts at two":                      {func(h *History) { h.Calls[0].Attempt = 2 }, "6:", "its first call is attempt 2"},
		"one call too many":                  {func(h *History) { h.Calls[6].Attempt = 4 }, "6:", "the strategy permits 3"},
		"called again after success":         {func(h *History) { h.Calls[1].Answer = OK }, "6:", "after attempt 1 was ok"},
		"called again after a refusal":       {func(h *History) { h.Calls[1].Answer = Refused }, "6:", "after attempt 1 was refused"},
		"two calls at once":                  {func(h *History) { h.Calls[2].Ended = at(5.5) }, "15:", "still ran"},
		"out of order":                       {func(h *History) { h.Calls[0].Began, h.Calls[0].Ended = at(4.5), at(4.6) }, "15:", "called it after 0@1"},
		"passed over": {func(h *History) {
			h.Calls[2].Answer = Failed
			h.Calls = append(h.Calls, Call{ID: ID{0, 1}, Caller: "b", Attempt: 3, Began: at(30), Ended: at(31), Answer: OK})
		}, "15:", "passed it over"},
		"a letter that differs": {func(h *History) { h.Letters[0].Wrong = "the key was nil" }, "14:", "the key was nil"},
		"exhausted too early":   {func(h *History) { h.Letters[1].Info.Attempts = 2 }, "6:", "exhausted after 2 attempts"},
		"exhausted with calls that nobody saw": {func(h *History) {
			h.Calls = append(h.Calls[:6], h.Calls[7])
		}, "6:", "only 2 reached the dependency"},
		"permanent without a refusal": {func(h *History) { h.Letters[1].Info.Kind = dlq.Permanent }, "6:", "no call was refused"},
		"a panic that was none":       {func(h *History) { h.Letters[1].Info.Kind = dlq.PanicKind }, "6:", "was not asked for"},
		"a crash that was none":       {func(h *History) { h.Letters[1].Info.Kind = dlq.Crash }, "6:", "fewer than 3"},
		"skipped by nobody":           {func(h *History) { h.Letters[1].Info.Kind = dlq.Skipped }, "6:", "nobody asked for"},
		"two letters from one owner":  {func(h *History) { h.Letters = append(h.Letters, h.Letters[1]) }, "6:", "two dead letters"},
		"handled and dead-lettered":   {func(h *History) { h.Letters = append(h.Letters, Letter{ID: ID{0, 4}, Info: h.Letters[1].Info}) }, "6:", "dead-lettered by it as well"},
		"a member that crashed":       {func(h *History) { h.Lives[0].Wrong = "crashed" }, "members", "a: crashed"},
	} {
		t.Run(name, func(t *testing.T) {
			h := good()
			test.spoil(&h)
			for _, v := range Judge(h).Violations {
				if strings.HasPrefix(v.Law, test.law) && strings.Contains(v.Text, test.text) {
					if v.Record != "" && !strings.HasPrefix(v.Law, "progress") && len(v.Story) == 0 {
						t.Errorf("no story of %s", v.Record)
					}
					return
				}
			}
			t.Errorf("not found: %+v", Judge(h).Violations)
		})
	}
}

// restarted is a history whose count starts over when the partition moves, 10 s too early: a violation, unless something excuses it.
func restarted() History {
	h := good()
	h.Calls[5].Attempt, h.Calls[6].Attempt = 1, 2
	last := h.Calls[6]
	last.Attempt, last.Began, last.Ended = 3, at(32), at(32.1)
	h.Calls[7].Began, h.Calls[7].Ended = at(33), at(33.1)
	h.Calls = append(h.Calls, last)
	return h
}

func TestExcusesAreForWhatTheySay(t *testing.T) {
	for name, test := range map[string]struct {
		excuse func(h *History)
		kind   string // "": no excuse
	}{
		"nothing":                    {func(*History) {}, ""},
		"killed at once":             {func(h *History) { die(h, 6.5) }, "killed"},
		"killed a second after":      {func(h *History) { die(h, 7.1) }, ""},
		"frozen at once":             {func(h *History) { h.Lives[0].Frozen = []Span{{at(6.05), at(15), ""}} }, "frozen"},
		"frozen before":              {func(h *History) { h.Lives[0].Frozen = []Span{{at(3), at(5), ""}} }, ""},
		"another was frozen":         {func(h *History) { h.Lives[1].Frozen = []Span{{at(6), at(15), ""}} }, ""},
		"Redis away for long":        {func(h *History) { h.Store = []Span{{at(6), at(18), ""}} }, "not back before"},
		"Redis away again and again": {func(h *History) { h.Store = []Span{{at(6), at(10), ""}, {at(11), at(18), ""}} }, "not back before"},
		"Redis back in time":         {func(h *History) { h.Store = []Span{{at(6), at(10), ""}} }, ""},
		"Redis away in between":      {func(h *History) { h.Store = []Span{{at(8), at(15), ""}} }, ""},
		"Redis away for the next":    {func(h *History) { h.Store = []Span{{at(20), at(21.5), ""}} }, "when the next owner asked"},
		"Redis away long before":     {func(h *History) { h.Store = []Span{{at(0), at(1), ""}} }, ""},
		"taken away":                 {func(h *History) { h.Owned[0].To = at(6.3) }, "taken away meanwhile"},
		"taken away after a second":  {func(h *History) { h.Owned[0].To = at(7.1) }, ""},
		"cut short":                  {func(h *History) { h.Owned[0].To = at(7.1); h.Calls[4].Answer = Silent }, "taken away meanwhile"},
		"the member could not reach": {func(h *History) { h.StoreSaid = []Span{{at(6), at(18), "a"}} }, "said"},
		"a third could not reach":    {func(h *History) { h.StoreSaid = []Span{{at(6), at(8), "c"}} }, ""},
		"two owners at once":         {func(h *History) { h.Owned[1].From = at(5) }, "two owners"},
	} {
		t.Run(name, func(t *testing.T) {
			h := restarted()
			test.excuse(&h)
			f := Judge(h)
			var kinds []string
			for kind := range f.Excuses {
				kinds = append(kinds, kind)
			}
			switch {
			case test.kind == "" && len(f.Violations) == 0:
				t.Errorf("excused by %q", kinds)
			case test.kind != "" && len(f.Violations) > 0:
				t.Errorf("not excused: %+v", f.Violations)
			case test.kind != "" && !strings.Contains(strings.Join(kinds, "; "), test.kind):
				t.Errorf("excused by %q", kinds)
			}
		})
	}
}

// die kills "a", and with it its ownership.
func die(h *History, s float64) {
	h.Lives[0].Ended, h.Lives[0].Dirty, h.Owned[0].To = at(s), true, at(s)
}

func TestWithinAnOwnershipNothingExcusesAnEarlyCall(t *testing.T) {
	h := good()
	h.Calls[2].Began = at(3)
	h.Store = []Span{{at(0), at(60), ""}}
	h.Lives[0].Frozen = []Span{{at(2), at(3), ""}}
	if f := Judge(h); len(f.Violations) == 0 {
		t.Error("excused")
	}
}

func TestRepeatAfterAMoveIsExcusedAndCounted(t *testing.T) {
	h := good()
	again := h.Calls[3] // the refusal of 2, whose commit a death cut short
	again.Caller, again.Began, again.Ended = "b", at(21.5), at(21.6)
	h.Calls = append(h.Calls, again)
	h.Samples[1].Committed[0] = 2
	h.Letters = append(h.Letters, Letter{ID: again.ID, Info: dlq.Info{Kind: dlq.Permanent, Attempts: 1, Instance: "b", FailedAt: at(22)}})
	die(&h, 20)
	f := Judge(h)
	if len(f.Violations) > 0 {
		t.Errorf("%+v", f.Violations)
	}
	if len(f.Excuses) != 2 {
		t.Errorf("%+v", f.Excuses)
	}
}

func TestAnswerThatDidNotReachTheCallerIsExcused(t *testing.T) {
	h := good()
	h.Calls[1].Answer = OK
	h.Calls[2].LastError = "Post: context deadline exceeded"
	f := Judge(h)
	if len(f.Violations) > 0 || len(f.Excuses) != 1 {
		t.Errorf("%+v", f)
	}
}

// down is a history of an outage: "a" sees it with two calls at once, and probes twice.
func down() History {
	h := good()
	h.Trips, h.Down = 1, []Span{{at(30), at(50), ""}}
	h.Ends = []int64{5, 1}
	for i := range h.Samples {
		h.Samples[i].Committed = append(h.Samples[i].Committed, 0)
	}
	h.Samples[2].Committed[1] = 1
	h.Owned = append(h.Owned, Owned{"b", 1, at(0), at(60)})
	h.Ends[0] = 6
	h.Samples[2].Committed[0] = 6
	b := func(p int32, offset int64, attempt int, s float64, a Answer) Call {
		return Call{ID: ID{p, offset}, Caller: "b", Attempt: attempt, Began: at(s), Ended: at(s + 0.1), Answer: a}
	}
	h.Calls = append(h.Calls,
		b(0, 5, 1, 31, Failed), b(1, 0, 1, 31.05, Failed), // both had begun
		b(0, 5, 2, 32.2, Failed), b(1, 0, 2, 36.5, Failed),
		b(0, 5, 3, 50.2, OK), b(1, 0, 3, 50.3, OK))
	h.Samples[2] = Sample{at(58), at(58.1), []int64{6, 1}}
	return h
}

func TestProbesComeOneByOneAndNotTooSoon(t *testing.T) {
	for name, test := range map[string]struct {
		spoil func(h *History)
		wrong bool
	}{
		"as it should be":         {func(*History) {}, false},
		"two at once":             {func(h *History) { h.Calls[11].Began = at(32.25) }, true},
		"two in a row":            {func(h *History) { h.Calls[11].Began, h.Calls[11].Ended = at(32.8), at(32.9) }, true},
		"too soon after the trip": {func(h *History) { h.Calls[10].Began, h.Calls[10].Ended = at(31.9), at(32) }, true},
		"each has its own":        {func(h *History) { h.PerPart = true; h.Calls[11].Began, h.Calls[11].Ended = at(32.8), at(32.9) }, false},
		"three to trip":           {func(h *History) { h.Trips = 3; h.Calls[10].Began, h.Calls[10].Ended = at(31.9), at(32) }, false},
		"it was taken away":       {func(h *History) { h.Calls[11].Began, h.Calls[11].Ended = at(32.8), at(32.9); h.Owned[1].To = at(33) }, false},
		"no outage":               {func(h *History) { h.Down = nil; h.Calls[11].Began, h.Calls[11].Ended = at(32.8), at(32.9) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			h := down()
			test.spoil(&h)
			var found []Violation
			for _, v := range Judge(h).Violations {
				if strings.HasPrefix(v.Law, "9:") {
					found = append(found, v)
				} else if name == "as it should be" {
					t.Errorf("%+v", v)
				}
			}
			if (len(found) > 0) != test.wrong {
				t.Errorf("%+v", found)
			}
		})
	}
}

func TestLetterWhoseAcknowledgementWasLostIsWrittenTwice(t *testing.T) {
	for name, test := range map[string]struct {
		spoil func(h *History)
		wrong int
	}{
		"brokers failed":      {func(h *History) { h.Network = []Span{{at(8), at(12), ""}} }, 0},
		"brokers failed then": {func(h *History) { h.Network = []Span{{at(10), at(12), ""}} }, 0},
		"not for so long":     {func(h *History) { h.Network = []Span{{at(20), at(22), ""}} }, 1},
		"two verdicts": {func(h *History) {
			h.Network = []Span{{at(8), at(12), ""}}
			h.Letters[2].Info.FailedAt = at(9.5)
		}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			h := good()
			h.Letters = append(h.Letters, h.Letters[1])
			test.spoil(&h)
			if f := Judge(h); len(f.Violations) != test.wrong || len(f.Excuses) != 1-test.wrong {
				t.Errorf("%+v", f)
			}
		})
	}
}

// "a" has called record 3 as often as the strategy permits when it is killed, and Redis is away when "b" asks: it calls once more, and reads of the others then.
func TestAttemptsThatWereReadLateAreExcused(t *testing.T) {
	for name, test := range map[string]struct {
		spoil func(h *History)
		wrong int
	}{
		"Redis was away":       {func(h *History) { h.Store = []Span{{at(20), at(22), ""}} }, 0},
		"Redis was well":       {func(*History) {}, 2}, // the attempts, and the letter
		"Redis away before":    {func(h *History) { h.Store = []Span{{at(8), at(12), ""}} }, 2},
		"not all were made":    {func(h *History) { h.Store = []Span{{at(20), at(22), ""}}; h.Letters[1].Info.Attempts = 5 }, 1},
		"another's was away":   {func(h *History) { h.Store = []Span{{at(20), at(22), ""}}; h.Letters[1].Info.Instance = "a" }, 1},
		"too few all the same": {func(h *History) { h.Store = []Span{{at(20), at(22), ""}}; h.Letters[1].Info.Attempts = 2 }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			h := good()
			h.Calls[5] = Call{ID: ID{0, 3}, Caller: "a", Attempt: 2, Began: at(8), Ended: at(8.1), Answer: Failed}
			h.Calls[6] = Call{ID: ID{0, 3}, Caller: "a", Attempt: 3, Began: at(13), Ended: at(13.1), Answer: Failed}
			h.Calls = append(h.Calls, Call{ID: ID{0, 3}, Caller: "b", Attempt: 1, Began: at(23), Ended: at(23.1), Answer: Failed})
			h.Letters[1].Info.Attempts = 4
			test.spoil(&h)
			if f := Judge(h); len(f.Violations) != test.wrong {
				t.Errorf("%+v\n%+v", f.Violations, f.Excuses)
			}
		})
	}
}

func TestInterruptedRunIsNotLate(t *testing.T) {
	h := good()
	h.Ends[0], h.Interrupted = 7, true
	if f := Judge(h); len(f.Violations) > 0 || f.Open != 2 {
		t.Errorf("%+v", f)
	}
	h.Samples[2].Committed[0] = 6
	if f := Judge(h); len(f.Violations) == 0 {
		t.Error("what is committed and was not done is lost, however the run ended")
	}
}

func TestCallThatArrivesAfterTheLossIsTheOldOwnerships(t *testing.T) {
	h := good()
	// Record 3 was sent before "b" had lost the partition, and arrived when it had it again.
	h.Owned = []Owned{{"a", 0, at(0), at(20)}, {"b", 0, at(21), at(30)}, {"b", 0, at(30.1), at(60)}}
	late := Call{ID: ID{0, 4}, Caller: "b", Attempt: 1, Sent: at(29.9), Began: at(30.2), Ended: at(30.3), Answer: OK}
	h.Calls[7] = late
	h.Calls = append(h.Calls, Call{ID: ID{0, 4}, Caller: "b", Attempt: 1, Began: at(31), Ended: at(31.1), Answer: OK})
	if f := Judge(h); len(f.Violations) > 0 {
		t.Errorf("%+v", f.Violations)
	}
}
