package main

// A race: each contender in turn takes what stands in the topic as fast as it can. The instants of the first and the last record are read from the
// dependency's book, which the bench looks at every few milliseconds.

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"time"

	"github.com/breakwater-go/breakwater/bench/internal/contend"
	"github.com/breakwater-go/breakwater/bench/internal/ledger"
	"github.com/breakwater-go/breakwater/bench/internal/page"
	"github.com/breakwater-go/breakwater/bench/internal/plays"
	"github.com/breakwater-go/breakwater/bench/internal/stage"
	"github.com/breakwater-go/breakwater/bench/internal/tally"
	"github.com/breakwater-go/breakwater/bench/stub/scenario"
)

const (
	look       = 2 * time.Millisecond
	raceStep   = 100 * time.Millisecond // of a track
	startLimit = 60 * time.Second       // until the first record
	stallLimit = 5 * time.Second        // without progress, beyond what the strategy waits
	leaveLimit = 30 * time.Second       // to leave the group
)

// race runs the contenders in turn, round by round, so that what else the machine does hits all of them.
func (b *bench) race(ctx context.Context, p plays.Play, names []string) (result, error) {
	src := &stage.Source{Partitions: p.Partitions}
	var err error
	if src.Topic, err = b.stage.CreateTopic(ctx, p.Name, p.Partitions); err != nil {
		return result{}, err
	}
	poisoned := 0
	if len(p.Script.Poison) > 0 {
		src.Poison = poison(p.Script, src.Topic)
	}
	if err = b.stage.Open(src); err == nil {
		err = src.Produce(p.Records)
	}
	if err != nil {
		return result{}, err
	}
	ends, err := b.stage.Finish(src)
	if err != nil {
		return result{}, err
	}
	if src.Poison != nil {
		for q, end := range ends {
			for o := range end {
				if src.Poison(int32(q), o) {
					poisoned++
				}
			}
		}
	}
	rounds, tracks := map[string][]tally.Row{}, map[string]page.Track{}
	for round := range b.rounds {
		var these []tally.Row
		for i := range names {
			name := names[(i+round)%len(names)] // nobody is always the first
			r := racer{bench: b, play: p, name: name, src: src, ends: ends, poisoned: poisoned, id: fmt.Sprintf("%s-%s-%d", p.Name, name, round+1)}
			row, track, err := r.run(ctx)
			if ctx.Err() != nil {
				return result{}, ctx.Err() // what was measured while it was called off is worth nothing
			}
			if err != nil {
				row = tally.Row{Scenario: p.Name, Contender: name, Note: err.Error()}
				if name == "breakwater" {
					row.Broken = []string{"it did not run: " + err.Error()}
				}
			}
			if err == nil {
				b.say("  %-12s %8.0f records/s", name, row.Figures["records_per_s"])
			} else {
				b.say("  %-12s %v", name, err)
			}
			these = append(these, row)
			tracks[name] = track
		}
		tally.AgainstBare(these)
		for _, row := range these {
			rounds[row.Contender] = append(rounds[row.Contender], row)
		}
	}
	var all result
	for _, name := range names {
		all.rows = append(all.rows, tally.Merge(rounds[name]))
		if len(tracks[name].Done) > 0 {
			all.tracks = append(all.tracks, tracks[name])
		}
	}
	return all, nil
}

// poison tells which records the scenario always refuses.
func poison(s *scenario.Scenario, topic string) func(int32, int64) bool {
	return func(p int32, offset int64) bool {
		return s.Answer(0, false, fmt.Sprintf("%s/%d/%d", topic, p, offset), 1).Do != scenario.OK
	}
}

// racer is one contender's turn.
type racer struct {
	*bench
	play     plays.Play
	name, id string
	src      *stage.Source
	ends     []int64
	poisoned int

	dlq   string
	book  *ledger.Ledger
	child *stage.Process
}

func (r *racer) run(ctx context.Context) (row tally.Row, track page.Track, err error) {
	track = page.Track{Scenario: r.play.Name, Contender: r.name, Step: raceStep}
	row = tally.Row{Scenario: r.play.Name, Contender: r.name}
	group := r.stage.Prefix + r.id
	if r.dlq, err = r.stage.CreateTopic(ctx, r.id+".dlq", r.play.Partitions); err != nil {
		return row, track, err
	}
	path := filepath.Join(r.temp, r.id)
	each := (r.play.Records + r.play.Partitions - 1) / r.play.Partitions
	if r.book, err = ledger.Open(path, r.play.Partitions, each); err != nil {
		return row, track, err
	}
	defer r.book.Close()
	job := r.job(r.play, r.name, group, r.src, r.dlq)
	job.Ledger, job.Records, job.Wait = path, each, r.play.Wait
	job.FailEvery, job.FailTimes = int64(r.play.FailEvery), int64(r.play.FailTimes)
	if r.profile != "" {
		if job.Profile, err = filepath.Abs(filepath.Join(r.profile, r.id+".pprof")); err != nil {
			return row, track, err
		}
	}
	if r.play.Spin > 0 {
		job.Spin = r.turns()
	}
	watch := r.stage.Watch(group)
	if r.child, err = stage.Start(r.commands[r.name], job); err != nil {
		return row, track, err
	}
	figures, unfinished, err := r.measure(ctx, &track)
	rebalances := watch.Rebalances()
	left := r.child.Stop(leaveLimit)
	if err != nil {
		return row, track, err
	}
	if !left {
		row.Note = "it did not leave in time, and was killed"
	}
	letters, err := r.stage.Letters(r.dlq, r.src)
	if err != nil {
		return row, track, err
	}
	committed, err := r.stage.Committed(group, r.src.Topic, r.play.Partitions)
	if err != nil {
		return row, track, err
	}
	row.Figures = tally.Count(tally.Evidence{Ends: r.ends, Committed: committed, Poison: r.src.Poison, Letters: letters, Rebalances: rebalances, Book: r.book})
	maps.Copy(row.Figures, figures)
	if unfinished {
		row.Note = fmt.Sprintf("it was stopped after %v, in the middle; its rate is that of what it did", r.limit)
		delete(row.Figures, "left")
	}
	row.Broken = judge(r.play, r.name, row.Figures)
	return row, track, nil
}

