package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/breakwater-go/breakwater/internal/servers"
)

// A world is a Kafka and a Redis to do bad things to: real ones, three brokers and a server that are killed and frozen, or embedded ones, whose answers are
// tampered with. The members reach both through proxies, which cut, hang and delay.

const (
	topic      = "orders"
	group      = "chaos"
	partitions = 6
)

type world struct {
	about   string
	members string // bootstrap.servers of the members
	outside string // and of who counts
	redis   string
	brokers []fault
	store   []fault
	pace    pace
	closers []func() error
	failed  func() error // what could not be started again
	hung    func() bool  // the group coordinator waits for members that are not there, and would do so for ever
}

// pace is how fast things go: an embedded broker's sessions end after two seconds, a real one's after six.
type pace struct {
	session, maxPoll, handler, drain time.Duration
	members, brokers, store, outages kind // gaps and lengths
	records                          int  // a second, at most
	deadlyOneIn                      uint64
	bound                            time.Duration // for every record to be done once the faults are over
	strategies                       []string
}

func seconds(a, b float64) [2]time.Duration {
	return [2]time.Duration{time.Duration(a * float64(time.Second)), time.Duration(b * float64(time.Second))}
}

func (w *world) close() error {
	var errs []error
	for _, c := range slices.Backward(w.closers) {
		errs = append(errs, c())
	}
	return errors.Join(errs...)
}

// realWorld starts a Kafka of three brokers and a Redis.
func realWorld(ctx context.Context) (w *world, err error) {
	w = &world{about: "a real Kafka of three brokers and a real Redis", hung: func() bool { return false }, failed: func() error { return nil }, pace: pace{
		session: 6 * time.Second, maxPoll: 15 * time.Second, handler: 4 * time.Second, drain: 5 * time.Second,
		members: kind{gap: seconds(2, 15), last: seconds(1, 5)},
		brokers: kind{gap: seconds(6, 20), last: seconds(2, 9)},
		store:   kind{gap: seconds(5, 20), last: seconds(1, 7)},
		outages: kind{gap: seconds(4, 20), last: seconds(1, 9)},
		records: 150, deadlyOneIn: 5000, bound: 5 * time.Minute,
		strategies: []string{
			`{"intervals": [0.5, 1, 2], "jitter": 0}`,
			`{"intervals": [1, 3]}`,
			`{"intervals": [0.5, 8], "jitter": 0}`,
			`{"intervals": [0.3, 0.3, 1, 2, 4], "breaker": {"consecutiveFailures": 3}}`,
			`{"intervals": [0.5, 1, 1], "breaker": {"scope": "partition"}}`,
			`{"intervals": [0.4, 0.8, 1.6], "breaker": {"failureRatio": 0.5, "minimumCalls": 4, "window": "5s"}}`,
		},
	}}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.close())
		}
	}()
	k, err := servers.NewKafka(ctx, servers.KafkaConfig{Brokers: 3, Proxied: true})
	if err != nil {
		return w, err
	}
	w.closers = append(w.closers, k.Close)
	w.members, w.outside = k.Bootstrap(), k.Direct()
	for _, t := range []string{topic, topic + ".dlq"} {
		if err := k.CreateTopic(t, partitions, -1, nil); err != nil {
			return w, err
		}
	}
	r, err := servers.NewRedis(ctx)
	if err != nil {
		return w, err
	}
	w.closers = append(w.closers, r.Close)
	proxy, err := servers.NewProxy(r.Addr)
	if err != nil {
		return w, err
	}
	w.closers = append(w.closers, proxy.Close)
	w.redis = proxy.Addr()

	var broken failures
	w.failed = broken.err
	var proxies []*servers.Proxy
	for _, b := range k.Brokers() {
		proxies = append(proxies, b.Proxy())
	}
	victim := func(r *rand.Rand) (*servers.Broker, string) {
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		switch n := r.IntN(partitions + 3); {
		case n < 3:
			if b, err := k.Coordinator(ctx, group); err == nil {
				return b, fmt.Sprintf("broker %d, the group's coordinator", b.ID)
			}
		default:
			if b, err := k.Leader(ctx, topic, int32(n-3)); err == nil {
				return b, fmt.Sprintf("broker %d, the leader of partition %d", b.ID, n-3)
			}
		}
		b := k.Brokers()[r.IntN(3)]
		return b, fmt.Sprintf("broker %d", b.ID)
	}
	w.brokers = append(network(proxies, &broken),
		func(r *rand.Rand, _ time.Duration) (string, func()) {
			b, who := victim(r)
			broken.note(b.Kill())
			return "kill -9 of " + who, func() { broken.note(b.Restart()) }
		},
		func(r *rand.Rand, _ time.Duration) (string, func()) {
			b, who := victim(r)
			broken.note(b.Stop())
			return who + " is stopped (SIGSTOP)", func() { broken.note(b.Cont()) }
		})
	w.store = append(network([]*servers.Proxy{proxy}, &broken),
		func(*rand.Rand, time.Duration) (string, func()) {
			broken.note(r.Kill())
			return "kill -9 of the server", func() { broken.note(r.Restart()) }
		},
		func(*rand.Rand, time.Duration) (string, func()) {
			broken.note(r.Stop())
			return "the server is stopped (SIGSTOP)", func() { broken.note(r.Cont()) }
		})
	return w, nil
}

