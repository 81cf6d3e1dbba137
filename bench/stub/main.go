// Command stub is an HTTP dependency that fails on a schedule, for pointing a service at.
//
//	go run ./bench/stub -scenario outage.json -addr 127.0.0.1:8080
//
// It plays a scenario (a file, or the name of one that ships), says each change of phase, and ends with a table of what reached it, on
// SIGINT or SIGTERM. The exit code is 0 then, 1 where it could not go on, 2 where it was called wrongly.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/breakwater-go/breakwater/bench/internal/outfile"
	"github.com/breakwater-go/breakwater/bench/scenarios"
	"github.com/breakwater-go/breakwater/bench/stub/scenario"
	"github.com/breakwater-go/breakwater/bench/stub/server"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends it the hard way
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// options are the flags.
type options struct {
	scenario, addr, control, report string
	seed                            uint64
}

const usage = `An HTTP dependency that fails on a schedule. Point a service at it and see what the service does.

  go run ./bench/stub -scenario outage -addr 127.0.0.1:8080

Every method and path is a call; the record is the header X-Record or the path, the attempt is ?attempt=n or the header X-Attempt.
GET / explains the rest, and what is on just now. Ctrl-C ends it, with a table of what reached it.

Scenarios that ship: %s.
They are files in bench/scenarios: copy one and edit it. "go doc ./bench/stub/scenario" explains the format.

The exit code is 0 after Ctrl-C, 1 where it could not go on, 2 for a wrong flag or a bad value of one.

`

func run(ctx context.Context, args []string, out, errs io.Writer) (code int) {
	var o options
	flags := flag.NewFlagSet("stub", flag.ContinueOnError)
	flags.SetOutput(errs)
	flags.StringVar(&o.scenario, "scenario", "steady", "`file` of the scenario, or the name of one that ships")
	flags.StringVar(&o.addr, "addr", "127.0.0.1:8080", "`address` to listen on; port 0 takes a free one, :8080 is 127.0.0.1:8080, and 0.0.0.0:8080 is open to every machine")
	flags.StringVar(&o.control, "control", "", "second `address`, for GET / and /_stub/ only, open also while a phase refuses connections")
	flags.StringVar(&o.report, "report", "", "`file` for the report at the end, as JSON with a line for each call")
	flags.Uint64Var(&o.seed, "seed", 0, "seed instead of the scenario's; the same `number` gives the same faults (0: the scenario's)")
	flags.Usage = func() {
		fmt.Fprintf(errs, usage, strings.Join(scenarios.Names(), ", "))
		flags.PrintDefaults()
	}
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return 0
	} else if err != nil {
		return 2
	}
	if flags.NArg() > 0 {
		fmt.Fprintf(errs, "stub: %q is no flag; the scenario is given with -scenario\n", flags.Arg(0))
		return 2
	}
	s, err := o.check()
	if err != nil {
		fmt.Fprintln(errs, "stub:", err)
		return 2
	}
	if err := play(ctx, o, s, out); err != nil {
		fmt.Fprintln(errs, err)
		return 1
	}
	return 0
}

// check reads the scenario, makes the addresses whole and tries the file, before anything listens. Its errors are about flags.
func (o *options) check() (*scenario.Scenario, error) {
	s, err := scenarios.Load(o.scenario)
	if err != nil {
		return nil, fmt.Errorf("-scenario: %w", err)
	}
	if o.seed != 0 {
		s = s.WithSeed(o.seed)
	}
	if o.addr, err = server.Address(o.addr); err != nil {
		return nil, fmt.Errorf("-addr: %w", err)
	}
	if o.control != "" {
		if o.control, err = server.Address(o.control); err != nil {
			return nil, fmt.Errorf("-control: %w", err)
		}
		if o.control == o.addr && !strings.HasSuffix(o.addr, ":0") {
			return nil, fmt.Errorf("-control %s is -addr too; give another port", o.control)
		}
	}
	if err := outfile.File("-report", o.report); err != nil {
		return nil, err
	}
	return s, nil
}

// play runs the stub until ctx ends or it can't go on.
func play(ctx context.Context, o options, s *scenario.Scenario, out io.Writer) error {
	var control net.Listener
	if o.control != "" {
		var err error
		if control, err = net.Listen("tcp", o.control); err != nil {
			return fmt.Errorf("stub: -control: %w; give an address of this machine whose port is free", err)
		}
		defer control.Close()
	}
	stub, err := server.Start(s, o.addr)
	if err != nil {
		return err
	}
	defer stub.Close()
	fmt.Fprintf(out, "%s, seed %d, at %s\n", s.Name, s.Seed, where(stub.Addr()))
	for line := range strings.Lines(s.String()) {
		fmt.Fprint(out, "  ", line)
	}
	if control != nil {
		serving := &http.Server{Handler: stub.Control()}
		go serving.Serve(control)
		defer serving.Close()
		fmt.Fprintf(out, "control at %s\n", where(control.Addr()))
	}
	turns := make(chan server.Span, 64)
	stub.OnTurn(phases(turns))
	var last server.Span
	for running := true; running; {
		select {
		case span := <-turns:
			progress(out, s, stub.Summary(), last, span)
			last = span
		case <-ctx.Done():
			running = false
		case <-stub.Done():
			running = false
		}
	}
	err = stub.Close()
	report := stub.Report()
	fmt.Fprint(out, report)
	if o.report != "" {
		err = errors.Join(err, save(o.report, report))
	}
	return err
}

// where says how to get to an address that is listened on, and who else can.
func where(a net.Addr) string {
	if tcp, ok := a.(*net.TCPAddr); ok && tcp.IP.IsUnspecified() {
		return fmt.Sprintf("http://127.0.0.1:%d and at every other address of this machine", tcp.Port)
	}
	return "http://" + a.String()
}

// phases passes on the beginning of each phase, and not the ups and downs within one. A terminal that is stopped must not stop the schedule, so
// it never blocks.
func phases(turns chan<- server.Span) func(server.Span) {
	var last server.Span
	return func(span server.Span) {
		if span.Phase == last.Phase && span.Round == last.Round && !span.ByHand {
			return
		}
		last = span
		select {
		case turns <- span:
		default:
		}
	}
}

// progress says that a phase begins, and what reached the stub in the one before.
func progress(out io.Writer, s *scenario.Scenario, sum server.Report, last, span server.Span) {
	for _, p := range sum.Phases {
		if p.Phase == last.Phase {
			fmt.Fprintf(out, "                     so far in %q: %v\n", p.Phase, p)
		}
	}
	i, _ := s.Find(span.Phase)
	fmt.Fprintf(out, "%s  %8.1fs  ", time.Now().Format(time.TimeOnly), span.Begin.Seconds())
	if span.ByHand {
		fmt.Fprintf(out, "by hand, until the next switch: ")
	}
	fmt.Fprintln(out, s.Phases[i])
}

func save(path string, report server.Report) error {
	data, err := json.Marshal(report)
	if err == nil {
		err = os.WriteFile(path, append(data, '\n'), 0o644)
	}
	if err != nil {
		return fmt.Errorf("stub: the report was not written: %w", err)
	}
	return nil
}
