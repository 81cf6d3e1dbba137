package consumer

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/breakwater-go/breakwater/internal/simkafka"
)

// A script says what a world is like and what is done to it, when; one line for each step. A seed draws one, a failing one is shrunk by leaving
// steps out, and what is left can be kept as a test. So every step means something in any world: a stop of what doesn't run does nothing.
//
// The clock that can be set is the attempt store's. A step of the process's own wall clock can't be played in virtual time, and nothing would notice it: waits in
// the process are measured on the monotonic clock, and those across processes on the store's.

// script is a world and its steps.
type script struct {
	seed       uint64 // of what the cluster and its clients draw
	protocol   string
	partitions int
	plan       string // the strategy at start, by name
	reset      string // auto.offset.reset
	buffer     string // "wide", or "tight": a few records
	steps      []scriptStep
}

// scriptStep is one thing that is done.
type scriptStep struct {
	at   time.Duration
	do   string
	with []string
}

func (s scriptStep) String() string {
	return strings.Join(append([]string{s.at.String(), s.do}, s.with...), " ")
}

func (s script) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "world %d %s %d %s %s %s\n", s.seed, s.protocol, s.partitions, s.plan, s.reset, s.buffer)
	for _, step := range s.steps {
		fmt.Fprintln(&b, step)
	}
	return b.String()
}

// parseScript reads what String wrote.
func parseScript(text string) (s script, err error) {
	for _, line := range strings.Split(text, "\n") {
		words := strings.Fields(line)
		switch {
		case len(words) == 0:
		case words[0] == "world":
			if _, err := fmt.Sscan(strings.Join(words[1:], " "), &s.seed, &s.protocol, &s.partitions, &s.plan, &s.reset, &s.buffer); err != nil {
				return s, fmt.Errorf("%q: %w", line, err)
			}
		case len(words) < 2:
			return s, fmt.Errorf("%q is no step", line)
		default:
			at, err := time.ParseDuration(words[0])
			if err != nil {
				return s, fmt.Errorf("%q: %w", line, err)
			}
			s.steps = append(s.steps, scriptStep{at, words[1], words[2:]})
		}
	}
	return s, nil
}

// plan is a strategy, and what the model knows of it without asking the code.
type plan struct {
	json   string
	waits  []time.Duration
	budget int  // -1: no limit
	hold   bool // exhausted records
	person bool // permanent records wait for a person
	first  bool // the first failure trips one breaker over all partitions
}

func seconds(s ...float64) (waits []time.Duration) {
	for _, x := range s {
		waits = append(waits, time.Duration(x*float64(time.Second)))
	}
	return waits
}

var plans = map[string]plan{
	"steady":   {json: `{"intervals": [1, 2], "jitter": 0}`, waits: seconds(1, 2), budget: -1, first: true},
	"quick":    {json: `{"intervals": [0.2, 0.4, 0.4], "jitter": 0}`, waits: seconds(.2, .4, .4), budget: -1, first: true},
	"jittered": {json: `{"intervals": [0.5, 1.5], "jitter": 0.5}`, waits: seconds(.5, 1.5), budget: -1, first: true},
	"falling":  {json: `{"intervals": [3, 0.5], "jitter": 0}`, waits: seconds(3, .5), budget: -1, first: true},
	"one":      {json: `{"intervals": [1.5], "jitter": 0}`, waits: seconds(1.5), budget: -1, first: true},
	"budget-0": {json: `{"intervals": [0.5, 1], "jitter": 0, "dlqBudget": 0}`, waits: seconds(.5, 1), budget: 0, first: true},
	"budget-1": {json: `{"intervals": [0.5, 1], "jitter": 0, "dlqBudget": 1}`, waits: seconds(.5, 1), budget: 1, first: true},
	"hold":     {json: `{"intervals": [0.5, 1], "jitter": 0, "onExhausted": "hold"}`, waits: seconds(.5, 1), budget: -1, hold: true, first: true},
	"person":   {json: `{"intervals": [0.5, 1], "jitter": 0, "onPermanent": "hold"}`, waits: seconds(.5, 1), budget: -1, person: true, first: true},
	"second":   {json: `{"intervals": [1, 2], "jitter": 0, "breaker": {"consecutiveFailures": 2}}`, waits: seconds(1, 2), budget: -1},
	"each":     {json: `{"intervals": [1, 2], "jitter": 0, "breaker": {"consecutiveFailures": 1, "scope": "partition"}}`, waits: seconds(1, 2), budget: -1},
	"ratio":    {json: `{"intervals": [0.5, 1], "jitter": 0, "breaker": {"failureRatio": 0.5, "minimumCalls": 4, "window": "10s"}}`, waits: seconds(.5, 1), budget: -1},
}

