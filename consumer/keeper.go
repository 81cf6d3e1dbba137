package consumer

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/breakwater-go/breakwater/attempts"
	"github.com/breakwater-go/breakwater/observe"
)

// keeper talks to the attempt store, off every other path: the writes of one partition one after the other, those of several at the same
// time. What the store did not take it keeps, and writes again when the store is back. A store that is away costs no more than its
// time-out, and its answers never decide anything but counts and waits.
type keeper struct {
	c *Consumer

	mu      sync.Mutex
	unsaved map[partition]map[attempts.Record]unsaved
	unread  map[partition]bool // claimed while the store was away
	away    time.Time          // since when the store is away; zero: it is not
	sick    map[partition]bool // partitions whose key is unusable
	closed  bool
	busy    sync.WaitGroup
	stop    chan struct{}
	marks   chan struct{} // held while marks are set or taken off, so that a claim never comes after its lane's release

	ctx    context.Context // of every call to the store
	cancel context.CancelFunc
}

// unsaved is a write that the store has not taken.
type unsaved struct {
	entry attempts.Entry
	at    time.Time
}

// storePatience bounds every call to the store, besides the store's own time-out.
const (
	storePatience = time.Second
	storeRetry    = time.Second
	maxUnsaved    = 10_000
)

func newKeeper(c *Consumer) *keeper {
	k := &keeper{
		c:       c,
		unsaved: map[partition]map[attempts.Record]unsaved{},
		unread:  map[partition]bool{},
		sick:    map[partition]bool{},
		stop:    make(chan struct{}),
		marks:   make(chan struct{}, 1),
	}
	k.ctx, k.cancel = context.WithCancel(context.Background())
	return k
}

func (k *keeper) store() attempts.Store { return k.c.cfg.Attempts }

// enqueue runs op after the earlier ones of its partition.
func (k *keeper) enqueue(l *lane, op func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return
	}
	l.ops = append(l.ops, op)
	if l.opsBusy {
		return
	}
	l.opsBusy = true
	k.busy.Add(1)
	go k.work(l)
}

func (k *keeper) work(l *lane) {
	defer k.busy.Done()
	for {
		k.mu.Lock()
		if len(l.ops) == 0 {
			l.opsBusy = false
			k.mu.Unlock()
			return
		}
		op := l.ops[0]
		l.ops = l.ops[1:]
		k.mu.Unlock()
		op()
	}
}

func (k *keeper) patience() (context.Context, context.CancelFunc) {
	return context.WithTimeout(k.ctx, storePatience)
}

// save writes an entry and tells the desk. It is called under the desk's mutex.
func (k *keeper) save(l *lane, r attempts.Record, e attempts.Entry) {
	at := time.Now()
	k.enqueue(l, func() {
		ctx, cancel := k.patience()
		defer cancel()
		answer, err := k.store().Save(ctx, k.c.group, l.id(), r, e)
		k.noted(l.id(), err)
		k.keep(l.id(), r, unsaved{e, at}, err)
		k.c.decide(func(now time.Time) { k.c.desk.Saved(now, l.part, r, answer, err) })
	})
}

func (k *keeper) keep(p partition, r attempts.Record, u unsaved, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err == nil {
		delete(k.unsaved[p], r)
		return
	}
	if k.unsaved[p] == nil {
		k.unsaved[p] = map[attempts.Record]unsaved{}
	}
	if len(k.unsaved[p]) < maxUnsaved {
		k.unsaved[p][r] = u
	}
}

// unnote takes a note back, and writes before, what was known until then: while the store was away it may have heard of it only with the note.
func (k *keeper) unnote(l *lane, r attempts.Record, before attempts.Entry) {
	at := time.Now()
	k.enqueue(l, func() {
		ctx, cancel := k.patience()
		defer cancel()
		k.keep(l.id(), r, unsaved{}, nil)
		err := k.store().Unnote(ctx, k.c.group, l.id(), r)
		if before.Attempts > 0 {
			if err == nil {
				_, err = k.store().Save(ctx, k.c.group, l.id(), r, before)
			}
			k.keep(l.id(), r, unsaved{before, at}, err)
		}
		k.noted(l.id(), err)
		k.c.decide(func(now time.Time) { k.c.desk.Unnoted(now, l.part, r) })
	})
}

// forget drops what a commit has covered.
func (k *keeper) forget(l *lane, below int64) {
	k.enqueue(l, func() {
		k.mu.Lock()
		for r := range k.unsaved[l.id()] {
			if r.Offset < below {
				delete(k.unsaved[l.id()], r)
			}
		}
		k.mu.Unlock()
		ctx, cancel := k.patience()
		defer cancel()
		k.noted(l.id(), k.store().Forget(ctx, k.c.group, l.id(), below))
	})
}

// claim reads what is known of new partitions, in one call, and tells the desk; until then none of their records is called. Where the store
// is away the partitions start without, and it is read when it is back.
func (k *keeper) claim(lanes []*lane) {
	k.busy.Add(1)
	go func() {
		defer k.busy.Done()
		k.read(lanes)
	}()
}

