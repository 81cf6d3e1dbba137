package main

// What all runs share: who takes part, how each is started, and what is said while it runs.

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/breakwater-go/breakwater/bench/internal/contend"
	"github.com/breakwater-go/breakwater/bench/internal/page"
	"github.com/breakwater-go/breakwater/bench/internal/plays"
	"github.com/breakwater-go/breakwater/bench/internal/stage"
	"github.com/breakwater-go/breakwater/bench/internal/tally"
)

// bench is one invocation.
type bench struct {
	options
	stage    *stage.Stage
	commands map[string]stage.Command // how to run each contender; nil: it can't be had
	notHad   map[string]string        // why
	temp     string
	out      io.Writer
	began    time.Time
}

// result is what became of a play.
type result struct {
	rows   []tally.Row
	tracks []page.Track
}

func (b *bench) say(format string, args ...any) {
	fmt.Fprintf(b.out, "%7.1fs  %s\n", time.Since(b.began).Seconds(), fmt.Sprintf(format, args...))
}

// play runs one play.
func (b *bench) play(ctx context.Context, p plays.Play) (result, error) {
	if b.records > 0 && p.Race {
		p.FailEvery = p.FailEvery * b.records / p.Records
		p.Records = b.records
	}
	if b.partitions > 0 {
		p.Partitions = b.partitions
	}
	var absent []tally.Row
	var those []string
	for _, name := range b.contenders {
		switch {
		case !p.Has(name):
		case b.commands[name] == nil:
			absent = append(absent, tally.Row{Scenario: p.Name, Contender: name, Note: b.notHad[name]})
		default:
			those = append(those, name)
		}
	}
	b.say("%s: %s (%s)", p.Name, p.About, strings.Join(those, ", "))
	var r result
	var err error
	if len(those) > 0 {
		if p.Race {
			r, err = b.race(ctx, p, those)
		} else {
			r, err = b.live(ctx, p, those)
		}
	}
	r.rows = append(r.rows, absent...)
	return r, err
}

// job is what a contender is told in every play.
func (b *bench) job(p plays.Play, name, group string, src *stage.Source, dlq string) contend.Job {
	return contend.Job{
		Contender: name, Instance: name, Brokers: b.stage.Brokers, Group: group, Topic: src.Topic, DLQ: dlq, Redis: b.stage.Redis,
		Strategy: p.Strategy, MaxPoll: p.MaxPoll, Statistics: 500 * time.Millisecond, Parts: p.Partitions,
	}
}

// expected is what a play asks for that would be a fault in another.
func expected(p plays.Play) tally.Expected {
	moves := len(p.Events) > 0
	return tally.Expected{Repeats: moves, Rebalances: moves}
}

// judge names the laws that Breakwater has broken.
func judge(p plays.Play, name string, f tally.Figures) []string {
	if name != "breakwater" {
		return nil
	}
	return tally.Broken(f, expected(p))
}
