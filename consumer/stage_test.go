package consumer

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"

	"github.com/breakwater-go/breakwater/attempts"
	"github.com/breakwater-go/breakwater/dlq"
	"github.com/breakwater-go/breakwater/failure"
	"github.com/breakwater-go/breakwater/internal/simkafka"
	"github.com/breakwater-go/breakwater/observe"
	"github.com/breakwater-go/breakwater/strategy"
)

// The stage on which a script is played: a simulated cluster, an attempt store, a DLQ and a dependency that fail when the script says so, and instances that come and
// go. Each tells the model what it saw. An instance that dies has no effect on anything from that instant on, though its goroutines run to their end.

// stage is where a script is played.
type stage struct {
	script  script
	model   *model
	cluster *simkafka.Cluster
	store   attempts.Store
	plan    atomic.Pointer[strategy.Strategy]

	mu        sync.Mutex
	slots     [scriptSlots]*actor
	all       []*actor
	storeMode string
	storeEnd  time.Time
	skew      time.Duration // by which the store's clock was set forward in all
	waits     map[waiting]storedWait
	dlqMode   string
	dlqEnd    time.Time
	downEnd   time.Time
	awayEnd   time.Time // of coordinator and leaders
	cured     bool      // the dependency takes everything that it can take
	sessions  time.Time // when the coordinator has been away for as long as a session
	busy      sync.WaitGroup
}

// actor is one instance.
type actor struct {
	s      *stage
	slot   int
	seen   *modelMember
	client *watchedClient
	c      *Consumer
	cancel context.CancelFunc
	ended  chan struct{}
	dead   chan struct{}
	once   sync.Once
	leaky  bool // its client may have lost a pause
}

func newStage(sc script) *stage {
	s := &stage{script: sc, model: newModel(sc.partitions, sc.reset), cluster: simkafka.NewCluster(sc.seed), store: attempts.Memory(), waits: map[waiting]storedWait{}}
	s.cluster.CreateTopic(topic, sc.partitions)
	s.cluster.OnCommit(s.model.committed)
	s.reload(sc.plan)
	return s
}

// Current is the strategy in force: the stage is the instances' strategy.Source.
func (s *stage) Current() *strategy.Strategy { return s.plan.Load() }

func (s *stage) reload(name string) {
	p, ok := plans[name]
	if !ok {
		panic("no plan " + name)
	}
	s.model.force(p)
	old, next := s.plan.Load(), strategy.MustParse(p.json)
	s.plan.Store(next)
	for _, a := range s.running() {
		a.c.reloaded(strategy.Reload{Path: name, Old: old, New: next})
	}
}

// running are the instances that are alive and not asked to stop.
func (s *stage) running() []*actor {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.slots[:]), func(a *actor) bool { return a == nil })
}

func (s *stage) slot(n int) *actor {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.slots[n]
}

// start runs an instance in a free slot.
func (s *stage) start(slot int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.slots[slot] != nil {
		return
	}
	a := &actor{s: s, slot: slot, ended: make(chan struct{}), dead: make(chan struct{})}
	name := fmt.Sprintf("c%d", len(s.all)+1)
	a.seen = s.model.joins(name, s.model.plans[len(s.model.plans)-1].plan)
	cfg := Config{
		Topics: []string{topic}, Handler: a.handle, Strategy: s, Attempts: actorStore{a}, Instance: name,
		HandlerTimeout: scriptHandlerTimeout, DrainTimeout: scriptDrainTimeout, CrashLimit: scriptCrashLimit,
		Observers: []observe.Observer{observe.Func(func(e observe.Event) { s.model.event(a.seen, e) })},
		Kafka: &kafka.ConfigMap{"bootstrap.servers": "simulated", "group.id": group, "auto.offset.reset": s.script.reset,
			"max.poll.interval.ms": int(scriptMaxPoll.Milliseconds())},
	}
	if s.script.buffer == "tight" {
		cfg.BufferBytes, cfg.PendingLetters = scriptTight, 2
	}
	if err := cfg.Validate(); err != nil {
		panic(err)
	}
	a.client = &watchedClient{a: a, Client: s.cluster.NewClient(simkafka.Options{Group: group, ClientID: name, Protocol: s.script.protocol, AutoOffsetReset: s.script.reset,
		MaxPollInterval: scriptMaxPoll, SessionTimeout: scriptSession, HeartbeatInterval: scriptHeartbeat})}
	a.c = assemble(a.client, cfg.withDefaults(), actorDLQ{a})
	ctx, cancel := context.WithCancel(context.Background())
	a.cancel = cancel
	s.slots[slot], s.all = a, append(s.all, a)
	go func() {
		defer close(a.ended)
		s.model.ended(a.seen, a.c.Run(ctx))
	}()
}

