package main

// A play that is no race: records come at a rate, all contenders run at once, each in a group of its own and with a stub of its own, and all stubs
// begin their schedules together. What a contender did is read from its stub's log.

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/breakwater-go/breakwater/bench/internal/page"
	"github.com/breakwater-go/breakwater/bench/internal/plays"
	"github.com/breakwater-go/breakwater/bench/internal/stage"
	"github.com/breakwater-go/breakwater/bench/internal/tally"
	"github.com/breakwater-go/breakwater/bench/stub/scenario"
	"github.com/breakwater-go/breakwater/bench/stub/server"
	"github.com/breakwater-go/breakwater/strategy"
)

const (
	liveStep  = 250 * time.Millisecond // of a track
	aftermath = 3 * time.Second        // how long records come after the last phase has begun
	patience  = 60 * time.Second       // how long a contender may take for the rest
)

// actor is a contender in a play.
type actor struct {
	*bench
	play  plays.Play
	name  string
	group string
	dlq   string
	src   *stage.Source
	stub  *server.Server
	watch *stage.Watch

	mu      sync.Mutex
	members []*stage.Process // in the order in which they were started
	marks   []page.Mark
	peak    float64 // MB
	before  float64 // memory before and at the end of the last outage
	after   float64
	note    string
	started time.Time // the schedule
	ended   time.Time
}

func (b *bench) live(ctx context.Context, p plays.Play, names []string) (result, error) {
	waits, err := strategy.Parse("strategy.json", []byte(p.Strategy))
	if err != nil {
		return result{}, err
	}
	src := &stage.Source{Partitions: p.Partitions, Headers: true}
	if src.Topic, err = b.stage.CreateTopic(ctx, p.Name, p.Partitions); err != nil {
		return result{}, err
	}
	if err := b.stage.Open(src); err != nil {
		return result{}, err
	}
	if err := src.Produce(p.Ahead); err != nil {
		return result{}, err
	}
	var cast []*actor
	defer func() {
		for _, a := range cast {
			a.close()
		}
	}()
	var dlqs []string
	for _, name := range names {
		a := &actor{bench: b, play: p, name: name, src: src, group: b.stage.Prefix + p.Name + "-" + name}
		if a.dlq, err = b.stage.CreateTopic(ctx, p.Name+"-"+name+".dlq", p.Partitions); err != nil {
			return result{}, err
		}
		if a.stub, err = server.Start(p.Script, "127.0.0.1:0"); err != nil {
			return result{}, err
		}
		dlqs = append(dlqs, a.dlq)
		cast = append(cast, a)
	}
	faults, err := b.stage.Faults(p.Script, dlqs)
	if err != nil {
		return result{rows: absent(p, names, err)}, nil
	}
	for _, a := range cast {
		a.watch = b.stage.Watch(a.group)
		if err := a.start(); err != nil {
			return result{}, err
		}
	}

	flow, dry := context.WithCancel(ctx)
	defer dry()
	produced := make(chan error, 1)
	go func() { produced <- src.Flow(flow, p.Rate) }()
	for _, a := range cast {
		if err := a.awake(ctx); err != nil {
			a.note = err.Error()
		}
	}
	for _, a := range cast {
		if err := a.stub.Restart(); err != nil {
			return result{}, err
		}
		a.started = time.Now()
	}
	defer cast[0].stub.OnTurn(func(s server.Span) {
		if i, err := p.Script.Find(s.Phase); err == nil {
			if err := faults.Begin(p.Script.Phases[i]); err != nil {
				b.say("  %v", err)
			}
		}
	})()
	var acting sync.WaitGroup
	for _, a := range cast {
		acting.Go(func() { a.act(ctx) })
	}
	if err := b.pass(ctx, p, cast); err != nil {
		return result{}, err
	}
	dry()
	if err := <-produced; err != nil {
		return result{}, err
	}
	acting.Wait()
	ends, err := b.stage.Finish(src)
	if err != nil {
		return result{}, err
	}
	var all result
	rows, tracks := make([]tally.Row, len(cast)), make([]page.Track, len(cast))
	for i, a := range cast {
		acting.Go(func() { rows[i], tracks[i] = a.settle(ctx, ends, waits) })
	}
	acting.Wait()
	if ctx.Err() != nil {
		return result{}, ctx.Err()
	}
	for i, row := range rows {
		all.rows, all.tracks = append(all.rows, row), append(all.tracks, tracks[i])
		b.say("  %-12s %s", row.Contender, brief(row))
	}
	return all, nil
}

