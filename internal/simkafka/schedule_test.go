package simkafka_test

// Random schedules, for what must hold of any cluster whatever happens to it.

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/breakwater-go/breakwater/internal/simkafka"
	"github.com/confluentinc/confluent-kafka-go/v2/kafka"
)

const parts = 4

var schedules = flag.Int("schedules", 4, "random schedules for each protocol")

// schedule is a run: members that come and go, polled in turn from one goroutine, so that a seed tells all of it.
type schedule struct {
	t     *testing.T
	k     *simkafka.Cluster
	rng   *rand.Rand
	o     simkafka.Options
	rough bool // partitions may be lost
	came  int
	apps  []*app
	owner [parts]*app
	next  map[*app]*[parts]kafka.Offset // what each must see next
	seen  [parts]map[kafka.Offset]bool
	trace []string
	start time.Time
}

func run(t *testing.T, seed uint64, o simkafka.Options, rough bool) []string {
	s := &schedule{t: t, k: simkafka.NewCluster(seed), rng: rand.New(rand.NewPCG(seed, 7)), o: o, rough: rough, next: map[*app]*[parts]kafka.Offset{}}
	defer s.k.Stop()
	s.k.CreateTopic(orders, parts)
	s.k.RebalanceDelay(0, time.Second)
	for p := range s.seen {
		s.seen[p] = map[kafka.Offset]bool{}
	}
	s.k.OnCommit(func(c simkafka.Commit) {
		s.trace = append(s.trace, fmt.Sprintf("commit %d %v", c.Partition, c.After))
		if c.After < c.Before && !rough {
			t.Errorf("partition %d went back from %v to %v", c.Partition, c.Before, c.After)
		}
	})
	s.start = time.Now()
	s.comes()
	for range 60 {
		s.step()
		s.poll(time.Duration(s.rng.IntN(2000)) * time.Millisecond)
	}
	s.calm()
	for len(s.apps) > 0 {
		s.goes()
	}
	return s.trace
}

func (s *schedule) step() {
	some := s.apps[s.rng.IntN(len(s.apps))]
	partition := int32(s.rng.IntN(parts))
	switch n := s.rng.IntN(20); {
	case n < 8:
		produce(s.k, partition, 1+s.rng.IntN(20))
	case n < 10 && len(s.apps) < 4:
		s.comes()
	case n == 10 && len(s.apps) > 1:
		s.goes()
	case n < 13:
		none(s.t, some.Pause(at(partition, 0)))
	case n < 15:
		none(s.t, some.Resume(at(partition, 0)))
	case n == 15:
		s.k.CoordinatorAway(time.Duration(s.rng.IntN(5)) * time.Second)
	case n == 16:
		s.k.FetchAway(time.Duration(s.rng.IntN(5)) * time.Second)
	case n == 17 && s.rough:
		some.LoseAssignment()
	case n == 18 && s.rough:
		s.k.Kick(some.MemberID())
	case n == 19 && s.rough:
		s.k.CoordinatorAway(time.Minute)
	}
}

func (s *schedule) comes() {
	o := s.o
	o.Latency = time.Duration(1+s.rng.IntN(50)) * time.Millisecond
	o.Prefetch = 1 + s.rng.IntN(20)
	o.AutoCommit = s.rng.IntN(4) == 0
	if s.came++; !s.rough && s.rng.IntN(4) == 0 {
		o.InstanceID = fmt.Sprint("instance-", s.came)
	}
	a := newApp(s.t, s.k, o)
	s.next[a] = &[parts]kafka.Offset{}
	a.hook = func(e kafka.Event) {
		switch e := e.(type) {
		case kafka.AssignedPartitions:
			for _, p := range e.Partitions {
				if other := s.owner[p.Partition]; other != nil && !s.rough {
					s.t.Errorf("%d is assigned to two", p.Partition)
				}
				s.owner[p.Partition] = a
				s.next[a][p.Partition] = kafka.OffsetInvalid
			}
		case kafka.RevokedPartitions:
			if !a.AssignmentLost() {
				s.commit(a)
			}
			for _, p := range e.Partitions {
				if s.owner[p.Partition] == a {
					s.owner[p.Partition] = nil
				}
			}
		}
	}
	a.subscribe()
	s.apps = append(s.apps, a)
}