// take empties a slot, and answers who was in it.
func (s *stage) take(slot int) *actor {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.slots[slot]
	s.slots[slot] = nil
	return a
}

func (s *stage) stop(slot int) {
	if a := s.take(slot); a != nil {
		s.model.ends(a.seen, false)
		a.cancel()
	}
}

func (s *stage) crash(slot int) {
	if a := s.take(slot); a != nil {
		a.die()
	}
}

func (a *actor) die() {
	a.once.Do(func() {
		a.s.model.ends(a.seen, true)
		close(a.dead)
		a.client.Crash()
		a.cancel()
	})
}

func (a *actor) isDead() bool {
	select {
	case <-a.dead:
		return true
	default:
		return false
	}
}

// play carries out one step.
func (s *stage) play(step scriptStep) {
	s.model.note("---- %v", step)
	switch step.do {
	case "produce":
		for range step.number(1) {
			s.produce(int32(step.number(0)), step.word(2), step.duration(3))
		}
	case "start":
		s.start(step.number(0))
	case "stop":
		s.stop(step.number(0))
	case "crash":
		s.crash(step.number(0))
	case "lose", "kick", "emit", "faults", "pause", "resume", "retry", "skip":
		if a := s.slot(step.number(0)); a != nil {
			a.play(step)
		}
	case "coordinator":
		s.away(step.duration(0))
	case "fetch":
		s.mu.Lock()
		s.awayEnd = later(s.awayEnd, time.Now().Add(step.duration(0)))
		s.mu.Unlock()
		s.model.brokersBad(step.duration(0))
		s.cluster.FetchAway(step.duration(0))
	case "down":
		s.mu.Lock()
		s.downEnd = later(s.downEnd, time.Now().Add(step.duration(0)))
		s.mu.Unlock()
	case "store":
		s.mu.Lock()
		s.storeMode, s.storeEnd = step.word(0), later(s.storeEnd, time.Now().Add(step.duration(1)))
		bad := time.Until(s.storeEnd)
		s.mu.Unlock()
		s.model.storeBad(bad)
	case "clock":
		s.mu.Lock()
		s.skew += step.duration(0)
		s.mu.Unlock()
		s.model.clockSet(step.duration(0))
	case "dlq":
		s.mu.Lock()
		s.dlqMode, s.dlqEnd = step.word(0), later(s.dlqEnd, time.Now().Add(step.duration(1)))
		s.mu.Unlock()
	case "reload":
		s.reload(step.word(0))
	case "delete":
		p := int32(step.number(0))
		first, end := s.cluster.Offsets(topic, p)
		before := min(first+int64(step.number(1)), end)
		s.model.deleted(p, before)
		s.cluster.DeleteRecords(topic, p, before)
	default:
		panic(fmt.Sprintf("no step %q", step.do))
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// away takes the coordinator away. Away for nearly a session, a classic member can lose its partitions.
func (s *stage) away(d time.Duration) {
	s.mu.Lock()
	now := time.Now()
	if !s.sessions.After(now) { // it was there until now
		s.sessions = now.Add(scriptSession - scriptHeartbeat - time.Second)
	}
	end := later(s.awayEnd, now.Add(d))
	s.awayEnd = end
	s.mu.Unlock()
	if end.After(s.sessions) {
		for _, a := range s.running() {
			s.model.mayLose(a.seen)
		}
	}
	s.model.brokersBad(d)
	s.cluster.CoordinatorAway(d)
}

// play carries out a step that is done to one instance.
func (a *actor) play(step scriptStep) {
	m := a.s.model
	switch step.do {
	case "lose":
		m.mayLose(a.seen)
		a.client.LoseAssignment()
	case "kick":
		m.mayLose(a.seen)
		a.s.cluster.Kick(a.client.MemberID())
	case "emit":
		a.client.Emit(kafka.NewError(kafka.ErrTransport, "broker transport failure", false))
	case "faults":
		m.loses(a.seen)
		a.leaky = a.leaky || step.number(1) > 0
		chance := func(n int) float64 { return float64(step.number(n)) / 100 }
		a.client.SetFaults(simkafka.Faults{LosePause: chance(1), LoseResume: chance(2), LoseStart: chance(3), Stale: chance(4)})
	case "pause", "resume", "retry":
		p := int32(-1)
		var tps []kafka.TopicPartition
		if step.word(1) != "all" {
			p = int32(step.number(1))
			tps = []kafka.TopicPartition{toKafka(partition{Topic: topic, Partition: p}, 0)}
		}
		var err error
		switch step.do {
		case "pause":
			err = a.c.Pause(tps...)
		case "resume":
			m.frees(a.seen)
			err = a.c.Resume(tps...)
		default:
			m.frees(a.seen)
			err = a.c.RetryNow(context.Background(), tps...)
		}
		if err == nil {
			m.operator(a.seen, step.do, p)
		}
	case "skip":
		for _, h := range a.c.Status().Held {
			if h.Partition == int32(step.number(1)) {
				a.skip(h)
				return
			}
		}
	}
}

// skip skips a held record, and does not wait for its dead letter.
func (a *actor) skip(h HeldRecord) {
	a.s.model.skip(h.Partition, h.Offset, true)
	a.s.busy.Add(1)
	go func() {
		defer a.s.busy.Done()
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = a.c.Skip(ctx, toKafka(partition{Topic: topic, Partition: h.Partition}, 0), h.Offset, "a person says so")
	}()
}

// produce appends one record with its fate. Some have no key, no value, or headers of their own.
func (s *stage) produce(p int32, fate string, latency time.Duration) {
	r := &modelRecord{p: p, key: []byte("key"), value: []byte("value"), fate: fate, timestamp: time.Now()}
	s.model.produces(r)
	switch r.offset % 4 {
	case 1:
		r.key = nil
	case 2:
		r.value = nil
	case 3:
		r.headers = []kafka.Header{{Key: "a", Value: []byte("1")}, {Key: "a", Value: nil}}
	}
	// No two take the same time, so that their ends have an order.
	r.latency = latency + time.Duration(1+r.offset%1000*7+int64(p)*3)*time.Microsecond
	s.cluster.Produce(topic, p, r.key, r.value, r.headers, r.timestamp)
}

var (
	errStageDown = errors.New("connection refused")
	errDead      = errors.New("this process is dead")
)

// handle is the handler of an instance.
func (a *actor) handle(ctx context.Context, msg *kafka.Message) error {
	if a.isDead() {
		return errDead
	}
	c := a.s.model.begin(a.seen, msg.TopicPartition.Partition, int64(msg.TopicPartition.Offset), AttemptFrom(ctx).Number, func() bool { return ctx.Err() != nil })
	if c == nil {
		return nil
	}
	began := time.Now()
	var o outcome
	var err error
	returned := false
	defer func() {
		switch {
		case a.isDead():
			o = outcome{kind: "died"}
		case !returned: // a panic, or Goexit
		case err != nil:
			o.text = err.Error()
		}
		o.cut = ctx.Err() != nil && time.Since(began) < scriptHandlerTimeout
		a.s.model.end(c, o)
	}()
	o, err = a.work(ctx, c)
	switch o.kind {
	case "panic":
		o.text = "no such luck"
		panic(o.text)
	case "goexit":
		o = outcome{kind: "panic", text: "runtime.Goexit"}
		runtime.Goexit()
	}
	returned = true
	return err
}

// work does what the fate of a record says.
func (a *actor) work(ctx context.Context, c *modelCall) (outcome, error) {
	r := c.record
	fate, n, d := r.is()
	failed := func() (outcome, error) {
		return outcome{kind: "transient"}, fmt.Errorf("call %d of %s: %w", c.try, r.name(), errStageDown)
	}
	a.sleep(r.latency)
	if a.isDead() {
		return outcome{kind: "died"}, errDead
	}
	a.s.mu.Lock()
	down, cured := time.Now().Before(a.s.downEnd), a.s.cured
	a.s.mu.Unlock()
	switch {
	case fate == "permanent":
		return outcome{kind: "permanent"}, failure.Permanent(fmt.Errorf("call %d of %s: bad input", c.try, r.name()))
	case fate == "panic", fate == "goexit":
		return outcome{kind: fate}, nil
	case fate == "kill" && c.try <= n:
		a.s.dies(a)
		return outcome{kind: "died"}, errDead
	case down:
		return failed()
	case cured:
	case fate == "fail" && c.try <= n:
		return failed()
	case fate == "after" && c.try == 1:
		o, err := failed()
		o.after = d
		return o, failure.RetryAfter(err, d)
	case fate == "heed" && c.try <= n:
		select {
		case <-ctx.Done():
		case <-a.dead:
		}
		return outcome{kind: "transient"}, fmt.Errorf("call %d of %s: %w", c.try, r.name(), ctx.Err())
	case fate == "hang" && c.try == 1, fate == "stubborn":
		a.sleep(d)
	case fate == "hang-fail" && c.try == 1:
		a.sleep(d)
		return failed()
	}
	return outcome{kind: "ok"}, nil
}

// sleep lasts no longer than the process.
func (a *actor) sleep(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-a.dead:
	}
}

// dies is a handler that kills its process; somebody starts another a while later.
func (s *stage) dies(a *actor) {
	s.mu.Lock()
	mine := s.slots[a.slot] == a
	if mine {
		s.slots[a.slot] = nil
	}
	s.mu.Unlock()
	if mine {
		time.AfterFunc(time.Second, func() { s.start(a.slot) })
	}
	a.die()
}

// watchedClient tells the model of the callbacks, and how the consumer polls.
type watchedClient struct {
	*simkafka.Client
	a      *actor
	began  time.Time     // when the last Poll began
	polled time.Time     // and when it ended
	inCall time.Duration // spent in callbacks within the Poll that runs
}

func (w *watchedClient) SubscribeTopics(topics []string, cb kafka.RebalanceCb) error {
	m := w.a.s.model
	w.polled = time.Now()
	return w.Client.SubscribeTopics(topics, func(k *kafka.Consumer, ev kafka.Event) error {
		if w.a.isDead() {
			return cb(k, ev)
		}
		m.rebalance(w.a.seen, ev, false)
		began := time.Now()
		err := cb(k, ev)
		took := time.Since(began)
		w.inCall += took
		m.rebalance(w.a.seen, ev, true)
		bound := lookUpTimeout
		if _, revoke := ev.(kafka.RevokedPartitions); revoke {
			bound = scriptDrainTimeout
		}
		if took > bound+20*time.Millisecond {
			m.violate("3", "%s spends %v in the callback of %v", w.a.seen.name, took, ev)
		}
		return err
	})
}

func (w *watchedClient) Poll(timeoutMs int) kafka.Event {
	m := w.a.s.model
	began := time.Now()
	if gap := began.Sub(w.polled); gap > 10*time.Millisecond && began.Sub(w.began) > 100*time.Millisecond && !w.a.isDead() {
		m.violate("3", "%s does not poll for %v", w.a.seen.name, gap)
	}
	w.began, w.inCall = began, 0
	ev := w.Client.Poll(timeoutMs)
	w.polled = time.Now()
	if took := w.polled.Sub(began) - w.inCall; took > 100*time.Millisecond && !w.a.isDead() {
		m.violate("3", "%s polls for %v", w.a.seen.name, took)
	}
	if e, ok := ev.(kafka.Error); ok && e.Code() == kafka.ErrMaxPollExceeded {
		m.violate("3", "%s is put out of the group for not polling", w.a.seen.name)
	}
	return ev
}

// Commit can cost the client its partitions where a rebalance overtakes it: that is the client's own answer to ILLEGAL_GENERATION.
func (w *watchedClient) Commit() ([]kafka.TopicPartition, error) {
	offsets, err := w.Client.Commit()
	overtaken := code(err) == kafka.ErrIllegalGeneration
	for _, o := range offsets {
		overtaken = overtaken || code(o.Error) == kafka.ErrIllegalGeneration
	}
	if overtaken {
		w.a.s.model.mayLose(w.a.seen)
	}
	return offsets, err
}

// actorStore is the attempt store as one instance reaches it.
type actorStore struct{ a *actor }

var errStoreAway = fmt.Errorf("%w: connection refused", attempts.ErrAway)

// reach is the way to the store and back: before says whether the request arrives, after what the answer is.
func (s actorStore) reach(ctx context.Context, do func() error) error {
	st := s.a.s
	if s.a.isDead() {
		return errDead
	}
	st.mu.Lock()
	mode := ""
	if time.Now().Before(st.storeEnd) {
		mode = st.storeMode
	}
	st.mu.Unlock()
	wait := time.Millisecond
	if mode == "slow" {
		wait = 3 * time.Second
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", attempts.ErrAway, ctx.Err())
	case <-timer.C:
	}
	if s.a.isDead() {
		return errDead
	}
	switch mode {
	case "away":
		return errStoreAway
	case "garbage":
		return attempts.ErrGarbage
	}
	err := do()
	if mode == "lost-answer" {
		return errStoreAway
	}
	return err
}

// The store's clock can be set, and only it: a store says how much of a wait is left from when it began and what its clock shows, never more than the wait. The
// memory's runs with everybody's, so that is done here.

type waiting struct {
	attempts.Partition
	attempts.Record
	number int // of the attempt
}

type storedWait struct {
	began time.Time
	skew  time.Duration
	wait  time.Duration
}

// saved notes when a wait began.
func (s *stage) saved(p attempts.Partition, r attempts.Record, e attempts.Entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := waiting{p, r, e.Attempts}
	if old, known := s.waits[k]; !known || e.Wait >= old.wait {
		s.waits[k] = storedWait{time.Now(), s.skew, e.Wait}
	}
}

// shown is an entry as the store's clock makes it.
func (s *stage) shown(p attempts.Partition, r attempts.Record, e attempts.Entry) attempts.Entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w, known := s.waits[waiting{p, r, e.Attempts}]; known && w.skew != s.skew {
		e.Wait = max(0, min(w.wait, w.wait-time.Since(w.began)-(s.skew-w.skew)))
	}
	return e
}