func absent(p plays.Play, names []string, why error) (rows []tally.Row) {
	for _, name := range names {
		rows = append(rows, tally.Row{Scenario: p.Name, Contender: name, Note: why.Error()})
	}
	return rows
}

// pass lets the schedule pass, and says where it is.
func (b *bench) pass(ctx context.Context, p plays.Play, cast []*actor) error {
	whole := p.Length() + aftermath
	began, said := time.Now(), ""
	for tick := time.NewTicker(100 * time.Millisecond); ; {
		select {
		case <-ctx.Done():
			tick.Stop()
			return ctx.Err()
		case <-tick.C:
		}
		since := time.Since(began)
		m := p.Script.At(since)
		if phase := p.Script.Phases[m.Phase].String(); phase != said {
			said = phase
			b.say("  %s", phase)
		}
		for _, a := range cast {
			a.measure(m.Down && len(p.Script.Phases[m.Phase].Faults) > 0)
		}
		if since > whole {
			tick.Stop()
			return nil
		}
	}
}

// start starts a member.
func (a *actor) start() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	job := a.job(a.play, a.name, a.group, a.src, a.dlq)
	job.Instance = fmt.Sprintf("%s-%d", a.name, len(a.members)+1)
	job.Stub = a.stub.URL()
	p, err := stage.Start(a.commands[a.name], job)
	if err == nil {
		a.members = append(a.members, p)
	}
	return err
}

// awake waits until the first record was handled.
func (a *actor) awake(ctx context.Context) error {
	a.mu.Lock()
	first := a.members[0]
	a.mu.Unlock()
	for deadline := time.Now().Add(startLimit); time.Now().Before(deadline); {
		if a.stub.Summary().Calls > 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-first.Ended:
			return errors.New("it ended by itself: " + first.Failed())
		case <-time.After(10 * time.Millisecond):
		}
	}
	return fmt.Errorf("no record was handled in %v", startLimit)
}

// act carries out what happens to the members.
func (a *actor) act(ctx context.Context) {
	for _, e := range a.play.Events {
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Until(a.started.Add(e.At))):
		}
		a.mu.Lock()
		first, last := a.members[0], a.members[len(a.members)-1]
		a.marks = append(a.marks, page.Mark{At: e.At, Text: [...]string{"kill -9", "a member joins", "a member leaves"}[e.Do]})
		a.mu.Unlock()
		var err error
		switch e.Do {
		case plays.Kill:
			first.Kill()
		case plays.Start:
			err = a.start()
		case plays.Leave:
			last.Leave()
		}
		if err != nil {
			a.note = err.Error()
		}
	}
}

// measure notes the memory of the first member.
func (a *actor) measure(down bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now, peak := a.members[0].Memory()
	if now == 0 {
		return
	}
	a.peak = max(a.peak, peak)
	if down {
		a.after = now
	} else if a.after == 0 {
		a.before = now
	}
}

// settle waits until the contender is through, has it leave, and counts.
func (a *actor) settle(ctx context.Context, ends []int64, waits *strategy.Strategy) (tally.Row, page.Track) {
	row := tally.Row{Scenario: a.play.Name, Contender: a.name}
	a.through(ctx, ends)
	a.measure(false)
	a.ended = time.Now()
	rebalances := a.watch.Rebalances()
	fetched := int64(0)
	for _, m := range a.members {
		if failed := m.Failed(); failed != "" && a.note == "" && len(a.play.Events) == 0 {
			a.note = "it ended by itself: " + failed
		}
		if u, err := m.Usage(); err == nil {
			fetched += u.Fetched
		}
	}
	for _, m := range a.members {
		if !m.Stop(leaveLimit) && a.note == "" {
			a.note = "it did not leave in time, and was killed"
		}
	}
	a.stub.Close()
	row.Note = a.note
	report := a.stub.Report()
	letters, err := a.stage.Letters(a.dlq, a.src)
	var committed []int64
	if err == nil {
		committed, err = a.stage.Committed(a.group, a.src.Topic, a.play.Partitions)
	}
	if err == nil && report.LogDropped > 0 {
		err = fmt.Errorf("the stub has forgotten %d calls", report.LogDropped)
	}
	if err != nil {
		row.Note = err.Error()
		if a.name == "breakwater" {
			row.Broken = []string{"it could not be counted: " + row.Note}
		}
		return row, page.Track{}
	}
	e := evidence(report, a.started, len(a.play.Events) > 0)
	e.Ends, e.Committed, e.Letters, e.Rebalances = ends, committed, letters, rebalances
	e.Poison = poison(a.play.Script, a.src.Topic)
	e.Produced = func(p int32, o int64) time.Duration {
		at, _ := a.src.At(p, o)
		return at.Sub(a.started)
	}
	e.Wait, e.Rotation = waits.Wait, a.play.Exact && a.name == "breakwater"
	row.Figures, row.Rounds = tally.Count(e), 1
	if a.peak > 0 {
		row.Figures["peak_rss_mb"] = a.peak
	}
	if a.after > 0 {
		row.Figures["rss_before_mb"], row.Figures["rss_after_mb"] = a.before, a.after
	}
	if fetched > 0 {
		row.Figures["bytes_fetched"] = float64(fetched)
	}
	row.Broken = judge(a.play, a.name, row.Figures)
	return row, a.track(e)
}