// wait is the least that is to be waited after that attempt.
func (p plan) wait(attempt int) time.Duration { return p.waits[max(0, min(attempt, len(p.waits))-1)] }

func (p plan) least() time.Duration {
	least := p.waits[0]
	for _, w := range p.waits {
		least = min(least, w)
	}
	return least
}

func (p plan) total() (sum time.Duration) {
	for _, w := range p.waits {
		sum += w + w/2
	}
	return sum
}

// What every instance of a script is started with. The times are short so that much happens within a minute.
const (
	scriptHandlerTimeout = 3 * time.Second
	scriptDrainTimeout   = 2 * time.Second
	scriptSession        = 6 * time.Second
	scriptHeartbeat      = 2 * time.Second
	scriptMaxPoll        = 10 * time.Second
	scriptCrashLimit     = 2
	scriptSlots          = 3
	scriptLength         = 30 * time.Second
	scriptTight          = 20_000 // bytes: some dozen records
)

// draw makes the script of a seed.
func draw(seed uint64) script {
	r := rand.New(rand.NewPCG(seed, 1))
	s := script{seed: seed, reset: "earliest", buffer: "wide"}
	s.protocol = one(r, simkafka.Range, simkafka.Cooperative, simkafka.Consumer)
	s.partitions = 1 + r.IntN(3)
	s.plan = drawPlan(r)
	if r.IntN(4) == 0 {
		s.buffer = "tight"
	}
	if r.IntN(8) == 0 {
		s.reset = "latest"
	}
	// Each script leans to some kinds of trouble, so that each kind is seen alone, too.
	weights := map[string]int{"produce": 30, "start": 6, "stop": 3}
	trouble := map[string]int{
		"down": 6, "crash": 4, "lose": 3, "kick": 2, "faults": 3, "coordinator": 3, "fetch": 2, "store": 6, "dlq": 6, "reload": 3,
		"pause": 4, "resume": 5, "retry": 5, "skip": 3, "delete": 1, "emit": 1, "clock": 4,
	}
	for _, do := range slices.Sorted(maps.Keys(trouble)) {
		if r.IntN(2) == 0 {
			weights[do] = trouble[do]
		}
	}
	kinds := 1 + r.IntN(3) // of bad records
	fates := make([]string, kinds)
	for i := range fates {
		fates[i] = drawFate(r)
	}
	add := func(at time.Duration, do string, with ...any) {
		step := scriptStep{at: at, do: do}
		for _, w := range with {
			step.with = append(step.with, fmt.Sprint(w))
		}
		s.steps = append(s.steps, step)
	}
	for p := range s.partitions {
		add(0, "produce", p, 1+r.IntN(8), "ok", drawLatency(r))
	}
	add(0, "start", 0)
	if r.IntN(2) == 0 {
		add(0, "start", 1)
	}
	for at := time.Duration(0); at < scriptLength; {
		at += drawPause(r)
		slot, p := r.IntN(scriptSlots), r.IntN(s.partitions)
		some := time.Duration(100+r.IntN(6000)) * time.Millisecond
		switch do := pick(r, weights); do {
		case "produce":
			fate := "ok"
			if r.IntN(2) == 0 {
				fate = one(r, fates...)
			}
			n, latency := 1+r.IntN(8), drawLatency(r)
			switch {
			case fate != "ok":
				n = 1 + r.IntN(2)
			case s.buffer == "tight" && r.IntN(10) == 0:
				n, latency = 600, 0
			}
			add(at, do, p, n, fate, latency)
		case "start", "stop", "crash", "lose", "kick", "emit":
			add(at, do, slot)
		case "faults":
			add(at, do, slot, r.IntN(2)*40, r.IntN(2)*40, r.IntN(2)*40, r.IntN(2)*50)
		case "coordinator":
			add(at, do, some*time.Duration(1+r.IntN(2)))
		case "fetch":
			add(at, do, some)
		case "down":
			add(at, do, some)
		case "store":
			add(at, do, one(r, "away", "slow", "garbage", "lost-answer"), some)
		case "dlq":
			add(at, do, one(r, "away", "slow", "silent", "lost-answer"), some)
		case "clock":
			add(at, do, one(r, some, -some, time.Hour, -time.Hour))
		case "reload":
			add(at, do, drawPlan(r))
		case "pause", "resume", "retry":
			if r.IntN(3) == 0 {
				add(at, do, slot, "all")
			} else {
				add(at, do, slot, p)
			}
		case "skip":
			add(at, do, slot, p)
		case "delete":
			add(at, do, p, 1+r.IntN(5))
		}
	}
	return s
}

