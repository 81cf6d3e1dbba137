package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/breakwater-go/breakwater/bench/chaos/judge"
	"github.com/breakwater-go/breakwater/consumer"
	"github.com/breakwater-go/breakwater/strategy"
)

// One run: a world, a crew, faults for a while, then quiet until every record is done, and the judgement.

// report is what is known at the end of a run. In JSON, times are nanoseconds.
type report struct {
	Seed        uint64                     `json:"seed"`
	About       string                     `json:"about"`
	Strategy    string                     `json:"strategy"`
	Protocol    string                     `json:"protocol"`
	Took        time.Duration              `json:"took_ns"`
	CaughtUp    time.Duration              `json:"caught_up_ns"` // from the end of the faults until every record was done and committed
	Interrupted bool                       `json:"interrupted"`
	Hung        bool                       `json:"hung"` // the embedded broker's group coordinator did not come back; what was not done is not held against the library
	Records     int64                      `json:"records"`
	Unsure      int                        `json:"unsure"` // produced, and the producer never learned whether the brokers have them
	Calls       map[judge.Answer]int       `json:"calls"`
	Letters     map[string]int             `json:"letters"`
	Faults      map[string]int             `json:"faults"`
	Lives       int                        `json:"lives"`
	Deaths      map[string]int             `json:"deaths"` // how the members ended
	Findings    judge.Findings             `json:"findings"`
	Stuck       map[string]consumer.Status `json:"stuck,omitempty"` // the members, where records were not done in time
	Logs        string                     `json:"logs,omitempty"`  // folder with what the members said
}

// diary prints what happens, as it happens, and counts it.
type diary struct {
	mu     sync.Mutex
	began  time.Time
	out    func(line string)
	faults map[string]int
}

func (d *diary) say(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	text := fmt.Sprintf(format, args...)
	d.out(fmt.Sprintf("%s %7.1fs  %s", time.Now().Format(time.TimeOnly), time.Since(d.began).Seconds(), text))
}

// fault says a fault, and counts it by its kind.
func (d *diary) fault(format string, args ...any) {
	d.say(format, args...)
	if kind, what, _ := strings.Cut(fmt.Sprintf(format, args...), ": "); !strings.HasPrefix(what, "over") && !strings.HasSuffix(what, "goes on") {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.faults[kind]++
	}
}

// protocols are the ways of being a group.
var protocols = []struct {
	name   string
	static bool
	client map[string]string
}{
	{"range", false, map[string]string{"partition.assignment.strategy": "range"}},
	{"cooperative-sticky", false, map[string]string{"partition.assignment.strategy": "cooperative-sticky"}},
	{"consumer (KIP-848)", false, map[string]string{"group.protocol": "consumer"}},
	{"range, static members", true, map[string]string{"partition.assignment.strategy": "range"}},
	{"cooperative-sticky, static members", true, map[string]string{"partition.assignment.strategy": "cooperative-sticky"}},
}

