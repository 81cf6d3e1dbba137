package stage

// The faults of a scenario that only a bench with a broker and a Redis of its own can carry out.

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/breakwater-go/breakwater/bench/stub/scenario"
)

const (
	slowFetch = 300 * time.Millisecond
	slowRedis = 100 * time.Millisecond
)

// Faults does to the broker and to Redis what the phases of a scenario say.
type Faults struct {
	stage *Stage
	mu    sync.Mutex
	on    map[string]bool // of the broker
	dlqs  map[string]bool
}

// Faults prepares the faults that s can ask for; dlqs are the topics that "refuse-dlq" is about. It fails where the broker can't be told.
func (s *Stage) Faults(sc *scenario.Scenario, dlqs []string) (*Faults, error) {
	f := &Faults{stage: s, on: map[string]bool{}, dlqs: map[string]bool{}}
	for _, d := range dlqs {
		f.dlqs[d] = true
	}
	any := false
	for _, p := range sc.Phases {
		any = any || len(p.Broker) > 0
	}
	if !any {
		return f, nil
	}
	if s.Fake == nil {
		return nil, errors.New("faults of the broker need the embedded one: leave -brokers and -real out")
	}
	s.Fake.ControlKey(int16(kmsg.Produce), f.produce)
	s.Fake.ControlKey(int16(kmsg.OffsetCommit), f.commit)
	s.Fake.ControlKey(int16(kmsg.Fetch), f.fetch)
	return f, nil
}

// Begin carries out what a phase says, and ends what it does not.
func (f *Faults) Begin(p scenario.Phase) error {
	f.mu.Lock()
	clear(f.on)
	for _, fault := range p.Broker {
		f.on[fault] = true
	}
	f.mu.Unlock()
	switch p.Redis {
	case "away":
		f.stage.proxy.Cut()
		return nil
	case "slow":
		return f.stage.proxy.Delay(slowRedis)
	default:
		return f.stage.proxy.Restore()
	}
}

func (f *Faults) active(fault string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.on[fault]
}

// The control functions run until the cluster is closed; one that answers false leaves the request alone.

func (f *Faults) produce(r kmsg.Request) (kmsg.Response, error, bool) {
	f.stage.Fake.KeepControl()
	req := r.(*kmsg.ProduceRequest)
	if !f.active("refuse-dlq") || len(req.Topics) == 0 || !f.dlqs[req.Topics[0].Topic] {
		return nil, nil, false
	}
	resp := req.ResponseKind().(*kmsg.ProduceResponse)
	for _, t := range req.Topics {
		answer := kmsg.NewProduceResponseTopic()
		answer.Topic, answer.TopicID = t.Topic, t.TopicID
		for _, p := range t.Partitions {
			refused := kmsg.NewProduceResponseTopicPartition()
			refused.Partition, refused.ErrorCode = p.Partition, kerr.NotEnoughReplicas.Code
			answer.Partitions = append(answer.Partitions, refused)
		}
		resp.Topics = append(resp.Topics, answer)
	}
	return resp, nil, true
}

func (f *Faults) commit(r kmsg.Request) (kmsg.Response, error, bool) {
	f.stage.Fake.KeepControl()
	if !f.active("fail-commits") {
		return nil, nil, false
	}
	req := r.(*kmsg.OffsetCommitRequest)
	resp := req.ResponseKind().(*kmsg.OffsetCommitResponse)
	for _, t := range req.Topics {
		answer := kmsg.NewOffsetCommitResponseTopic()
		answer.Topic, answer.TopicID = t.Topic, t.TopicID
		for _, p := range t.Partitions {
			refused := kmsg.NewOffsetCommitResponseTopicPartition()
			refused.Partition, refused.ErrorCode = p.Partition, kerr.CoordinatorLoadInProgress.Code
			answer.Partitions = append(answer.Partitions, refused)
		}
		resp.Topics = append(resp.Topics, answer)
	}
	return resp, nil, true
}

func (f *Faults) fetch(kmsg.Request) (kmsg.Response, error, bool) {
	f.stage.Fake.KeepControl()
	switch {
	case f.active("drop-connections"):
		return nil, errors.New("dropped"), true
	case f.active("slow-fetch"):
		f.stage.Fake.SleepControl(func() { time.Sleep(slowFetch) })
	}
	return nil, nil, false
}

// String names what is on.
func (f *Faults) String() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var on []string
	for fault := range f.on {
		on = append(on, fault)
	}
	return fmt.Sprint(strings.Join(on, ", "))
}