func drawPlan(r *rand.Rand) string {
	return pick(r, map[string]int{"steady": 4, "quick": 4, "jittered": 2, "falling": 2, "one": 2, "budget-0": 1, "budget-1": 2, "hold": 1, "person": 2,
		"second": 1, "each": 2, "ratio": 1})
}

// drawFate says what becomes of a record whenever it is called.
func drawFate(r *rand.Rand) string {
	d := func(from, to int) time.Duration { return time.Duration(from+r.IntN(to-from)) * time.Millisecond }
	switch r.IntN(14) {
	case 0, 1:
		return "fail:1"
	case 2, 3:
		return fmt.Sprintf("fail:%d", 2+r.IntN(3))
	case 4, 5:
		return "fail:1000" // poison
	case 6, 7:
		return "permanent"
	case 8:
		return one(r, "panic", "goexit")
	case 9:
		return fmt.Sprintf("hang:%v", d(4100, 9000))
	case 10:
		return fmt.Sprintf("hang-fail:%v", d(4100, 9000))
	case 11:
		return fmt.Sprintf("stubborn:%v", d(100, 2900))
	case 12:
		return one(r, "heed:1", fmt.Sprintf("after:%v", d(100, 4000)))
	default:
		return fmt.Sprintf("kill:%d", 1+r.IntN(6))
	}
}

// drawLatency is what a call takes.
func drawLatency(r *rand.Rand) time.Duration {
	switch r.IntN(4) {
	case 0:
		return 0
	case 1:
		return time.Duration(1+r.IntN(10)) * time.Millisecond
	case 2:
		return time.Duration(20+r.IntN(200)) * time.Millisecond
	default:
		return time.Duration(200+r.IntN(1000)) * time.Millisecond
	}
}

// drawPause is what lies between two steps: often nothing, or just a little.
func drawPause(r *rand.Rand) time.Duration {
	switch r.IntN(6) {
	case 0:
		return 0
	case 1:
		return time.Duration(r.IntN(5000)) * time.Microsecond
	case 2:
		return time.Duration(r.IntN(200)) * time.Millisecond
	default:
		return time.Duration(r.IntN(2500)) * time.Millisecond
	}
}

func one[T any](r *rand.Rand, all ...T) T { return all[r.IntN(len(all))] }

// pick draws by weight. The keys are gone through in order, so that a seed says all.
func pick(r *rand.Rand, weights map[string]int) string {
	total := 0
	for _, w := range weights {
		total += w
	}
	n := r.IntN(total)
	for _, k := range slices.Sorted(maps.Keys(weights)) {
		if n -= weights[k]; n < 0 {
			return k
		}
	}
	panic("no weight")
}

// word reads the n-th argument of a step.
func (s scriptStep) word(n int) string { return s.with[n] }

func (s scriptStep) number(n int) int {
	v, err := strconv.Atoi(s.with[n])
	if err != nil {
		panic(fmt.Sprintf("%v: %v", s, err))
	}
	return v
}

func (s scriptStep) duration(n int) time.Duration {
	v, err := time.ParseDuration(s.with[n])
	if err != nil {
		panic(fmt.Sprintf("%v: %v", s, err))
	}
	return v
}
