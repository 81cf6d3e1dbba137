package consumer

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/breakwater-go/breakwater/internal/simkafka"
)

// Random schedules over the whole consumer, in virtual time. A seed says what is done, to a hair; what happens at one instant is for Go's scheduler to order, so a
// seed that failed once is tried a few times.
//
//	go test ./consumer -run TestRandomSchedules -args -schedules 5000 -seed 1

var (
	schedules = flag.Int("schedules", 80, "how many random schedules are played")
	shrinkFor = flag.Duration("shrink", time.Minute, "how long a schedule that failed is made shorter")
	firstSeed = flag.Uint64("seed", 1, "the seed of the first random schedule")
	showPlay  = flag.Bool("show", false, "show all that happens in a random schedule")
)

func TestRandomSchedules(t *testing.T) {
	n := *schedules
	if testing.Short() {
		n = min(n, 10)
	}
	for seed := *firstSeed; seed < *firstSeed+uint64(n); seed++ {
		sc := draw(seed)
		broken, seen := played(t, sc)
		if *showPlay {
			t.Log(strings.Join(seen, "\n"))
		}
		if len(broken) == 0 {
			continue
		}
		t.Errorf("seed %d: %v\n\tgo test -race ./consumer -run TestRandomSchedules -args -schedules 1 -seed %d", seed, broken[0], seed)
		small, seen := shrunk(t, sc, broken)
		t.Fatalf("the least that fails:\n%v\n%s", small, strings.Join(seen, "\n"))
	}
}

// replay plays a script that failed once.
func replay(t *testing.T, text string) {
	t.Helper()
	sc, err := parseScript(text)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if broken, seen := played(t, sc); len(broken) > 0 {
			t.Fatalf("%v\n%s", broken[0], strings.Join(seen, "\n"))
		}
	}
}

// played plays a script and answers what broke, and all that was seen.
func played(t *testing.T, sc script) (broken []violation, seen []string) {
	t.Helper()
	var s *stage
	// A schedule in which real time passes without an end holds a lock for ever; a bubble can't find that out.
	stuck := time.AfterFunc(2*time.Minute, func() {
		fmt.Fprintf(os.Stderr, "this script hangs in real time:\n%v", sc)
		panic("a random schedule hangs")
	})
	defer stuck.Stop()
	func() {
		defer func() {
			if v := recover(); v != nil {
				broken = []violation{{"end", 0, fmt.Sprint(v)}}
			}
		}()
		synctest.Test(t, func(*testing.T) {
			s = newStage(sc)
			s.perform()
		})
	}()
	return append(s.model.violations(), broken...), s.model.seen
}

// perform plays all steps, then lets everything get well, and looks whether everything gets done.
func (s *stage) perform() {
	defer s.end()
	for _, step := range s.script.steps {
		if !s.pass(step.at - s.model.now()) {
			return
		}
		s.play(step)
		synctest.Wait()
		s.look()
	}
	s.recover()
}

// pass lets time pass; false: a law is broken.
func (s *stage) pass(d time.Duration) bool {
	if d > 0 {
		time.Sleep(d)
	}
	synctest.Wait()
	s.look()
	return len(s.model.violations()) == 0
}

// look checks what an instance says of itself, and what its client says of it.
func (s *stage) look() {
	s.model.overdue()
	for _, a := range s.running() {
		st := a.c.Status()
		if misuse := a.client.Misuse(); len(misuse) > 0 {
			s.model.violate("2", "%s: %v", a.seen.name, misuse)
		}
		bound := s.memory(len(st.Partitions))
		if a.leaky {
			bound *= 4 // each pause that is lost lets one batch more in
		}
		if st.Bytes > bound || st.Bytes < 0 || st.Records < 0 {
			s.model.violate("16", "%s holds %d bytes, %d records; %d bytes are the most", a.seen.name, st.Bytes, st.Records, bound)
		}
	}
}

// memory is what an instance may hold: each lane its share, a hand-over of no more than that, and a record.
func (s *stage) memory(partitions int) int64 {
	budget := int64(defaultBufferBytes)
	if s.script.buffer == "tight" {
		budget = scriptTight
	}
	return 2*budget + int64(partitions)*(overhead+100)
}

