package main

// The application that is on show: a handler as users write it, and the payment service that it depends on. The service is the
// fault-injecting stub; its log is what the account believes.

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"

	"github.com/breakwater-go/breakwater/bench/stub/scenario"
	"github.com/breakwater-go/breakwater/bench/stub/server"
	"github.com/breakwater-go/breakwater/consumer"
)

// order is what our producer sends.
type order struct {
	ID     int    `json:"id"`
	Amount string `json:"amount"`
}

// The payment service's phases.
const (
	well = "well"
	down = "down"
)

// payments starts the payment service: well until it is told otherwise, and always a 500 for the record that it chokes on.
func payments(latency time.Duration, choke string) (*server.Server, error) {
	type object = map[string]any
	s := object{"phases": []object{
		{"name": well, "for": scenario.MaxPhase.String(), "latency": latency.String()},
		{"name": down, "latency": latency.String(), "faults": []object{{"do": 503}}},
	}}
	if choke != "" {
		s["poison"] = []object{{"records": []string{choke}, "do": 500}}
	}
	text, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	parsed, err := scenario.Parse("payments", text)
	if err != nil {
		return nil, err
	}
	return server.Start(parsed, "127.0.0.1:0")
}

// charger handles orders.
type charger struct {
	url    string
	http   http.Client
	orders bool // the records are orders of ours; else whatever they hold is sent on
	asked  journal
}

// asking is a call of the payment service as its caller knows it.
type asking struct {
	began, ended time.Time // ended is zero while the caller waits
	unheard      bool      // the caller had no answer: it gave up, or was told to
}

// journal is what the callers have asked for, by record, the oldest first. The service's log can't tell when a caller knew what: on a busy machine a
// call may be long on its way there, and an answer on its way back, or be written for a caller who has gone.
type journal struct {
	mu  sync.Mutex
	all map[string][]*asking
}

// begin notes that a call begins; what it answers notes the end.
func (j *journal) begin(record string) (end func(heard bool)) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.all == nil {
		j.all = map[string][]*asking{}
	}
	a := &asking{began: time.Now()}
	j.all[record] = append(j.all[record], a)
	return func(heard bool) {
		j.mu.Lock()
		defer j.mu.Unlock()
		a.ended, a.unheard = time.Now(), !heard
	}
}

// entries is a copy.
func (j *journal) entries() map[string][]asking {
	j.mu.Lock()
	defer j.mu.Unlock()
	all := make(map[string][]asking, len(j.all))
	for record, askings := range j.all {
		for _, a := range askings {
			all[record] = append(all[record], *a)
		}
	}
	return all
}

// charge is the handler. Its errors are the plain ones: the default classifier knows that bad JSON is permanent, and a 5xx transient.
func (c *charger) charge(ctx context.Context, record *kafka.Message) error {
	if c.orders {
		if err := json.Unmarshal(record.Value, &order{}); err != nil {
			return err
		}
	}
	call, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url+"/charge", bytes.NewReader(record.Value))
	if err != nil {
		return err
	}
	at := record.TopicPartition
	name := recordName(*at.Topic, coordinates{at.Partition, int64(at.Offset)})
	call.Header.Set("X-Record", name)
	call.Header.Set("X-Attempt", strconv.Itoa(consumer.AttemptFrom(ctx).Number))
	end := c.asked.begin(name)
	answer, err := c.http.Do(call)
	end(err == nil)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	_, _ = io.Copy(io.Discard, answer.Body) // so that the connection is used again
	if answer.StatusCode != http.StatusOK {
		return refused{answer.StatusCode}
	}
	return nil
}

// refused is an answer other than 200.
type refused struct{ StatusCode int }

func (r refused) Error() string { return fmt.Sprintf("payments answered %d", r.StatusCode) }
