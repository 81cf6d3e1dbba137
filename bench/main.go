// Command bench says what Breakwater costs when all is well, and what it saves when it is not.
//
//	go run ./bench
//
// It lets Breakwater and the loops that people write do the same work, on one broker, against a dependency that fails on a schedule, and counts from
// the outside: the producer, the broker, the dependency and a reader of the dead letters know what became of each record. Each contender is a
// process of its own.
//
// The exit code is 0, or 1 where Breakwater has lost a record or broken another of its laws, or the bench could not run, or 2 where it was called wrongly.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/breakwater-go/breakwater/bench/internal/contend"
	"github.com/breakwater-go/breakwater/bench/internal/contenders"
	"github.com/breakwater-go/breakwater/bench/internal/outfile"
	"github.com/breakwater-go/breakwater/bench/internal/page"
	"github.com/breakwater-go/breakwater/bench/internal/plays"
	"github.com/breakwater-go/breakwater/bench/internal/stage"
	"github.com/breakwater-go/breakwater/bench/internal/tally"
	"github.com/breakwater-go/breakwater/bench/stub/scenario"
)

// asContender is the argument with which the bench runs itself as a contender.
const asContender = "as-contender"

func main() {
	if len(os.Args) > 1 && os.Args[1] == asContender {
		signal.Ignore(syscall.SIGINT, syscall.SIGTERM) // a Ctrl-C in the terminal is for the bench, which tells us
		os.Exit(contend.Main(os.Stdin, os.Stdout, contenders.All))
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends it the hard way
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// options are the flags.
type options struct {
	scenarios, contenders []string
	brokers, redis        string
	real                  bool
	records, partitions   int
	rounds                int
	limit                 time.Duration
	json, html, profile   string
}

// usually is what runs when nothing is asked for: about a minute.
var usually = []string{"steady", "outage"}

func run(ctx context.Context, args []string, out, errs io.Writer) int {
	var o options
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(errs)
	scenarios := flags.String("scenario", strings.Join(usually, ","), "scenarios to run, comma-separated: `names`, files, or all")
	names := flags.String("contenders", "", "who takes part, comma-separated `names` (default: all that are in this module); all adds the peers")
	flags.StringVar(&o.brokers, "brokers", "", "`addresses` of a Kafka that runs, comma-separated (default: an embedded broker)")
	flags.StringVar(&o.redis, "redis", "", "`address` of a Redis that runs (default: an embedded one)")
	flags.BoolVar(&o.real, "real", false, "start a real Kafka and a real Redis (Java 17, Maven and redis-server are needed)")
	flags.IntVar(&o.records, "records", 0, "`number` of records in a race (default: the scenario's)")
	flags.IntVar(&o.partitions, "partitions", 0, "`number` of partitions (default: 6)")
	flags.IntVar(&o.rounds, "rounds", 1, "how often each contender runs each race; medians are reported, and of what went wrong the worst")
	flags.DurationVar(&o.limit, "limit", 8*time.Second, "how long a contender may take for a race; its rate is that of what it did")
	flags.StringVar(&o.json, "json", "", "`file` for the figures")
	flags.StringVar(&o.html, "html", "", "`file` for a page with pictures")
	flags.StringVar(&o.profile, "profile", "", "existing `folder` for a CPU profile of each contender in each race (go tool pprof)")
	flags.Usage = func() { help(errs); flags.PrintDefaults() }
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return 0
	} else if err != nil {
		return 2
	}
	var err error
	switch {
	case flags.NArg() > 0:
		err = fmt.Errorf("%q is no flag; bench -h lists them", flags.Arg(0))
	case o.records < 0 || o.partitions < 0 || o.rounds < 1 || o.limit <= 0:
		err = errors.New("-records and -partitions can't be negative, -rounds and -limit must be over zero")
	case o.real && o.brokers != "":
		err = errors.New("-real starts a Kafka and -brokers names one that runs: give one of them")
	default:
		o.scenarios, o.contenders, err = choose(*scenarios, *names)
	}
	var those []plays.Play
	for _, name := range o.scenarios {
		var p plays.Play
		if p, err = find(name); err != nil {
			break
		}
		those = append(those, p)
	}
	if err == nil {
		err = errors.Join(outfile.File("-json", o.json), outfile.File("-html", o.html), outfile.Folder("-profile", o.profile))
	}
	if err != nil {
		fmt.Fprintln(errs, "bench:", err)
		return 2
	}
	r, err := perform(ctx, o, those, out)
	if ctx.Err() != nil {
		err = errors.New("interrupted; what was measured until then is above")
	}
	r.Command = "go run ./bench " + strings.Join(args, " ")
	print(out, r)
	err = errors.Join(err, save(o, r))
	if err != nil {
		fmt.Fprintln(errs, "bench:", err)
		return 1
	}
	return verdict(out, r.Rows)
}

// find is plays.Find. Of a file that is there its mistakes are told, and nothing else.
func find(name string) (plays.Play, error) {
	p, err := plays.Find(name)
	if mistakes, ok := errors.AsType[*scenario.ParseError](err); ok {
		return p, fmt.Errorf("-scenario: %w", mistakes)
	}
	if unreadable, ok := errors.AsType[*fs.PathError](err); ok {
		return p, fmt.Errorf("-scenario %s: %w; name a file that can be read", name, unreadable.Err)
	}
	return p, err
}

// choose reads the two lists.
func choose(scenarios, names string) (plays_, those []string, err error) {
	plays_ = strings.Split(scenarios, ",")
	if scenarios == "all" {
		plays_ = slices.DeleteFunc(plays.Names(), func(n string) bool { return n == "lag" }) // it takes a quarter of an hour
	}
	for _, c := range contenders.Names {
		those = append(those, c.Name)
	}
	known := append(slices.Clone(those), peerNames()...)
	switch names {
	case "":
	case "all":
		those = known
	default:
		those = strings.Split(names, ",")
	}
	for _, n := range those {
		if !slices.Contains(known, n) {
			return nil, nil, fmt.Errorf("there is no contender %q; there is %s", n, strings.Join(known, ", "))
		}
	}
	return plays_, those, nil
}

func help(w io.Writer) {
	fmt.Fprint(w, `What does Breakwater cost when all is well, and what does it save when it is not?

  go run ./bench                                            about a minute, on an embedded broker
  go run ./bench -scenario outage,crash                     what happens in an outage, and when the process is killed in it
  go run ./bench -scenario all -html bench.html             everything, with pictures: a quarter of an hour
  go run ./bench -real -rounds 5 -scenario steady,busy,slow the figures of the README, on a Kafka of its own
  go run ./bench -scenario mine.json -contenders breakwater a scenario of yours (go doc ./bench/stub/scenario)

The exit code is 1 where Breakwater has lost a record or broken another of its laws, or the bench could not run; 2 where it was called wrongly.

Scenarios:
`)
	for _, name := range plays.Names() {
		p, _ := plays.Find(name)
		fmt.Fprintf(w, "  %-20s %s\n", name, p.About)
	}
	fmt.Fprintln(w, "\nContenders:")
	for _, c := range contenders.Names {
		fmt.Fprintf(w, "  %-20s %s\n", c.Name, c.About)
	}
	for _, c := range peers {
		fmt.Fprintf(w, "  %-20s %s\n", c.Name, c.About)
	}
	fmt.Fprintln(w)
}

// perform runs the plays. What was measured before an error is in the answer.
func perform(ctx context.Context, o options, those []plays.Play, out io.Writer) (r page.Report, err error) {
	r.Made, r.About = time.Now(), map[string]string{}
	b := &bench{options: o, out: out, began: time.Now(), notHad: map[string]string{}, commands: map[string]stage.Command{}}
	if b.temp, err = os.MkdirTemp("", "breakwater-bench-"); err != nil {
		return r, err
	}
	defer os.RemoveAll(b.temp)
	if err := b.findContenders(ctx); err != nil {
		return r, err
	}
	if b.stage, err = stage.Open(ctx, stage.Options{Brokers: o.brokers, Real: o.real, Redis: o.redis}); err != nil {
		return r, err
	}
	defer b.stage.Close()
	r.Facts = facts(b.stage.About)
	for _, f := range r.Facts {
		b.say("%s", f)
	}
	for _, c := range append(slices.Clone(contenders.Names), peers...) {
		r.About[c.Name] = c.About
	}
	for _, p := range those {
		r.About[p.Name] = p.About
		got, err := b.play(ctx, p)
		r.Rows, r.Tracks = append(r.Rows, got.rows...), append(r.Tracks, got.tracks...)
		if err != nil {
			return r, err
		}
	}
	return r, nil
}

// save writes the files that were asked for.
func save(o options, r page.Report) error {
	write := func(path string, f func(io.Writer) error) error {
		if path == "" {
			return nil
		}
		file, err := os.Create(path)
		if err != nil {
			return err
		}
		return errors.Join(f(file), file.Close())
	}
	return errors.Join(
		write(o.json, func(w io.Writer) error {
			e := json.NewEncoder(w)
			e.SetIndent("", "  ")
			return e.Encode(append([]tally.Row{}, r.Rows...))
		}),
		write(o.html, func(w io.Writer) error { return page.Write(w, r) }))
}

// verdict says which laws Breakwater has broken, and answers the exit code.
func verdict(out io.Writer, rows []tally.Row) (code int) {
	for _, r := range rows {
		for _, b := range r.Broken {
			fmt.Fprintf(out, "Breakwater has broken a law in %s: %s\n", r.Scenario, b)
			code = 1
		}
	}
	return code
}