// recover ends everything that is bad, and waits until every record is done and committed.
func (s *stage) recover() {
	s.model.note("---- everything gets well")
	now := time.Now()
	s.mu.Lock()
	s.storeEnd, s.dlqEnd, s.downEnd = now, now, now
	away := time.Until(s.awayEnd)
	plan := s.model.plans[len(s.model.plans)-1].plan
	s.cured = plan.hold || plan.budget >= 0
	s.mu.Unlock()
	if len(s.running()) == 0 {
		s.start(0)
	}
	for _, a := range s.running() {
		a.client.SetFaults(simkafka.Faults{})
		a.play(scriptStep{do: "resume", with: []string{"0", "all"}})
	}
	for p := range s.script.partitions {
		s.produce(int32(p), "ok", time.Millisecond)
	}
	bound := max(0, away) + s.bound(plan)
	began, look := time.Now(), 50*time.Millisecond
	for {
		if !s.pass(look) {
			return
		}
		left := s.model.undone()
		if len(left) == 0 {
			break
		}
		if time.Since(began) > bound {
			s.picture()
			s.model.violate("progress", "after %v: %s, …", bound, left[0])
			return
		}
		look = min(look+look/4, time.Second)
		for _, a := range s.running() {
			for _, h := range a.c.Status().Held {
				if h.WaitsFor == "person" || h.WaitsFor == "budget" {
					a.skip(h)
				}
			}
		}
	}
	s.model.note("everything is done, %v after", time.Since(began))
	s.rest()
}

// bound is the longest that it may take until everything is done, from what each record has still to go through, one after another at the worst.
func (s *stage) bound(p plan) time.Duration {
	s.model.mu.Lock()
	defer s.model.mu.Unlock()
	// Gates and waits that run, a handler that hangs, a session that ends, a start that was lost, letters that are sent again.
	bound := 60*time.Second + scriptSession + scriptHandlerTimeout
	for _, part := range s.model.parts {
		for _, r := range part.records {
			if r.succeeded || r.written() {
				continue
			}
			bound += r.latency
			switch what, _, d := r.is(); what {
			case "ok", "permanent", "panic", "goexit":
			case "kill":
				bound += (scriptCrashLimit + 2) * (scriptSession + 5*time.Second + p.total())
			default:
				bound += 2*p.total() + d + scriptHandlerTimeout
			}
		}
	}
	return bound
}

// rest checks that nothing is left behind when all is done.
func (s *stage) rest() {
	if !s.pass(2 * time.Second) {
		return
	}
	for _, a := range s.running() {
		st := a.c.Status()
		if st.Records != 0 || st.Bytes != 0 || len(st.Held) > 0 {
			s.model.violate("16", "%s has nothing to do and still holds %d records, %d bytes, %v", a.seen.name, st.Records, st.Bytes, st.Held)
		}
	}
}

// picture says what the instances say of themselves.
func (s *stage) picture() {
	for _, a := range s.running() {
		s.model.note("%s: %+v", a.seen.name, a.c.Status())
	}
}

// end stops every instance, and lets everything end.
func (s *stage) end() {
	s.model.note("---- the end")
	for slot := range scriptSlots {
		s.stop(slot)
	}
	s.mu.Lock()
	all := s.all
	s.mu.Unlock()
	for _, a := range all {
		<-a.ended
		if misuse := a.client.Misuse(); len(misuse) > 0 && !a.isDead() {
			s.model.violate("2", "%s: %v", a.seen.name, misuse)
		}
	}
	s.busy.Wait()
	s.cluster.Stop()
	for s.model.running() > 0 {
		time.Sleep(time.Second)
	}
	time.Sleep(time.Minute) // what is left ends by itself
}

// shrunk leaves steps out for as long as the script still breaks the same law.
func shrunk(t *testing.T, sc script, broken []violation) (script, []string) {
	var seen []string
	fails := func(sc script) bool {
		for range 3 {
			again, all := played(t, sc)
			if len(again) > 0 && again[0].law == broken[0].law {
				seen = all
				return true
			}
		}
		return false
	}
	deadline := time.Now().Add(*shrinkFor)
	for size := len(sc.steps) / 2; size > 0; size /= 2 {
		for from := 0; from < len(sc.steps) && time.Now().Before(deadline); {
			less := sc
			less.steps = append(append([]scriptStep{}, sc.steps[:from]...), sc.steps[min(from+size, len(sc.steps)):]...)
			if fails(less) {
				sc = less
			} else {
				from += size
			}
		}
	}
	if seen == nil {
		fails(sc)
	}
	return sc, seen
}