func (k *keeper) read(lanes []*lane) {
	k.marks <- struct{}{}
	defer func() { <-k.marks }()
	k.mu.Lock()
	lanes = slices.DeleteFunc(slices.Clone(lanes), func(l *lane) bool { return l.released })
	k.mu.Unlock()
	if len(lanes) == 0 {
		return
	}
	ps := make([]partition, len(lanes))
	for i, l := range lanes {
		ps[i] = l.id()
	}
	ctx, cancel := k.patience()
	defer cancel()
	loaded, err := k.store().Claim(ctx, k.c.group, k.c.owner, ps)
	k.noted(partition{}, err)
	k.c.decide(func(now time.Time) {
		for _, l := range lanes {
			known, ok := loaded[l.id()]
			k.mu.Lock()
			if ok {
				delete(k.unread, l.id())
			} else {
				k.unread[l.id()] = true
			}
			known.Entries = k.merge(l.id(), known.Entries, now)
			k.mu.Unlock()
			k.c.desk.Claimed(now, l.part, &known)
		}
	})
}

// merge adds what the store has not taken to what it has.
func (k *keeper) merge(p partition, known map[attempts.Record]attempts.Entry, now time.Time) map[attempts.Record]attempts.Entry {
	for r, u := range k.unsaved[p] {
		if old, ok := known[r]; ok && old.Attempts >= u.entry.Attempts {
			continue
		}
		if known == nil {
			known = map[attempts.Record]attempts.Entry{}
		}
		u.entry.Wait = max(0, u.entry.Wait-now.Sub(u.at))
		known[r] = u.entry
	}
	return known
}

// release takes our marks off: a clean leave. It comes after the writes of these partitions that are on their way. With warn the marks stay, so
// that the next owner is warned as we were.
func (k *keeper) release(lanes []*lane, warn bool) (done chan struct{}) {
	done = make(chan struct{})
	var before sync.WaitGroup
	ps := make([]partition, len(lanes))
	for i, l := range lanes {
		ps[i] = l.id()
		before.Add(1)
		k.enqueue(l, before.Done)
		k.mu.Lock()
		l.released = true
		delete(k.unread, l.id())
		k.mu.Unlock()
	}
	k.busy.Add(1)
	go func() {
		defer k.busy.Done()
		defer close(done)
		before.Wait()
		if warn {
			return
		}
		k.marks <- struct{}{}
		defer func() { <-k.marks }()
		ctx, cancel := k.patience()
		defer cancel()
		k.noted(partition{}, k.store().Release(ctx, k.c.group, k.c.owner, ps))
	}()
	return done
}

// noted keeps the store's health, and tells when it changes. An unusable key is one partition's affair.
func (k *keeper) noted(p partition, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	unusable := errors.Is(err, attempts.ErrWrongType) || errors.Is(err, attempts.ErrGarbage)
	if (err == nil || unusable) && !k.away.IsZero() {
		k.c.tell(observe.Event{Kind: observe.StoreBack, For: time.Since(k.away)})
		k.away = time.Time{}
	}
	switch {
	case unusable:
		if !k.sick[p] {
			k.sick[p] = true
			k.c.tell(observe.Event{Kind: observe.Warning, Topic: p.Topic, Partition: p.Partition, Offset: -1, Err: err,
				Text: "attempts of this partition are counted in memory"})
		}
	case err != nil:
		if k.away.IsZero() {
			k.away = time.Now()
			k.c.tell(observe.Event{Kind: observe.StoreAway, Err: err})
		}
	default:
		delete(k.sick, p)
	}
}

func (k *keeper) start() {
	k.busy.Add(1)
	go k.run()
}

// run writes again what the store did not take, and reads what it could not answer.
func (k *keeper) run() {
	defer k.busy.Done()
	ticker := time.NewTicker(storeRetry)
	defer ticker.Stop()
	for {
		select {
		case <-k.stop:
			return
		case <-ticker.C:
		}
		k.again()
	}
}

func (k *keeper) again() {
	if h, ok := k.store().(attempts.Health); ok && !h.Healthy() {
		return
	}
	k.mu.Lock()
	behind := map[partition]bool{}
	for p, records := range k.unsaved {
		if len(records) > 0 {
			behind[p] = true
		}
	}
	unread := make(map[partition]bool, len(k.unread))
	for p := range k.unread {
		unread[p] = true
	}
	k.mu.Unlock()
	if len(behind) == 0 && len(unread) == 0 {
		return
	}
	var lanes []*lane
	k.c.mu.Lock()
	for p, l := range k.c.lanes {
		if unread[p] {
			lanes = append(lanes, l)
		}
	}
	k.c.mu.Unlock()
	if len(lanes) > 0 {
		k.read(lanes)
	}
	for p := range behind {
		if !k.rewrite(p) {
			return
		}
	}
}

// rewrite writes the entries of one partition again, with what remains of their waits.
func (k *keeper) rewrite(p partition) bool {
	k.mu.Lock()
	records := make(map[attempts.Record]unsaved, len(k.unsaved[p]))
	for r, u := range k.unsaved[p] {
		records[r] = u
	}
	k.mu.Unlock()
	for r, u := range records {
		e := u.entry
		e.Wait = max(0, e.Wait-time.Since(u.at))
		ctx, cancel := k.patience()
		_, err := k.store().Save(ctx, k.c.group, p, r, e)
		cancel()
		k.noted(p, err)
		if err != nil {
			return false
		}
		k.mu.Lock()
		if k.unsaved[p][r] == u {
			delete(k.unsaved[p], r)
		}
		k.mu.Unlock()
	}
	return true
}

// close waits for the writes that are on their way, as long as for one call.
func (k *keeper) close() {
	close(k.stop)
	k.mu.Lock()
	k.closed = true
	k.mu.Unlock()
	giveUp := time.AfterFunc(storePatience, k.cancel)
	defer giveUp.Stop()
	k.busy.Wait()
	k.cancel()
}

// health says since when the store is away; zero: it is well.
func (k *keeper) health() time.Time {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.away
}
