// Command demo shows Breakwater at work, in half a minute and with nothing installed but Go and a C compiler:
//
//	go run ./cmd/demo
//
// Orders flow through a Kafka topic to a payment service, which goes down and comes back; one order is no JSON, and one makes the payment
// service fail whenever it comes. What happens is shown as it happens, and the account at the end is counted from the outside: by the
// producer, by the payment service, by a reader of the DLQ and by the broker, never by the consumer that is on show.
//
// The exit code is 0 where the account adds up, 1 where it doesn't or the demo could not run, 2 where it was called wrongly.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/breakwater-go/breakwater/dlq"
	"github.com/breakwater-go/breakwater/internal/topicname"
	"github.com/breakwater-go/breakwater/strategy"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends it the hard way
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr, halfAMinute))
}

// options are the flags.
type options struct {
	strategy, brokers, redis, topic, group string
	json                                   bool
}

const usage = `An outage, played in half a minute: orders flow from Kafka to a payment service,
the service goes down, Breakwater pauses, waits and probes until it is back. One
order is no JSON, and one makes the payment service fail whenever it comes: both
end in the DLQ. The account at the end is counted from the outside.

  go run ./cmd/demo
  go run ./cmd/demo -json | tail -n 1      the account as one JSON object
  go run ./cmd/demo -strategy my.json      edit the file while it runs
  go run ./cmd/demo -brokers localhost:9092 -redis localhost:6379
                                           real servers, and a topic for the play
  go run ./cmd/demo -brokers localhost:9092 -topic invoices -group trial
                                           consumes what is in that topic

Without -brokers and -redis it starts its own, in this process.

A -topic that exists is consumed as it is, from where -group stands to what is
its end at the start, and nothing is produced to it. Each record is one call of
the demo's payment service, whatever is in it; <topic>.dlq is created if it is
missing. A -topic that does not exist is made, and deleted at the end with its
DLQ.

The demo's own strategy (cmd/demo/strategy.json) is short, so that a record can
exhaust it in half a minute. With a longer one the demo lasts until its last
record is through: eleven minutes with the strategy.json at the root. Ctrl-C
ends it at any time, with the account so far.

The exit code is 0 where the account adds up, 1 where it does not or the demo
could not run, 2 for a wrong flag or a bad value of one.

`

// check finds the values that can't be used, whatever the servers say.
func (o options) check() error {
	if o.strategy != "" {
		if _, err := strategy.Load(o.strategy); err != nil {
			return fmt.Errorf("-strategy: %w", err)
		}
	}
	if _, err := redisOptions(o.redis); err != nil {
		return err
	}
	if o.group == "" {
		return errors.New("-group is empty: offsets and attempts are kept by group; name one, or leave it out")
	}
	if o.topic == "" {
		return nil
	}
	if err := topicname.Check(o.topic); err != nil {
		return fmt.Errorf("-topic %q can be no topic's name: %w", o.topic, err)
	}
	if err := topicname.Check(dlq.Config{}.TopicFor(o.topic)); err != nil {
		return fmt.Errorf("-topic %q can be no topic's name, since its DLQ has four more letters: %w", o.topic, err)
	}
	return nil
}

// run is main with everything that it touches as an argument. It returns the exit code.
func run(ctx context.Context, args []string, out, errs io.Writer, s script) int {
	var o options
	flags := flag.NewFlagSet("demo", flag.ContinueOnError)
	flags.SetOutput(errs)
	flags.StringVar(&o.strategy, "strategy", "", "strategy `file` (default cmd/demo/strategy.json)")
	flags.StringVar(&o.brokers, "brokers", "", "`addresses` of a real Kafka, comma-separated (default: an embedded broker)")
	flags.StringVar(&o.redis, "redis", "", "`address` of a real Redis, or a redis:// URL (default: an embedded one)")
	flags.StringVar(&o.topic, "topic", "", "`topic` to consume, or to make if there is none of that name (default: a new one)")
	flags.StringVar(&o.group, "group", "breakwater-demo", "consumer `group`; it must have no other member")
	flags.BoolVar(&o.json, "json", false, "print the account as one JSON object too, as the last line")
	flags.Usage = func() { fmt.Fprint(errs, usage); flags.PrintDefaults() }
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return 0
	} else if err != nil {
		return 2
	}
	if flags.NArg() > 0 {
		fmt.Fprintf(errs, "demo: %q is no flag; demo -h lists them\n", flags.Arg(0))
		return 2
	}
	if err := o.check(); err != nil {
		fmt.Fprintln(errs, "demo:", err)
		return 2
	}

	b := newBoard(out)
	e, err := play(ctx, o, s, b)
	b.close()
	if err != nil {
		fmt.Fprintln(errs, "demo:", err)
		return 1
	}
	sum := settle(e)
	sum.print(out, b.paint)
	if o.json {
		sum.printJSON(out)
	}
	if !sum.AddsUp {
		return 1
	}
	return 0
}
