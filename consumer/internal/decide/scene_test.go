package decide

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/breakwater-go/breakwater/attempts"
	"github.com/breakwater-go/breakwater/breaker"
	"github.com/breakwater-go/breakwater/observe"
	"github.com/breakwater-go/breakwater/strategy"
)

// A scene is a desk on a stage: its lanes offer records when the test says so, its clock moves when the test says so, and a store and a DLQ answer at
// once, unless they are told to be slow. It keeps what the desk wanted done.
type scene struct {
	t     *testing.T
	d     *Desk
	strat *swap
	now   time.Time
	parts []*Part
	next  []int64 // what each lane offers next

	slowStore, slowDLQ bool
	saving             []Effect // not answered yet
	saves              []Effect // all of them
	sending            []*Letter
	sent               []*Letter
	unnoted, forgotten []Effect
	events             []observe.Event
}

// swap is a strategy that can be edited.
type swap struct{ *strategy.Strategy }

func (s *swap) Current() *strategy.Strategy { return s.Strategy }

const never = time.Duration(-1)

// play sets up partitions that are assigned and may flow. The strategy is written without jitter, so that waits are exact.
func play(t *testing.T, json string, partitions int) *scene {
	t.Helper()
	s := stage(t, json)
	for range partitions {
		s.claimed(s.assign(), attempts.Loaded{})
	}
	return s
}

func stage(t *testing.T, json string) *scene {
	t.Helper()
	s := &scene{t: t, strat: &swap{strategy.MustParse(json)}, now: time.Unix(1e9, 0)}
	s.d = New(Settings{Strategy: s.strat, CrashLimit: 3, Pending: 2})
	return s
}

// simple is a strategy of a few intervals, without jitter, with more fields.
func simple(intervals, more string) string {
	if more != "" {
		more = ", " + more
	}
	return `{"intervals": ` + intervals + `, "jitter": 0` + more + `}`
}

func (s *scene) assign() int {
	i := len(s.parts)
	s.parts = append(s.parts, s.d.Assign(attempts.Partition{Topic: "orders", Partition: int32(i)}, nil))
	s.next = append(s.next, 10)
	s.d.Begun(s.now, s.parts[i])
	s.pump()
	return i
}

// again assigns partition i anew, at the record that it held.
func (s *scene) again(i int, l attempts.Loaded) {
	s.next[i] = s.parts[i].head.Offset
	s.parts[i] = s.d.Assign(s.parts[i].ID, nil)
	s.d.Begun(s.now, s.parts[i])
	s.claimed(i, l)
}

func (s *scene) claimed(i int, l attempts.Loaded) {
	s.d.Claimed(s.now, s.parts[i], &l)
	s.pump()
}

// at is the record at an offset, as the client delivers it: with a timestamp in local time.
func at(offset int64) Record {
	return Record{Offset: offset, Timestamp: time.UnixMilli(1_700_000_000_000 + offset)}
}

// stored is what a store keeps about the record at an offset.
func stored(offset int64, e attempts.Entry) attempts.Loaded {
	return attempts.Loaded{Entries: map[attempts.Record]attempts.Entry{attempts.NewRecord(offset, at(offset).Timestamp): e}}
}

// pump carries the desk's effects out.
func (s *scene) pump() {
	for {
		effects := slices.Clone(s.d.Effects())
		if len(effects) == 0 {
			return
		}
		for _, e := range effects {
			switch e.Do {
			case Save:
				s.saves = append(s.saves, e)
				s.ask(e)
			case Unnote:
				s.unnoted = append(s.unnoted, e)
				s.ask(e)
			case Forget:
				s.forgotten = append(s.forgotten, e)
			case Send:
				s.sent = append(s.sent, e.Letter)
				if s.slowDLQ {
					s.sending = append(s.sending, e.Letter)
				} else {
					s.d.LetterWritten(s.now, e.Part, e.Letter)
				}
			case Tell:
				s.events = append(s.events, e.Event)
			}
		}
	}
}

// ask has the store answer, at once or when it is told to.
func (s *scene) ask(e Effect) {
	if s.slowStore {
		s.saving = append(s.saving, e)
	} else {
		s.reply(e)
	}
}

func (s *scene) reply(e Effect) {
	if e.Do == Save {
		s.d.Saved(s.now, e.Part, e.Record, e.Entry, nil)
	} else {
		s.d.Unnoted(s.now, e.Part, e.Record)
	}
}

// offer has each of the lanes offer its next record.
func (s *scene) offer(lanes ...int) {
	for _, i := range lanes {
		s.d.Offer(s.now, s.parts[i], at(s.next[i]))
		s.next[i]++
		s.pump()
	}
}

// calm has a lane call its next record without asking.
func (s *scene) calm(i int) {
	s.t.Helper()
	if !s.parts[i].Calm() {
		s.t.Fatalf("partition %d is not calm", i)
	}
	stamp := s.parts[i].Stamp()
	s.d.Adopt(s.parts[i], at(s.next[i]), s.now, stamp)
	s.next[i]++
}