func (s *schedule) goes() {
	i := s.rng.IntN(len(s.apps))
	a := s.apps[i]
	s.apps = slices.Delete(s.apps, i, i+1)
	s.commit(a)
	a.close()
	for p := range s.owner {
		if s.owner[p] == a {
			s.owner[p] = nil // an assignment that Close served is not revoked
		}
	}
}

// commit commits and, as the loop does it, does not wait for ever.
func (s *schedule) commit(a *app) {
	_, err := a.Commit()
	s.trace = append(s.trace, fmt.Sprint("committed: ", err))
}

func (s *schedule) poll(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); {
		for _, a := range s.apps {
			e := a.once(15)
			for _, what := range a.saw() {
				s.trace = append(s.trace, fmt.Sprint(time.Since(s.start), " ", a.MemberID(), " ", what))
			}
			if m, ok := e.(*kafka.Message); ok {
				s.check(a, m)
			}
		}
		if s.rng.IntN(50) == 0 {
			s.commit(s.apps[s.rng.IntN(len(s.apps))])
		}
	}
}

func (s *schedule) check(a *app, m *kafka.Message) {
	p := m.TopicPartition
	if !slices.ContainsFunc(a.assigned(), func(q kafka.TopicPartition) bool { return q.Partition == p.Partition }) {
		s.t.Errorf("a record of %d, which is not assigned", p.Partition)
	}
	if a.Paused(orders, p.Partition) {
		s.t.Errorf("a record of %d, which is paused", p.Partition)
	}
	if next := s.next[a][p.Partition]; next != kafka.OffsetInvalid && next != p.Offset {
		s.t.Errorf("%d@%v, want %v", p.Partition, p.Offset, next)
	}
	s.next[a][p.Partition] = p.Offset + 1
	s.seen[p.Partition][p.Offset] = true
}

// calm lets everything come to rest: then all has been seen, and each partition has one owner.
func (s *schedule) calm() {
	resume := func() {
		for _, a := range s.apps {
			for p := range int32(parts) {
				none(s.t, a.Resume(at(p, 0)))
			}
		}
	}
	resume()
	s.poll(2 * time.Minute)
	resume()
	s.poll(10 * time.Second)
	var owned []string
	for _, a := range s.apps {
		for _, p := range a.assigned() {
			owned = append(owned, fmt.Sprint(p.Partition))
		}
	}
	slices.Sort(owned)
	if !slices.Equal(owned, []string{"0", "1", "2", "3"}) {
		s.t.Errorf("owned are %q", owned)
	}
	for p := range int32(parts) {
		if _, end := s.k.Offsets(orders, p); len(s.seen[p]) != int(end) {
			s.t.Errorf("%d of the %d records of %d were seen", len(s.seen[p]), end, p)
		}
	}
	for _, a := range s.apps {
		if got := a.Misuse(); len(got) > 0 {
			s.t.Errorf("misuse %q", got)
		}
	}
}

func TestRandomSchedules(t *testing.T) {
	for _, protocol := range protocols {
		for _, rough := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/rough=%v", protocol, rough), func(t *testing.T) {
				for seed := range uint64(*schedules) {
					synctest.Test(t, func(t *testing.T) {
						run(t, seed, simkafka.Options{Protocol: protocol, SessionTimeout: 20 * time.Second}, rough)
					})
					if t.Failed() {
						t.Fatalf("seed %d", seed)
					}
				}
			})
		}
	}
}

func TestASeedTellsEverything(t *testing.T) {
	for _, protocol := range protocols {
		var traces [2][]string
		for i := range traces {
			synctest.Test(t, func(t *testing.T) {
				traces[i] = run(t, 5, simkafka.Options{Protocol: protocol, SessionTimeout: 20 * time.Second}, true)
			})
		}
		if !slices.Equal(traces[0], traces[1]) {
			i := 0
			for traces[0][i] == traces[1][i] {
				i++
			}
			t.Errorf("%s: two runs of one seed differ at %d: %q and %q", protocol, i, traces[0][i], traces[1][i])
		}
	}
}
