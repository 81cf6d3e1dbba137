package servers

// A Kafka is a cluster of real brokers, each of them a controller as well (KRaft), in one folder. Clients have a listener of
// their own, so that a proxy in front of it cuts clients off and nobody else: the brokers, and this package, talk to each other
// past it.

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// KafkaConfig says what [NewKafka] starts. The zero value is one broker that clients reach directly.
type KafkaConfig struct {
	// Brokers is 1 or 3 as a rule; default 1. From three brokers on, a topic has three replicas unless it is
	// created with another number, and an acknowledgement needs two of them.
	Brokers int
	// Proxied puts a [Proxy] in front of each broker; clients are told of nothing else.
	Proxied bool
	// Settings are added to, and win over, the properties of each broker.
	Settings map[string]string
}

// Kafka is a running cluster. Its methods may be called from any goroutine.
type Kafka struct {
	folder  *folder
	java    []string // arguments of each of its Java programs
	brokers []*Broker
}

// patience is how long a cluster may take for anything: many times what it needs on an idle machine.
const patience = 3 * time.Minute

// NewKafka starts a cluster and waits until it is really usable: all brokers know each other, and the group coordinators answer.
// One broker takes four seconds and 300 MB of memory, three take seven seconds and 1 GB. The error wraps [ErrUnavailable] where
// the machine lacks Java or Kafka.
func NewKafka(ctx context.Context, cfg KafkaConfig) (*Kafka, error) {
	classPath, err := FetchKafka(ctx)
	if err != nil {
		return nil, err
	}
	f, err := newFolder("kafka")
	if err != nil {
		return nil, err
	}
	k := &Kafka{folder: f, java: []string{"-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", classPath}}
	if err := k.start(ctx, cfg); err != nil {
		return nil, errors.Join(err, k.Close())
	}
	return k, nil
}

func (k *Kafka) start(ctx context.Context, cfg KafkaConfig) error {
	n := max(1, cfg.Brokers)
	ports, err := freePorts(3 * n)
	if err != nil {
		return err
	}
	var voters []string
	for i := range n {
		b := &Broker{ID: int32(i + 1), kafka: k, control: local(ports[3*i]), direct: local(ports[3*i+1]), listen: local(ports[3*i+2])}
		k.brokers = append(k.brokers, b)
		voters = append(voters, fmt.Sprintf("%d@%s", b.ID, b.control))
		b.addr = b.listen
		if cfg.Proxied {
			if b.proxy, err = NewProxy(b.listen); err != nil {
				return err
			}
			b.addr = b.proxy.Addr()
		}
	}
	for _, b := range k.brokers {
		if err := b.writeSettings(n, strings.Join(voters, ","), cfg.Settings); err != nil {
			return err
		}
	}
	if err := k.format(ctx); err != nil {
		return err
	}
	for _, b := range k.brokers {
		if err := b.start(); err != nil {
			return err
		}
	}
	return k.Ready(ctx)
}

// format prepares the brokers' empty data folders, side by side.
func (k *Kafka) format(ctx context.Context) error {
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails
	id[0] &= 0x7f           // so that the text does not begin with a minus sign
	cluster := base64.RawURLEncoding.EncodeToString(id[:])
	var formats []*process
	for _, b := range k.brokers {
		p, err := k.folder.run(b.name()+"-format", "java", append(slices.Clone(k.java), "kafka.tools.StorageTool", "format", "-t", cluster, "-c", b.settings())...)
		if err != nil {
			return err
		}
		formats = append(formats, p)
	}
	var errs []error
	for _, p := range formats {
		errs = append(errs, p.wait(ctx))
	}
	err := errors.Join(errs...)
	if err != nil && strings.Contains(err.Error(), "UnsupportedClassVersionError") {
		return fmt.Errorf("servers: Kafka needs Java 17 or later: %w", ErrUnavailable)
	}
	return err
}

// Bootstrap is the value for a client's bootstrap.servers; the proxies' addresses where there are proxies.
func (k *Kafka) Bootstrap() string { return k.addrs(func(b *Broker) string { return b.addr }) }

// Direct is like Bootstrap, past the proxies: for whoever counts from the outside while the clients are cut off.
func (k *Kafka) Direct() string { return k.addrs(func(b *Broker) string { return b.direct }) }

func (k *Kafka) addrs(of func(*Broker) string) string {
	var all []string
	for _, b := range k.brokers {
		all = append(all, of(b))
	}
	return strings.Join(all, ",")
}

// Brokers returns the brokers; the first has the node id 1.
func (k *Kafka) Brokers() []*Broker { return k.brokers }

// Close kills the brokers, closes the proxies and removes all files. A second Close does nothing.
func (k *Kafka) Close() error {
	err := k.folder.Close()
	for _, b := range k.brokers {
		if b.proxy != nil {
			err = errors.Join(err, b.proxy.Close())
		}
	}
	return err
}

// A Broker is one node of a [Kafka]. Its methods may be called from any goroutine.
type Broker struct {
	ID int32 // the node id

	kafka *Kafka
	proxy *Proxy // nil: none
	// addresses: listen is where clients are served, addr is where they are told to go
	listen, addr, direct, control string

	mu      sync.Mutex
	process *process // nil: killed
	frozen  bool
}

func (b *Broker) name() string     { return fmt.Sprintf("broker-%d", b.ID) }
func (b *Broker) settings() string { return filepath.Join(b.kafka.folder.path, b.name()+".properties") }

// Proxy is the proxy in front of the broker; nil unless [KafkaConfig].Proxied was set.
func (b *Broker) Proxy() *Proxy { return b.proxy }

