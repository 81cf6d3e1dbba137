package explore

import (
	"fmt"
	"os"
	"sync/atomic"
	"testing"
)

// What a search may come to. A plan that is larger is not every schedule, and fails.
const most = 1_500_000

func TestEverySchedule(t *testing.T) {
	ps := short()
	if os.Getenv("EXPLORE") == "all" {
		ps = everything()
	}
	var states atomic.Int64
	t.Run("of", func(t *testing.T) {
		for _, p := range ps {
			t.Run(p.name, func(t *testing.T) {
				t.Parallel()
				s, f, full := explore(p, most)
				states.Add(int64(len(s.nodes)))
				switch {
				case f != nil:
					t.Errorf("%v: %v", s, f)
				case !full:
					t.Errorf("more than %v", s)
				default:
					t.Log(s)
				}
			})
		}
	})
	t.Logf("%d states of %d plans", states.Load(), len(ps))
}

// Two worlds with one key have to behave alike. Each state that was found a second time is entered by its second way, and has to lead to where the
// first way led.
func TestAKeyTellsAllThatMatters(t *testing.T) {
	for _, p := range short() {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			s, f, _ := explore(p, 3000)
			if f != nil {
				t.Skip("broken, as TestEverySchedule says")
			}
			for _, again := range s.again {
				w, played := s.replay(append(s.story(again.from), again.by))
				if !played {
					t.Fatalf("%v can't be played again", again)
				}
				if w.key() != s.nodes[again.to].key {
					t.Fatalf("%s leads elsewhere when it is played again", join(append(s.story(again.from), again.by)))
				}
				for _, e := range s.nodes[again.to].edges {
					next := w.clone()
					next.do(e.by)
					if next.key() != s.nodes[e.to].key {
						t.Fatalf("one key, two worlds: after\n  %s\nand after\n  %s\n%v leads to different states",
							join(s.story(again.to)), join(append(s.story(again.from), again.by)), e.by)
					}
				}
			}
		})
	}
}

// mode is what the strategy says about the end.
type mode struct {
	name  string
	rules rules
}

func modes(waits ...int) []mode {
	return []mode{
		{"dlq", rules{waits, false, false, -1}},
		{"hold", rules{waits, true, true, -1}},
		{"budget 0", rules{waits, false, false, 0}},
		{"budget 1", rules{waits, false, false, 1}},
	}
}

// bad are the records that do not go through although the dependency is well.
type bad struct {
	name              string
	poison, permanent []place
}

var bads = []bad{
	{"all good", nil, nil},
	{"one poison", []place{{0, 0}}, nil},
	{"one permanent", nil, []place{{0, 0}}},
	{"one of each", []place{{0, 0}}, []place{{1, 0}}},
}

type adversary struct {
	name string
	with func(p *plan)
}

var adversaries = []adversary{
	{"nothing else", func(p *plan) {}},
	{"a hang", func(p *plan) { p.hangs = 1 }},
	{"a revoke", func(p *plan) { p.revokes = 1 }},
	{"a loss", func(p *plan) { p.losses = 1 }},
	{"a crash", func(p *plan) { p.crashes = 1 }},
	{"a crash before the commit", func(p *plan) { p.crashes, p.slowCommit, p.outages = 1, true, 0 }},
	{"an operator's pause", func(p *plan) { p.pauses = 1 }},
	{"an operator's retry", func(p *plan) { p.retries = 1 }},
	{"an operator's retry of all", func(p *plan) { p.retryAlls = 1 }},
	{"an operator's skip", func(p *plan) { p.skips = 1 }},
	{"an edit", func(p *plan) { p.edits, p.strategies = 1, append(p.strategies, rules{[]int{2}, false, false, -1}) }},
	{"a slow store that fails", func(p *plan) { p.storeFaults, p.slowStore = 1, true }},
	{"a slow DLQ that fails", func(p *plan) { p.dlqFaults, p.slowDLQ = 1, true }},
}

// combine is each of these modes with each of these bad records with each of these adversaries, and, save for one, an outage.
func combine(partitions, records int, ms []mode, bs []bad, as ...adversary) (all []*plan) {
	for _, m := range ms {
		for _, b := range bs {
			if b.poison == nil && b.permanent == nil && m.name != "dlq" {
				continue // they differ in nothing
			}
			for _, a := range as {
				p := &plan{
					name:       fmt.Sprintf("%dx%d at %v %s, %s, %s", partitions, records, m.rules.waits, m.name, b.name, a.name),
					partitions: partitions, records: records, strategies: []rules{m.rules},
					poison: b.poison, permanent: b.permanent, outages: 1,
				}
				a.with(p)
				all = append(all, p)
			}
		}
	}
	return all
}

