package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"
	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"

	"github.com/breakwater-go/breakwater/attempts"
	"github.com/breakwater-go/breakwater/consumer"
	"github.com/breakwater-go/breakwater/observe"
	"github.com/breakwater-go/breakwater/strategy"
)

// A member is a process of its own, with one consumer or several in it: this very program, run again. It ends when it is told to (SIGTERM), when it is killed, when a
// record kills it, and when the chaos run is gone. What it says on standard output is one JSON line each.

// asMember is the argument with which the program runs itself as a member.
const asMember = "as-member"

// orders is what a member is told, on its standard input.
type orders struct {
	Names                                       []string // of its consumers
	Bootstrap, Redis, Topic, Group              string
	Dependency, Strategy                        string
	Client                                      map[string]string
	Static                                      bool // members keep their place over a restart (group.instance.id)
	HandlerTimeout, DrainTimeout, RedisPatience time.Duration
}

// said is a line of a member's.
type said struct {
	At         time.Time        `json:"at"`
	Who        string           `json:"who"`
	Said       string           `json:"said"` // "assigned", "revoked", "away", "back", "status"
	Partitions []int32          `json:"partitions,omitempty"`
	Status     *consumer.Status `json:"status,omitempty"`
}

// member is the main of a member. It answers the exit code.
func member() int {
	in := bufio.NewReader(os.Stdin)
	var o orders
	line, err := in.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &o)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "chaos: a member without orders:", err)
		return 3
	}
	signal.Ignore(syscall.SIGINT) // a Ctrl-C in the terminal is for the run, which tells us
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	rdb := redis.NewClient(&redis.Options{Addr: o.Redis})
	defer rdb.Close()
	redis.SetLogger(quiet{})

	var all []*consumer.Consumer
	for _, name := range o.Names {
		c, err := o.consumer(name, rdb)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		all = append(all, c)
	}
	go func() {
		for {
			line, err := in.ReadString('\n')
			if err != nil {
				os.Exit(9) // the run is gone
			}
			if strings.TrimSpace(line) == "status" {
				for i, c := range all {
					s := c.Status()
					say(said{Who: o.Names[i], Said: "status", Status: &s})
				}
			}
		}
	}()
	errs := make([]error, len(all))
	var running sync.WaitGroup
	for i, c := range all {
		running.Go(func() { errs[i] = c.Run(ctx) })
	}
	running.Wait()
	if err := errors.Join(errs...); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

func (o orders) consumer(name string, rdb *redis.Client) (*consumer.Consumer, error) {
	m := kafka.ConfigMap{"bootstrap.servers": o.Bootstrap, "group.id": o.Group, "client.id": name, "auto.offset.reset": "earliest", "reconnect.backoff.max.ms": 1000}
	for k, v := range o.Client {
		m[k] = v
	}
	if o.Static {
		berth, life, _ := strings.Cut(name, "#")
		m["group.instance.id"] = berth + strings.TrimLeft(life, "0123456789")
	}
	st, err := strategy.Parse("the run's strategy", []byte(o.Strategy))
	if err != nil {
		return nil, err
	}
	log := zap.NewDevelopmentConfig()
	log.DisableStacktrace = true
	log.Level = zap.NewAtomicLevelAt(zap.InfoLevel)
	logger, err := log.Build()
	if err != nil {
		return nil, err
	}
	partitions := func(tps []kafka.TopicPartition) (ps []int32) {
		for _, tp := range tps {
			ps = append(ps, tp.Partition)
		}
		return ps
	}
	return consumer.New(consumer.Config{
		Kafka: &m, Topics: []string{o.Topic}, Strategy: st, Logger: logger.Named(name), Instance: name,
		Attempts:       attempts.Redis(rdb, attempts.RedisConfig{Timeout: o.RedisPatience}),
		HandlerTimeout: o.HandlerTimeout, DrainTimeout: o.DrainTimeout,
		Handler: func(ctx context.Context, m *kafka.Message) error { return o.handle(ctx, name, m) },
		OnRebalance: func(ev kafka.Event) {
			switch e := ev.(type) {
			case kafka.AssignedPartitions:
				say(said{Who: name, Said: "assigned", Partitions: partitions(e.Partitions)})
			case kafka.RevokedPartitions:
				say(said{Who: name, Said: "revoked", Partitions: partitions(e.Partitions)})
			}
		},
		Observers: []observe.Observer{observe.Func(func(e observe.Event) {
			switch e.Kind {
			case observe.StoreAway:
				say(said{At: e.At, Who: name, Said: "away"})
			case observe.StoreBack:
				say(said{At: e.At, Who: name, Said: "back"})
			}
		})},
	})
}

var saying sync.Mutex

func say(s said) {
	if s.At.IsZero() {
		s.At = time.Now()
	}
	text, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	saying.Lock()
	defer saying.Unlock()
	_, _ = os.Stdout.Write(append(text, '\n'))
}

// handle is the members' handler: one call of the dependency.
func (o orders) handle(ctx context.Context, name string, m *kafka.Message) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, o.Dependency, http.NoBody)
	if err != nil {
		return err
	}
	a := consumer.AttemptFrom(ctx)
	r.Header.Set("X-Caller", name)
	r.Header.Set("X-Sent", strconv.FormatInt(time.Now().UnixNano(), 10))
	r.Header.Set("X-Partition", strconv.Itoa(int(m.TopicPartition.Partition)))
	r.Header.Set("X-Offset", strconv.FormatInt(int64(m.TopicPartition.Offset), 10))
	r.Header.Set("X-Attempt", strconv.Itoa(a.Number))
	r.Header.Set("X-Last-Error", strings.ReplaceAll(a.LastError[:min(len(a.LastError), 200)], "\n", " "))
	answer, err := calling.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	_, _ = io.Copy(io.Discard, answer.Body)
	switch answer.StatusCode {
	case http.StatusOK:
		return nil
	case statusPanic:
		panic("the dependency asked for it")
	case statusDie:
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
	return statusError(answer.StatusCode)
}

// calling never repeats a POST that the dependency may have seen, so each call is one of the consumer's.
var calling = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 20}}

type statusError int

func (s statusError) Error() string   { return fmt.Sprintf("the dependency answered %d", int(s)) }
func (s statusError) StatusCode() int { return int(s) }