func (s actorStore) Claim(ctx context.Context, group, owner string, ps []attempts.Partition) (all map[attempts.Partition]attempts.Loaded, err error) {
	var got map[attempts.Partition]attempts.Loaded
	if err = s.reach(ctx, func() (err error) { got, err = s.a.s.store.Claim(ctx, group, owner, ps); return err }); err == nil {
		all = got
		for p, l := range all {
			for r, e := range l.Entries {
				l.Entries[r] = s.a.s.shown(p, r, e)
			}
		}
	}
	return all, err
}

func (s actorStore) Save(ctx context.Context, group string, p attempts.Partition, r attempts.Record, e attempts.Entry) (attempts.Entry, error) {
	stands := e
	err := s.reach(ctx, func() (err error) {
		if stands, err = s.a.s.store.Save(ctx, group, p, r, e); err == nil {
			s.a.s.saved(p, r, e)
		}
		return err
	})
	if err != nil {
		return e, err
	}
	return s.a.s.shown(p, r, stands), nil
}

func (s actorStore) Unnote(ctx context.Context, group string, p attempts.Partition, r attempts.Record) error {
	return s.reach(ctx, func() error { return s.a.s.store.Unnote(ctx, group, p, r) })
}

func (s actorStore) Forget(ctx context.Context, group string, p attempts.Partition, below int64) error {
	return s.reach(ctx, func() error { return s.a.s.store.Forget(ctx, group, p, below) })
}