// turns is how many turns of CPU the handler takes, the same for all.
func (r *racer) turns() int { return contend.Turns(r.play.Spin) }

// progress is how many records have come to their end.
func (r *racer) progress(letters int) int {
	_, done, _ := r.book.Totals()
	return done + letters
}

// measure watches the contender from its first record to its last, or until nothing comes any more, or until the limit: then it is unfinished.
func (r *racer) measure(ctx context.Context, track *page.Track) (f tally.Figures, unfinished bool, err error) {
	if err := r.first(ctx); err != nil {
		return nil, false, err
	}
	total := r.play.Records
	start, before := time.Now(), r.progress(0)
	used, err := r.child.Usage()
	if err != nil {
		return nil, false, err
	}
	limit := r.limit + time.Duration(r.play.FailTimes)*waitOf(r.play)
	var (
		now, moved           = start, start
		n, letters, accepted = before, 0, before
		bucket               = before
		asked                = start
	)
	for n < total {
		if now.Sub(start) > limit {
			unfinished = true
			break
		}
		time.Sleep(look)
		if now = time.Now(); r.poisoned > 0 && now.Sub(asked) > 25*time.Millisecond {
			asked = now
			if letters, err = r.letters(); err != nil {
				return nil, false, err
			}
			now = time.Now()
		}
		n = r.progress(letters)
		if n > accepted {
			accepted, moved = n, now
		}
		for now.Sub(start) >= time.Duration(len(track.Done)+1)*raceStep {
			track.Done = append(track.Done, float64(n-bucket)/raceStep.Seconds())
			bucket = n
		}
		if now.Sub(moved) > stallLimit+waitOf(r.play) {
			now = moved // it has skipped some, and has nothing more to do
			break
		}
		select {
		case <-ctx.Done():
			return nil, false, ctx.Err()
		case <-r.child.Ended:
			return nil, false, errors.New("it ended by itself: " + r.child.Failed())
		default:
		}
	}
	after, err := r.child.Usage()
	if err != nil {
		return nil, false, err
	}
	_, peak := r.child.Memory()
	records := float64(n - before)
	f = tally.Figures{"records_per_s": records / now.Sub(start).Seconds(), "peak_rss_mb": peak}
	if after.CPU > 0 {
		f["cpu_s_per_million"] = (after.CPU - used.CPU).Seconds() / records * 1e6
	}
	if after.Mallocs > 0 {
		f["allocs_per_record"] = float64(after.Mallocs-used.Mallocs) / records
	}
	// The client tells what it has fetched twice a second.
	select {
	case <-time.After(600 * time.Millisecond):
	case <-ctx.Done():
	}
	if u, err := r.child.Usage(); err == nil && u.Fetched > 0 {
		f["bytes_fetched"] = float64(u.Fetched)
	}
	track.Open = states(r.child.Said(), start, now)
	return f, unfinished, nil
}

// first waits for the first record.
func (r *racer) first(ctx context.Context) error {
	for deadline := time.Now().Add(startLimit); ; time.Sleep(look) {
		if called, _, _ := r.book.Totals(); called > 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-r.child.Ended:
			return errors.New("it ended by itself: " + r.child.Failed())
		default:
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("no record was handled in %v", startLimit)
		}
	}
}

func (r *racer) letters() (n int, err error) {
	ends, err := r.stage.Ends(r.dlq, r.play.Partitions)
	for _, end := range ends {
		n += int(end)
	}
	return n, err
}

// states are the spans in which a contender said that its breaker was open.
func states(said []contend.Said, start, end time.Time) (open []page.Span) {
	at := func(s contend.Said) time.Duration { return time.Unix(0, s.At).Sub(start) }
	since, is := time.Duration(0), false
	for _, s := range said {
		switch {
		case s.State == contend.Closed && is:
			open, is = append(open, page.Span{From: since, To: at(s)}), false
		case s.State != contend.Closed && !is:
			since, is = at(s), true
		}
	}
	if is {
		open = append(open, page.Span{From: since, To: end.Sub(start)})
	}
	return open
}
