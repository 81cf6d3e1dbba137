package consumer

import (
	"sort"
	"time"
)

// Status is a snapshot of what the consumer is doing. Its JSON is meant to be shown.
type Status struct {
	Group      string            `json:"group"`
	Instance   string            `json:"instance"`
	Running    bool              `json:"running"`
	Fatal      string            `json:"fatal,omitempty"` // why the consumer ends; "" while it is well
	Strategy   string            `json:"strategy"`        // in force, as a sentence
	Breaker    BreakerStatus     `json:"breaker"`         // scope consumer; with scope partition each partition has its own
	Guard      bool              `json:"crashGuard"`      // one call at a time, because the last owner of a partition died
	Budget     int               `json:"deadLettersSinceSuccess"`
	Partitions []PartitionStatus `json:"partitions"`
	Held       []HeldRecord      `json:"held"`
	Stalled    []string          `json:"stalled"` // partitions whose handler has outlived its time
	Records    int64             `json:"bufferedRecords"`
	Bytes      int64             `json:"bufferedBytes"`
	StoreAway  time.Duration     `json:"attemptStoreAwayFor"` // 0: it is well
	DLQError   string            `json:"dlqError,omitempty"`  // "" while dead letters are written
	PollAge    time.Duration     `json:"pollAge"`             // since the last Poll; over a second means trouble
}

// BreakerStatus is a breaker as people are shown it.
type BreakerStatus struct {
	State   string    `json:"state"`
	Episode string    `json:"episode,omitempty"`
	Opened  time.Time `json:"opened,omitzero"`
	RetryAt time.Time `json:"retryAt,omitzero"` // when the next call can come; zero: a probe is under way, or there is no record to call
}

// PartitionStatus is one assigned partition.
type PartitionStatus struct {
	Topic     string         `json:"topic"`
	Partition int32          `json:"partition"`
	Paused    bool           `json:"paused"` // what the client was told
	Reasons   []string       `json:"reasons,omitempty"`
	Refused   string         `json:"refused,omitempty"`
	Records   int64          `json:"bufferedRecords"`
	Bytes     int64          `json:"bufferedBytes"`
	Done      int64          `json:"doneOffset"` // every record before it is done; -1: none yet
	Calling   bool           `json:"calling"`
	Letters   int            `json:"lettersOnTheirWay"`
	Breaker   *BreakerStatus `json:"breaker,omitempty"` // with scope partition
}

// HeldRecord is a record that failed and waits.
type HeldRecord struct {
	Topic       string    `json:"topic"`
	Partition   int32     `json:"partition"`
	Offset      int64     `json:"offset"`
	Attempts    int       `json:"attempts"`
	WaitsFor    string    `json:"waitsFor"` // "retry", "person", "budget" or "dlq"
	RetryAt     time.Time `json:"retryAt,omitzero"`
	Error       string    `json:"error"`
	FirstFailed time.Time `json:"firstFailed,omitzero"`
}

// Status takes a snapshot. It may be called from any goroutine, at any time.
func (c *Consumer) Status() Status {
	s := Status{
		Group: c.group, Instance: c.cfg.Instance, Running: c.running.Load(), Strategy: c.cfg.Strategy.Current().String(),
		Partitions: []PartitionStatus{}, Held: []HeldRecord{}, Stalled: []string{},
	}
	if at := c.lastPoll.Load(); at != 0 {
		s.PollAge = time.Since(c.made) - time.Duration(at)
	}
	if away := c.keeper.health(); !away.IsZero() {
		s.StoreAway = time.Since(away)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fatalText != "" {
		s.Fatal = c.fatalText
	}
	v := c.desk.View()
	s.Guard, s.Budget = v.Guard, v.Spent
	if v.Breaker != nil {
		s.Breaker = BreakerStatus(*v.Breaker)
	}
	for _, p := range v.Parts {
		l := p.Part.Owner.(*lane)
		ps := PartitionStatus{
			Topic: p.Part.ID.Topic, Partition: p.Part.ID.Partition, Paused: c.told[p.Part.ID], Reasons: c.reasons(l).Names(),
			Records: l.records.Load(), Bytes: l.bytes.Load(), Done: p.Part.Storable(), Calling: l.current.Load() != nil, Letters: p.Letters,
		}
		if p.Breaker != nil {
			b := BreakerStatus(*p.Breaker)
			ps.Breaker = &b
		}
		if p.Refused != nil {
			ps.Refused = p.Refused.Error()
		}
		s.Records += ps.Records
		s.Bytes += ps.Bytes
		s.Partitions = append(s.Partitions, ps)
		for _, h := range p.Held {
			s.Held = append(s.Held, HeldRecord{Topic: ps.Topic, Partition: ps.Partition, Offset: h.Offset, Attempts: h.Attempts,
				WaitsFor: h.WaitsFor, RetryAt: h.RetryAt, Error: h.Error, FirstFailed: h.FirstFailed})
		}
		if p.Part.Stalled() {
			s.Stalled = append(s.Stalled, name(p.Part.ID))
		}
		if p.DLQError != nil && s.DLQError == "" {
			s.DLQError = p.DLQError.Error()
		}
	}
	sort.Slice(s.Partitions, func(i, j int) bool {
		a, b := s.Partitions[i], s.Partitions[j]
		return a.Topic < b.Topic || a.Topic == b.Topic && a.Partition < b.Partition
	})
	return s
}
