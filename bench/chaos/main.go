// Command chaos is the library at its worst moment, for as long as you like.
//
//	go run ./bench/chaos -minutes 60 -seed 7
//
// Members, which are processes of their own, consume from a real Kafka of three brokers with a real Redis beside it, while everything dies: members are killed, frozen
// and thawed, join and leave; brokers and Redis are killed, frozen and cut off; the dependency has outages, and some records are poison. Then
// everything is counted from the outside and held against the laws. The exit code is 0, 1 where a law was broken or the run could not go
// on, and 2 where it was called wrongly.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/breakwater-go/breakwater/bench/internal/outfile"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == asMember {
		os.Exit(member())
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends it the hard way
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// options are the flags.
type options struct {
	minutes  float64
	seed     uint64
	embedded bool
	runs     int
	parallel int
	json     string
}

const usage = `The library at its worst moment, for as long as you like: members, brokers and Redis are killed, frozen and cut off while records flow and the dependency
has outages. Then what the outside saw is held against the laws: the dependency's log, the producer's acknowledgements, the dead letters, the committed offsets.

  go run ./bench/chaos -minutes 60 -seed 7              a real Kafka of three brokers, a real Redis (Java 17, Maven and redis-server are needed)
  go run ./bench/chaos -embedded -minutes 5             an embedded broker and an embedded Redis
  go run ./bench/chaos -embedded -runs 1000 -seed 1     many short runs, with consecutive seeds

Each fault is a line with its time. The seed decides what is drawn; what meets what is up to the machine, so a seed repeats the faults and not the instant.
Ctrl-C ends the faults and judges what was seen. The exit code is 1 where a law was broken; the report then tells the record's story.

`

func run(ctx context.Context, args []string, out, errs io.Writer) int {
	var o options
	flags := flag.NewFlagSet("chaos", flag.ContinueOnError)
	flags.SetOutput(errs)
	flags.Float64Var(&o.minutes, "minutes", 0, "how `long` there are faults, in minutes and fractions of them (default 2; with -runs 0.1 each)")
	flags.Uint64Var(&o.seed, "seed", 0, "`number` that decides what is drawn (default: another each time)")
	flags.BoolVar(&o.embedded, "embedded", false, "an embedded broker and Redis instead of real ones; its sessions end after 2 seconds, so all is quicker")
	flags.IntVar(&o.runs, "runs", 1, "`number` of runs, with consecutive seeds")
	flags.IntVar(&o.parallel, "parallel", 4, "`number` of embedded runs at the same time")
	flags.StringVar(&o.json, "json", "", "`file` for the reports, with all violations and excuses")
	flags.Usage = func() { fmt.Fprint(errs, usage); flags.PrintDefaults() }
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return 0
	} else if err != nil {
		return 2
	}
	if flags.NArg() > 0 || o.minutes < 0 || o.runs < 1 || o.parallel < 1 {
		fmt.Fprintln(errs, "chaos: -minutes can't be negative, -runs and -parallel are at least 1, and there are no arguments besides; -h tells more")
		return 2
	}
	if err := outfile.File("-json", o.json); err != nil {
		fmt.Fprintln(errs, "chaos:", err)
		return 2
	}
	if o.minutes == 0 {
		o.minutes = 2
		if o.runs > 1 {
			o.minutes = 0.1
		}
	}
	if o.seed == 0 {
		o.seed = uint64(time.Now().UnixNano() % 1_000_000)
	}
	if !o.embedded {
		o.parallel = 1
	}
	reports, err := all(ctx, o, out)
	if o.json != "" {
		err = errors.Join(err, save(o.json, reports))
	}
	if err != nil {
		fmt.Fprintln(errs, "chaos:", err)
		return 1
	}
	bad := 0
	for _, r := range reports {
		if len(r.Findings.Violations) > 0 {
			bad = 1
		}
	}
	return bad
}

// all makes the runs. A single one is told as it happens; of many each is a line, and one that breaks a law is told in full.
func all(ctx context.Context, o options, out io.Writer) (reports []report, err error) {
	var mu sync.Mutex
	var runs sync.WaitGroup
	seeds := make(chan uint64)
	for range min(o.parallel, o.runs) {
		runs.Go(func() {
			for seed := range seeds {
				var lines []string
				r, failed := perform(ctx, o, seed, func(line string) {
					if o.runs == 1 {
						fmt.Fprintln(out, line)
					} else {
						lines = append(lines, line)
					}
				})
				mu.Lock()
				reports = append(reports, r)
				if failed != nil && ctx.Err() == nil {
					err = errors.Join(err, fmt.Errorf("seed %d: the run could not go on: %w", seed, failed))
				}
				if o.runs == 1 || len(r.Findings.Violations) > 0 {
					for _, line := range lines {
						fmt.Fprintln(out, line)
					}
					r.print(out)
				}
				if o.runs > 1 {
					fmt.Fprintln(out, r.line())
				}
				mu.Unlock()
			}
		})
	}
	for i := range o.runs {
		select {
		case seeds <- o.seed + uint64(i):
			continue
		case <-ctx.Done():
		}
		break
	}
	close(seeds)
	runs.Wait()
	return reports, err
}

func save(path string, reports []report) error {
	data, err := json.MarshalIndent(reports, "", " ")
	if err == nil {
		err = os.WriteFile(path, append(data, '\n'), 0o644)
	}
	if err != nil {
		return fmt.Errorf("the reports were not written: %w", err)
	}
	return nil
}