// perform makes one run and judges it. The error is that the run itself could not go on.
func perform(ctx context.Context, o options, seed uint64, out func(string)) (rep report, err error) {
	d := &diary{began: time.Now(), out: out, faults: map[string]int{}}
	var w *world
	if o.embedded {
		w, err = embeddedWorld()
	} else {
		d.say("starting a Kafka of three brokers and a Redis")
		w, err = realWorld(ctx)
	}
	if err != nil {
		return rep, err
	}
	defer func() { err = errors.Join(err, w.close()) }()

	draw := rand.New(rand.NewPCG(seed, 0x5eed))
	text := w.pace.strategies[draw.IntN(len(w.pace.strategies))]
	protocol := protocols[draw.IntN(len(protocols))]
	rep = report{Seed: seed, About: w.about, Strategy: text, Protocol: protocol.name, Faults: d.faults,
		Calls: map[judge.Answer]int{}, Letters: map[string]int{}, Deaths: map[string]int{}}
	d.say("seed %d, %s, group protocol %s, strategy %s", seed, w.about, protocol.name, text)

	logs, err := os.MkdirTemp("", "breakwater-chaos-")
	if err != nil {
		return rep, err
	}
	defer func() {
		if err == nil && len(rep.Findings.Violations) == 0 {
			os.RemoveAll(logs)
		} else {
			rep.Logs = logs
		}
	}()

	dep, err := startDependency(destiny{seed, w.pace.deadlyOneIn})
	if err != nil {
		return rep, err
	}
	defer dep.close()
	outside, err := openOutside(w.outside, seed)
	if err != nil {
		return rep, err
	}
	defer outside.close()
	client := map[string]string{"max.poll.interval.ms": ms(w.pace.maxPoll)}
	if protocol.client["group.protocol"] == "" {
		client["session.timeout.ms"], client["heartbeat.interval.ms"] = ms(w.pace.session), ms(w.pace.session/6)
	}
	for k, v := range protocol.client {
		client[k] = v
	}
	crew := newCrew(orders{
		Bootstrap: w.members, Redis: w.redis, Topic: topic, Group: group, Dependency: dep.url, Strategy: text, Client: client, Static: protocol.static,
		HandlerTimeout: w.pace.handler, DrainTimeout: w.pace.drain, RedisPatience: 900 * time.Millisecond,
	}, seed, 5, logs, d.say)
	defer crew.dismiss(0)
	for i := range 3 {
		crew.join(i)
	}

	var store, brokers, outage, nowhere spans
	h := judge.History{CrashLimit: crashLimit, Bound: w.pace.bound}
	rules, err := strategy.Parse("the run's strategy", []byte(text))
	if err != nil {
		return rep, err
	}
	var plain struct{ Intervals []float64 } // without jitter, which only adds to them
	if err := json.Unmarshal([]byte(text), &plain); err != nil {
		return rep, err
	}
	for _, s := range plain.Intervals {
		h.Intervals = append(h.Intervals, time.Duration(s*float64(time.Second)))
	}
	h.Trips, h.PerPart = rules.Breaker().ConsecutiveFailures, rules.Breaker().Scope == strategy.ScopePartition

	// The faults, and the records.
	faulty, enough := context.WithTimeout(ctx, time.Duration(o.minutes*float64(time.Minute)))
	defer enough()
	watching, unwatch := context.WithCancel(context.Background())
	defer unwatch()
	var playing, watcher sync.WaitGroup
	play := func(k kind, name string, salt uint64, faults []fault, s *spans) {
		k.name, k.faults, k.spans = name, faults, s
		playing.Go(func() { k.play(faulty, rand.New(rand.NewPCG(seed, salt)), d.fault) })
	}
	play(w.pace.members, "members", 1, memberFaults(crew, w.pace.session+2*time.Second), &nowhere)
	play(w.pace.brokers, "brokers", 2, w.brokers, &brokers)
	play(w.pace.store, "redis", 3, w.store, &store)
	play(w.pace.outages, "dependency", 4, outages(dep), &outage)
	var flowed error
	playing.Go(func() {
		flowed = outside.flow(faulty, w.pace.records, func() int { _, done := dep.done(); return done })
	})
	watcher.Go(func() { outside.watch(watching) })
	progress := func() {
		calls, done := dep.done()
		d.say("%d records acknowledged, %d handled, %d calls, %d members", outside.count(), done, calls, crew.running())
	}
	for ticker := time.NewTicker(30 * time.Second); faulty.Err() == nil; {
		select {
		case <-ticker.C:
			progress()
		case <-faulty.Done():
			ticker.Stop()
		}
	}
	playing.Wait()
	crew.thaw()
	quiet := time.Now()
	if err := errors.Join(flowed, w.failed()); err != nil {
		return rep, err
	}

	// Quiet, until all is done.
	if ctx.Err() == nil {
		d.say("the faults are over; every record has %v to be done", w.pace.bound)
	}
	h.Ends, err = outside.finish(2 * time.Minute)
	if err != nil {
		return rep, err
	}
	crew.calm()
	for said, rebalancing := quiet, time.Now(); ctx.Err() == nil; {
		if s, err := outside.sample(5 * time.Second); err == nil && slices.Equal(s.Committed, h.Ends) {
			rep.CaughtUp = time.Since(quiet)
			d.say("every record is done and committed")
			break
		}
		if !w.hung() {
			rebalancing = time.Now()
		} else if time.Since(rebalancing) > 4*w.pace.maxPoll {
			d.say("the embedded broker's coordinator has been waiting for members for %v, which no broker does", 4*w.pace.maxPoll)
			rep.Hung = true
			break
		}
		if time.Since(quiet) > w.pace.bound {
			d.say("not every record is done: the members tell their status")
			rep.Stuck = crew.ask()
			break
		}
		if time.Since(said) > 30*time.Second {
			said = time.Now()
			progress()
		}
		select {
		case <-ctx.Done():
		case <-time.After(500 * time.Millisecond):
		}
	}
	rep.Interrupted = ctx.Err() != nil
	h.Interrupted = rep.Interrupted || rep.Hung
	if rep.Interrupted {
		d.say("interrupted: what was seen so far is judged")
	}
	crew.dismiss(time.Minute)
	unwatch()
	watcher.Wait()
	if _, err := outside.sample(30 * time.Second); err != nil {
		return rep, err
	}
	if h.Letters, err = outside.letters(2 * time.Minute); err != nil {
		return rep, err
	}

	// The judgement.
	h.Calls, h.Store, h.Network, h.Samples = dep.seen(), store.seen(), brokers.seen(), outside.seen()
	h.Down = slices.DeleteFunc(outage.seen(), func(s judge.Span) bool {
		return !strings.HasSuffix(s.What, string(unavailable)) && !strings.HasSuffix(s.What, string(resetting))
	})
	crew.testify(&h)
	rep.Findings = judge.Judge(h)
	rep.Took, rep.Unsure, rep.Lives = time.Since(d.began), outside.unsure(), len(h.Lives)
	for _, end := range h.Ends {
		rep.Records += end
	}
	for _, c := range h.Calls {
		rep.Calls[c.Answer]++
	}
	for _, l := range h.Letters {
		rep.Letters[string(l.Info.Kind)]++
	}
	for _, l := range h.Lives {
		how, _, _ := strings.Cut(l.How, ",")
		rep.Deaths[how]++
	}
	return rep, nil
}

// crashLimit is the library's default.
const crashLimit = 3

func ms(d time.Duration) string { return fmt.Sprint(d.Milliseconds()) }