// network is what networks do: to one of the proxies, or to all of them.
func network(proxies []*servers.Proxy, broken *failures) []fault {
	each := func(what string, begin func(*servers.Proxy, *rand.Rand) error) fault {
		return func(r *rand.Rand, _ time.Duration) (string, func()) {
			those, who := proxies, ""
			if i := r.IntN(len(proxies) + 1); len(proxies) > 1 && i < len(proxies) {
				those, who = proxies[i:i+1], fmt.Sprintf(" to broker %d", i+1)
			}
			for _, p := range those {
				broken.note(begin(p, r))
			}
			return what + who, func() {
				for _, p := range those {
					broken.note(p.Restore())
				}
			}
		}
	}
	return []fault{
		each("connections are refused", func(p *servers.Proxy, _ *rand.Rand) error { p.Cut(); return nil }),
		each("the cable is cut and nobody says so", func(p *servers.Proxy, _ *rand.Rand) error { return p.Hang() }),
		each("answers are slow", func(p *servers.Proxy, r *rand.Rand) error {
			return p.Delay(time.Duration(50+r.IntN(600)) * time.Millisecond)
		}),
	}
}

// failures are of what this program does itself: a broker that does not come back, say.
type failures struct {
	mu  sync.Mutex
	all []error
}

func (f *failures) note(err error) {
	if err != nil {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.all = append(f.all, err)
	}
}

func (f *failures) err() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return errors.Join(f.all...)
}

// behind is a listener that tells the world the address of the proxy in front of it.
type behind struct {
	net.Listener
	proxy *servers.Proxy
}

func (b behind) Addr() net.Addr {
	addr, err := net.ResolveTCPAddr("tcp", b.proxy.Addr())
	if err != nil {
		return b.Listener.Addr()
	}
	return addr
}