func (s *scene) result(i int, o Outcome) {
	s.t.Helper()
	if ph := s.parts[i].phase; ph != Calling && ph != Stalled {
		s.t.Fatalf("partition %d has no call that could end: it is %v", i, ph)
	}
	s.d.Result(s.now, s.parts[i], o)
	s.pump()
}

var (
	success   = Outcome{Kind: Success}
	transient = Outcome{Kind: Transient, Err: errors.New("down"), Text: "down", Class: "test"}
	permanent = Outcome{Kind: Permanent, Err: errors.New("bad"), Text: "bad", Class: "test"}
	panicked  = Outcome{Kind: Panic, Err: errors.New("boom"), Text: "boom", Stack: "stack"}
	neutral   = Outcome{Kind: Neutral}
)

func (s *scene) succeed(i int) { s.t.Helper(); s.result(i, success) }
func (s *scene) fail(i int)    { s.t.Helper(); s.result(i, transient) }

// outlive has the handler of i outlive its time.
func (s *scene) outlive(i int) {
	s.d.Outlived(s.now, s.parts[i], transient)
	s.pump()
}

// answer has the store answer everything that it was asked.
func (s *scene) answer() {
	pending := s.saving
	s.saving = nil
	for _, e := range pending {
		s.reply(e)
		s.pump()
	}
}

// acknowledge has the DLQ acknowledge, or refuse, what it was sent.
func (s *scene) acknowledge(err error) {
	pending := s.sending
	s.sending = nil
	for _, l := range pending {
		p := s.parts[s.of(l)]
		if err != nil {
			s.d.LetterFailed(s.now, p, l, err)
		} else {
			s.d.LetterWritten(s.now, p, l)
		}
		s.pump()
	}
}

func (s *scene) of(l *Letter) int {
	return slices.IndexFunc(s.parts, func(p *Part) bool { return slices.Contains(p.letters, l) })
}

// pass lets time pass, with the ticks that the desk has asked for.
func (s *scene) pass(d time.Duration) {
	end := s.now.Add(d)
	for wake := s.d.WakeAt(); !wake.IsZero() && !wake.After(end); wake = s.d.WakeAt() {
		if wake.After(s.now) {
			s.now = wake
		}
		s.d.Tick(s.now)
		s.pump()
	}
	s.now = end
}

// wait lets time pass until partition i is being called, and says how long that was; never.
func (s *scene) wait(i int) time.Duration {
	began := s.now
	for range 1000 {
		if s.parts[i].phase == Calling {
			return s.now.Sub(began)
		}
		wake := s.d.WakeAt()
		if wake.IsZero() {
			return never
		}
		s.pass(max(0, wake.Sub(s.now)))
	}
	return never
}

func (s *scene) phases(want ...Phase) {
	s.t.Helper()
	for i, w := range want {
		if got := s.parts[i].phase; got != w {
			s.t.Errorf("partition %d is %v, want %v", i, got, w)
		}
	}
}

// only checks that the records of these partitions are being called, and no others.
func (s *scene) only(lanes ...int) {
	s.t.Helper()
	for i, p := range s.parts {
		if calls := p.phase == Calling; calls != slices.Contains(lanes, i) {
			s.t.Errorf("partition %d is %v; called are to be %v", i, p.phase, lanes)
		}
	}
}

func (s *scene) breaker(want breaker.State) {
	s.t.Helper()
	if got := s.parts[0].scope.Breaker.State(); got != want {
		s.t.Errorf("the breaker is %v, want %v", got, want)
	}
}

// calledAfter waits for partition i, which has to be called after just so long.
func (s *scene) calledAfter(i int, want time.Duration) {
	s.t.Helper()
	if got := s.wait(i); got != want {
		s.t.Errorf("partition %d is called after %v, want %v", i, got, want)
	}
}

func (s *scene) storable(i int, want int64) {
	s.t.Helper()
	if got := s.parts[i].Storable(); got != want {
		s.t.Errorf("partition %d may store %d, want %d", i, got, want)
	}
}

// letters checks the kinds of the dead letters so far.
func (s *scene) letters(want ...string) {
	s.t.Helper()
	got := []string{}
	for _, l := range s.sent {
		got = append(got, string(l.Kind))
	}
	if !slices.Equal(got, want) {
		s.t.Errorf("dead letters %v, want %v", got, want)
	}
}

func (s *scene) told(k observe.Kind) (n int) {
	for _, e := range s.events {
		if e.Kind == k {
			n++
		}
	}
	return n
}

func (s *scene) lastSave() attempts.Entry {
	s.t.Helper()
	if len(s.saves) == 0 {
		s.t.Fatal("nothing was saved")
	}
	return s.saves[len(s.saves)-1].Entry
}

func (s *scene) reasons(i int, want Reason) {
	s.t.Helper()
	if got, _ := s.d.Reasons(s.parts[i], s.parts[i].phase != Empty); got != want {
		s.t.Errorf("partition %d is paused for %v, want %v", i, got, want)
	}
}

// flows checks that a partition calls record after record without asking.
func (s *scene) flows(i int) {
	s.t.Helper()
	if !s.parts[i].Calm() {
		s.t.Errorf("partition %d does not flow: %v", i, s.parts[i].phase)
	}
}