// Kill ends the broker as kill -9 does.
func (b *Broker) Kill() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.process == nil {
		return nil
	}
	err := b.process.kill()
	b.process, b.frozen = nil, false
	return err
}

// Stop freezes the broker (SIGSTOP): its connections stay open, and nothing answers until Cont.
func (b *Broker) Stop() error { return b.freeze(syscall.SIGSTOP, true) }

// Cont lets a frozen broker go on (SIGCONT). It does not wait until the broker has caught up; see [Kafka.Ready].
func (b *Broker) Cont() error { return b.freeze(syscall.SIGCONT, false) }

func (b *Broker) freeze(s syscall.Signal, frozen bool) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.process == nil {
		return fmt.Errorf("servers: %s does not run; Restart it", b.name())
	}
	err := b.process.signal(s)
	if err == nil {
		b.frozen = frozen
	}
	return err
}

// Restart starts the broker again on the same ports, with the data that it had, after a Kill if it still runs. It waits as
// [Kafka.Ready] does, for three minutes at most.
func (b *Broker) Restart() error {
	if err := b.Kill(); err != nil {
		return err
	}
	if err := b.start(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return b.kafka.Ready(ctx)
}

func (b *Broker) start() (err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.process, err = b.kafka.folder.run(b.name(), "java", append(slices.Clone(b.kafka.java), "kafka.Kafka", b.settings())...)
	return err
}

// living returns the process of a broker that can answer, else nil.
func (b *Broker) living() *process {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.frozen {
		return nil
	}
	return b.process
}

// writeSettings writes the broker's properties. They make a small and quick broker: few internal partitions, since each costs
// time at start, short delays, no topic that nobody has created.
func (b *Broker) writeSettings(brokers int, voters string, more map[string]string) error {
	replicas, minISR := min(3, brokers), min(2, (brokers+1)/2)
	s := map[string]string{
		"node.id":                                          fmt.Sprint(b.ID),
		"process.roles":                                    "broker,controller",
		"controller.quorum.voters":                         voters,
		"controller.listener.names":                        "CONTROLLER",
		"inter.broker.listener.name":                       "BROKERS",
		"listeners":                                        "CLIENTS://" + b.listen + ",BROKERS://" + b.direct + ",CONTROLLER://" + b.control,
		"advertised.listeners":                             "CLIENTS://" + b.addr + ",BROKERS://" + b.direct,
		"listener.security.protocol.map":                   "CLIENTS:PLAINTEXT,BROKERS:PLAINTEXT,CONTROLLER:PLAINTEXT",
		"log.dirs":                                         filepath.Join(b.kafka.folder.path, b.name()),
		"auto.create.topics.enable":                        "false",
		"min.insync.replicas":                              fmt.Sprint(minISR),
		"offsets.topic.num.partitions":                     fmt.Sprint(offsetsPartitions),
		"offsets.topic.replication.factor":                 fmt.Sprint(replicas),
		"transaction.state.log.num.partitions":             "1",
		"transaction.state.log.replication.factor":         fmt.Sprint(replicas),
		"transaction.state.log.min.isr":                    fmt.Sprint(minISR),
		"share.coordinator.state.topic.num.partitions":     "1",
		"share.coordinator.state.topic.min.isr":            fmt.Sprint(minISR),
		"share.coordinator.state.topic.replication.factor": fmt.Sprint(replicas),
		"default.replication.factor":                       fmt.Sprint(replicas),
		"group.initial.rebalance.delay.ms":                 "0",
		"group.min.session.timeout.ms":                     "1000",
		"group.consumer.min.session.timeout.ms":            "1000",
		"group.consumer.session.timeout.ms":                "10000",
		"group.consumer.min.heartbeat.interval.ms":         "100",
		"group.consumer.heartbeat.interval.ms":             "500", // a member learns of a new assignment at its heartbeat
		"broker.session.timeout.ms":                        "3000",
		"broker.heartbeat.interval.ms":                     "500",
		"log.retention.check.interval.ms":                  "1000",
		"log.cleaner.dedupe.buffer.size":                   "2097152", // the default of 128 MB is for millions of keys
		"num.network.threads":                              "2",
		"num.io.threads":                                   "4",
	}
	maps.Copy(s, more)
	var text strings.Builder
	for _, key := range slices.Sorted(maps.Keys(s)) {
		fmt.Fprintf(&text, "%s=%s\n", key, s[key])
	}
	if err := os.WriteFile(b.settings(), []byte(text.String()), 0o644); err != nil {
		return fmt.Errorf("servers: %w", err)
	}
	return nil
}

// StartKafka starts a cluster for one test and stops it when the test ends.
func StartKafka(t testing.TB, brokers int) *Kafka {
	t.Helper()
	return StartKafkaWith(t, KafkaConfig{Brokers: brokers})
}

// StartKafkaWith is [StartKafka] with all that can be chosen.
func StartKafkaWith(t testing.TB, cfg KafkaConfig) *Kafka {
	t.Helper()
	Real(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	k, err := NewKafka(ctx, cfg)
	Must(t, err)
	closeAtEnd(t, k)
	return k
}

// sharedKafka starts the one broker of this process at its first call.
var sharedKafka = sync.OnceValues(func() (*Kafka, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	k, err := NewKafka(ctx, KafkaConfig{})
	if err == nil {
		untilEnd(k)
	}
	return k, err
})

// SharedKafka returns the broker that all tests of the process share. They give their topics and groups names of their own, and
// leave the broker running. It is stopped by [Main], or with the process.
func SharedKafka(t testing.TB) *Kafka {
	t.Helper()
	Real(t)
	k, err := sharedKafka()
	Must(t, err)
	return k
}