// special are worlds that do not fit the grid.
func special() []*plan {
	dlq, hold := modes(1)[0].rules, modes(1)[1].rules
	one := func(name string, r rules, with func(p *plan)) *plan {
		p := &plan{name: name, partitions: 2, records: 2, strategies: []rules{r}}
		with(p)
		return p
	}
	return []*plan{
		one("a record that kills", dlq, func(p *plan) { p.killer = []place{{0, 0}} }),
		one("a record that kills, second in line", dlq, func(p *plan) { p.killer = []place{{0, 1}} }),
		one("a record that kills, slow commits", dlq, func(p *plan) { p.killer, p.slowCommit = []place{{0, 0}}, true }),
		one("a record that kills, a slow store", dlq, func(p *plan) { p.killer, p.slowStore = []place{{0, 0}}, true }),
		one("a record that kills, an outage", dlq, func(p *plan) { p.killer, p.outages = []place{{0, 0}}, 1 }),
		one("a record that kills and one that is poison", dlq, func(p *plan) { p.killer, p.poison = []place{{0, 0}}, []place{{1, 0}} }),
		one("a record that kills and one that is held", hold, func(p *plan) { p.killer, p.poison = []place{{0, 0}}, []place{{1, 0}} }),
		one("a breaker for each partition", dlq, func(p *plan) { p.perPartition, p.outages, p.poison, p.hangs = true, 1, []place{{0, 0}}, 1 }),
		one("a breaker for each partition, a loss", dlq, func(p *plan) { p.perPartition, p.outages, p.losses = true, 1, 1 }),
		one("a breaker for each partition, a crash", dlq, func(p *plan) { p.perPartition, p.outages, p.crashes = true, 1, 1 }),
		one("two failures to trip", dlq, func(p *plan) { p.threshold, p.outages, p.hangs = 2, 1, 1 }),
		one("two failures to trip, poison", dlq, func(p *plan) { p.threshold, p.outages, p.poison = 2, 1, []place{{0, 0}} }),
		one("two failures to trip, poison held", hold, func(p *plan) { p.threshold, p.outages, p.poison = 2, 1, []place{{0, 0}, {1, 0}} }),
		one("two hangs", dlq, func(p *plan) { p.hangs = 2 }),
		one("a hang and two losses", dlq, func(p *plan) { p.records, p.hangs, p.losses = 1, 1, 2 }),
		one("a hang, a loss and a crash", dlq, func(p *plan) { p.records, p.hangs, p.losses, p.crashes = 1, 1, 1, 1 }),
		one("two crashes, poison", dlq, func(p *plan) { p.records, p.crashes, p.poison = 1, 2, []place{{0, 0}} }),
		one("a crash, a store that fails twice, poison", dlq, func(p *plan) {
			p.records, p.crashes, p.storeFaults, p.slowStore, p.poison = 1, 1, 2, true, []place{{0, 0}}
		}),
		one("a crash, a store that fails, a loss", dlq, func(p *plan) { p.records, p.crashes, p.storeFaults, p.slowStore, p.losses = 1, 1, 1, true, 1 }),
		one("two letters on their way", dlq, func(p *plan) { p.records, p.slowDLQ, p.permanent = 3, true, []place{{0, 0}, {0, 1}} }),
		one("everything at once", dlq, func(p *plan) {
			p.records, p.poison = 1, []place{{0, 0}}
			p.outages, p.hangs, p.losses, p.crashes, p.retries = 1, 1, 1, 1, 1
		}),
		one("poison in two of three", hold, func(p *plan) { p.partitions, p.poison = 3, []place{{0, 0}, {1, 0}} }),
	}
}

func everything() (all []*plan) {
	few := []adversary{adversaries[0], adversaries[1], adversaries[4], adversaries[7]}
	all = append(all, special()...)
	all = append(all, combine(2, 2, modes(1), bads, adversaries...)...)
	all = append(all, combine(2, 2, modes(1, 3), bads, few...)...)
	all = append(all, combine(2, 3, modes(1), bads, adversaries[0])...)
	all = append(all, combine(3, 1, modes(1), bads, few...)...)
	all = append(all, combine(3, 2, modes(1)[:1], bads[1:2], adversaries[0])...)
	all = append(all, combine(3, 2, modes(1)[1:2], bads[3:], adversaries[0])...)
	return all
}

// short is what every `go test` has time for.
func short() (all []*plan) {
	nothing, poison, each := bads[:1], bads[1:2], bads[3:]
	all = append(all, combine(2, 1, modes(1)[:1], poison, adversaries...)...)
	all = append(all, combine(2, 2, modes(1)[:1], nothing, adversaries[0])...)
	all = append(all, combine(2, 2, modes(1)[1:2], poison, adversaries[0])...)
	all = append(all, combine(2, 2, modes(1)[3:], each, adversaries[0])...)
	return append(all, special()[0], special()[12])
}