// embeddedWorld is kfake and miniredis, in this process.
func embeddedWorld() (w *world, err error) {
	w = &world{about: "an embedded broker and an embedded Redis", pace: pace{
		session: 2 * time.Second, maxPoll: 6 * time.Second, handler: 2 * time.Second, drain: 2 * time.Second,
		members: kind{gap: seconds(0.2, 2), last: seconds(0.2, 1)},
		brokers: kind{gap: seconds(1, 3), last: seconds(0.3, 3)},
		store:   kind{gap: seconds(2, 8), last: seconds(0.3, 2)},
		outages: kind{gap: seconds(0.5, 3), last: seconds(0.3, 2)},
		records: 150, deadlyOneIn: 2000, bound: 2 * time.Minute,
		strategies: []string{ // with waits that are long enough for a death to fall into them
			`{"intervals": [0.2, 1, 2], "jitter": 0}`,
			`{"intervals": [0.3, 3]}`,
			`{"intervals": [2, 2], "jitter": 0}`,
			`{"intervals": [0.1, 0.1, 0.3, 0.5, 2], "breaker": {"consecutiveFailures": 3}}`,
			`{"intervals": [1, 2], "breaker": {"scope": "partition"}}`,
			`{"intervals": [0.5, 2, 2], "breaker": {"failureRatio": 0.5, "minimumCalls": 4, "window": "5s"}}`,
		},
	}}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.close())
		}
	}()
	var broken failures
	w.failed = broken.err
	var proxies []*servers.Proxy
	listen := func(network, address string) (net.Listener, error) {
		l, err := net.Listen(network, address)
		if err != nil {
			return nil, err
		}
		p, err := servers.NewProxy(l.Addr().String())
		if err != nil {
			l.Close()
			return nil, err
		}
		proxies = append(proxies, p)
		w.closers = append(w.closers, p.Close)
		return behind{l, p}, nil
	}
	cluster, err := servers.NewFake(kfake.NumBrokers(3), kfake.ListenFn(listen), kfake.SeedTopics(partitions, topic, topic+".dlq"),
		kfake.BrokerConfigs(map[string]string{"group.consumer.session.timeout.ms": "2000", "group.consumer.heartbeat.interval.ms": "300"}))
	if err != nil {
		return w, err
	}
	w.closers = append(w.closers, func() error { cluster.Close(); return nil })
	w.members = servers.FakeBootstrap(cluster)
	w.outside = w.members
	store, err := miniredis.Run()
	if err != nil {
		return w, err
	}
	w.closers = append(w.closers, func() error { store.Close(); return nil })
	proxy, err := servers.NewProxy(store.Addr())
	if err != nil {
		return w, err
	}
	w.closers = append(w.closers, proxy.Close)
	w.redis = proxy.Addr()

	w.hung = func() bool {
		g := cluster.GroupInfo(group)
		return g != nil && g.State == "PreparingRebalance"
	}
	refusals := newRefusals(cluster)
	w.brokers = append(network(proxies, &broken),
		refusals.fault("commits", "commits are refused"), refusals.fault("dlq", "the DLQ refuses records"),
		func(*rand.Rand, time.Duration) (string, func()) {
			cluster.ShufflePartitionLeaders()
			return "the partitions get other leaders", nil
		},
		func(*rand.Rand, time.Duration) (string, func()) {
			cluster.RehashCoordinators()
			return "the group gets another coordinator", nil
		})
	w.store = append(network([]*servers.Proxy{proxy}, &broken), func(*rand.Rand, time.Duration) (string, func()) {
		store.SetError("LOADING Redis is loading the dataset in memory")
		return "the server answers with errors", func() { store.SetError("") }
	})
	return w, nil
}

// refusals are requests that the embedded broker does not carry out while a fault is on.
type refusals struct {
	cluster *kfake.Cluster
	mu      sync.Mutex
	on      map[string]bool
}

func newRefusals(c *kfake.Cluster) *refusals {
	r := &refusals{cluster: c, on: map[string]bool{}}
	c.ControlKey(int16(kmsg.OffsetCommit), r.commit)
	c.ControlKey(int16(kmsg.Produce), r.produce)
	return r
}

func (r *refusals) fault(name, what string) fault {
	set := func(on bool) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.on[name] = on
	}
	return func(*rand.Rand, time.Duration) (string, func()) {
		set(true)
		return what, func() { set(false) }
	}
}

func (r *refusals) active(name string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.on[name]
}

func (r *refusals) commit(req kmsg.Request) (kmsg.Response, error, bool) {
	r.cluster.KeepControl()
	if !r.active("commits") {
		return nil, nil, false
	}
	c := req.(*kmsg.OffsetCommitRequest)
	resp := c.ResponseKind().(*kmsg.OffsetCommitResponse)
	for _, t := range c.Topics {
		answer := kmsg.NewOffsetCommitResponseTopic()
		answer.Topic, answer.TopicID = t.Topic, t.TopicID
		for _, p := range t.Partitions {
			refused := kmsg.NewOffsetCommitResponseTopicPartition()
			refused.Partition, refused.ErrorCode = p.Partition, kerr.CoordinatorLoadInProgress.Code
			answer.Partitions = append(answer.Partitions, refused)
		}
		resp.Topics = append(resp.Topics, answer)
	}
	return resp, nil, true
}

func (r *refusals) produce(req kmsg.Request) (kmsg.Response, error, bool) {
	r.cluster.KeepControl()
	p := req.(*kmsg.ProduceRequest)
	if !r.active("dlq") || len(p.Topics) == 0 || p.Topics[0].Topic != topic+".dlq" {
		return nil, nil, false
	}
	resp := p.ResponseKind().(*kmsg.ProduceResponse)
	for _, t := range p.Topics {
		answer := kmsg.NewProduceResponseTopic()
		answer.Topic, answer.TopicID = t.Topic, t.TopicID
		for _, part := range t.Partitions {
			refused := kmsg.NewProduceResponseTopicPartition()
			refused.Partition, refused.ErrorCode = part.Partition, kerr.NotEnoughReplicas.Code
			answer.Partitions = append(answer.Partitions, refused)
		}
		resp.Topics = append(resp.Topics, answer)
	}
	return resp, nil, true
}