func (s actorStore) Release(ctx context.Context, group, owner string, ps []attempts.Partition) error {
	return s.reach(ctx, func() error { return s.a.s.store.Release(ctx, group, owner, ps) })
}

// actorDLQ is the DLQ's writer of one instance.
type actorDLQ struct{ a *actor }

func (d actorDLQ) Check(context.Context, []string) error            { return nil }
func (d actorDLQ) SetOAuthBearerToken(kafka.OAuthBearerToken) error { return nil }
func (d actorDLQ) SetOAuthBearerTokenFailure(string) error          { return nil }
func (d actorDLQ) Close(context.Context) error                      { return nil }

var errBrokerAway = errors.New("the DLQ's broker is away")

// Write answers after a while, always: the real writer has a time-out as well.
func (d actorDLQ) Write(l dlq.Letter, done func(error)) {
	if d.a.isDead() {
		return
	}
	s := d.a.s
	letter := s.model.sends(d.a.seen, l)
	s.mu.Lock()
	mode := ""
	if time.Now().Before(s.dlqEnd) {
		mode = s.dlqMode
	}
	wait := 3 * time.Millisecond
	switch mode {
	case "slow":
		wait = 1500 * time.Millisecond
	case "silent":
		wait = time.Until(s.dlqEnd) + time.Second
	}
	s.mu.Unlock()
	s.busy.Add(1)
	time.AfterFunc(wait, func() {
		defer s.busy.Done()
		r := s.model.record(l.Record.TopicPartition.Partition, int64(l.Record.TopicPartition.Offset))
		if d.a.isDead() {
			// It may have been on its way.
			s.model.answered(d.a.seen, r, letter, mode == "" && r.offset%2 == 0, true)
			return
		}
		written, err := true, error(nil)
		switch mode {
		case "away", "silent":
			written, err = false, errBrokerAway
		case "lost-answer":
			err = errBrokerAway
		}
		s.model.answered(d.a.seen, r, letter, written, err != nil)
		done(err)
	})
}
