package stage

// A watch on one group counts its rebalances after the first assignment. The embedded broker tells its generation; a real one is asked ten times a
// second who is in the group and what each of them has, and a change of that is one.

import (
	"context"
	"fmt"
	"time"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"
)

// Watch is a watch that runs.
type Watch struct {
	stage *Stage
	group string
	stop  context.CancelFunc
	ended chan struct{}

	first   int32 // the generation of the embedded broker's group at its first assignment; -1: none yet
	settled string
	moving  bool
	changes int
}

// Watch begins to watch a group.
func (s *Stage) Watch(group string) *Watch {
	ctx, stop := context.WithCancel(context.Background())
	w := &Watch{stage: s, group: group, stop: stop, ended: make(chan struct{}), first: -1}
	go func() {
		defer close(w.ended)
		for tick := time.NewTicker(100 * time.Millisecond); ; {
			w.look(ctx)
			select {
			case <-ctx.Done():
				tick.Stop()
				return
			case <-tick.C:
			}
		}
	}()
	return w
}

func (w *Watch) look(ctx context.Context) {
	if fake := w.stage.Fake; fake != nil {
		if g := fake.GroupInfo(w.group); g != nil && g.State == "Stable" {
			if w.first < 0 {
				w.first = g.Epoch
			}
			w.changes = int(g.Epoch - w.first)
		}
		return
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	r, err := w.stage.admin.DescribeConsumerGroups(ctx, []string{w.group})
	if err == nil && r.ConsumerGroupDescriptions[0].Error.Code() == kafka.ErrNoError {
		w.see(r.ConsumerGroupDescriptions[0])
	}
}

// see takes one description of the group.
func (w *Watch) see(g kafka.ConsumerGroupDescription) {
	if g.State != kafka.ConsumerGroupStateStable {
		if w.settled != "" && !w.moving {
			w.moving = true
			w.changes++
		}
		return
	}
	now := ""
	for _, m := range g.Members {
		now += fmt.Sprintln(m.ConsumerID, m.Assignment.TopicPartitions)
	}
	if w.settled != "" && !w.moving && now != w.settled {
		w.changes++
	}
	w.settled, w.moving = now, false
}

// Rebalances ends the watch and answers the count. Ask while the members still run: a leave is a rebalance too.
func (w *Watch) Rebalances() int {
	w.stop()
	<-w.ended
	return w.changes
}