// through waits until the group has committed everything. It is the broker who says so.
func (a *actor) through(ctx context.Context, ends []int64) {
	for deadline := time.Now().Add(patience + a.play.Length()/4); time.Now().Before(deadline); {
		committed, err := a.stage.Committed(a.group, a.src.Topic, a.play.Partitions)
		rest := int64(0)
		for p := range committed {
			rest += ends[p] - committed[p]
		}
		if err == nil && rest == 0 {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// evidence reads a stub's report; its times are since the schedule began. Where members go, a caller that went before it had an answer has not failed; elsewhere
// it gave up.
func evidence(r server.Report, started time.Time, membersGo bool) (e tally.Evidence) {
	zero := started.Sub(r.Started)
	for _, c := range r.Log {
		went := c.Outcome == server.Gone || c.Outcome == server.Pending
		unheard := went || c.Outcome == string(scenario.Hang) || c.Outcome == string(scenario.Drip)
		call := tally.Call{At: c.At - zero, OK: c.Outcome == "ok", Cut: membersGo && went, GaveUp: unheard && !(membersGo && went)}
		if c.Outcome != server.Pending {
			call.End = c.At + c.Took - zero
		}
		parts := strings.Split(c.Record, "/")
		p, err1 := strconv.ParseInt(parts[max(0, len(parts)-2)], 10, 32)
		o, err2 := strconv.ParseInt(parts[len(parts)-1], 10, 64)
		if err1 != nil || err2 != nil {
			continue // nobody of ours
		}
		call.Partition, call.Offset = int32(p), o
		e.Calls = append(e.Calls, call)
	}
	for _, s := range r.Spans {
		if !s.Down || s.End != 0 && s.End <= zero {
			continue
		}
		span := tally.Span{Begin: s.Begin - zero, End: s.End - zero}
		if s.End == 0 {
			span.End = r.Elapsed - zero
		}
		if last := len(e.Outages) - 1; last >= 0 && e.Outages[last].End == span.Begin {
			e.Outages[last].End = span.End
		} else {
			e.Outages = append(e.Outages, span)
		}
	}
	return e
}

// track is what the page draws.
func (a *actor) track(e tally.Evidence) page.Track {
	t := page.Track{Scenario: a.play.Name, Contender: a.name, Step: liveStep, Events: a.marks}
	for _, c := range e.Calls {
		at := int(c.At / liveStep)
		if c.At < 0 {
			continue
		}
		for len(t.Done) <= at {
			t.Done, t.Calls = append(t.Done, 0), append(t.Calls, 0)
		}
		t.Calls[at] += 1 / liveStep.Seconds()
		if c.OK {
			t.Done[at] += 1 / liveStep.Seconds()
		}
	}
	for _, s := range e.Outages {
		t.Down = append(t.Down, page.Span{From: s.Begin, To: s.End})
	}
	for _, m := range a.members {
		end := a.ended
		if over := m.Over(); over.Before(end) {
			end = over
		}
		t.Open = append(t.Open, states(m.Said(), a.started, end)...)
	}
	return t
}

// close ends what still runs.
func (a *actor) close() {
	for _, m := range a.members {
		select {
		case <-m.Ended:
		default:
			m.Kill()
		}
	}
	if a.watch != nil {
		a.watch.Rebalances()
	}
	a.stub.Close()
}

// waitOf is the first wait of a play's strategy.
func waitOf(p plays.Play) time.Duration {
	s, err := strategy.Parse("strategy.json", []byte(p.Strategy))
	if err != nil {
		return 0
	}
	return s.First()
}
