package dlq

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"
	"go.uber.org/zap"

	"github.com/breakwater-go/breakwater/internal/clientlog"
	"github.com/breakwater-go/breakwater/internal/topicname"
)

// The writer hands letters to one idempotent producer for all DLQ topics and waits for nothing: what becomes of a letter is
// told by the producer's goroutine, which also hands it over again where another form may help (no such partition, too
// large). So Write never blocks, and thousands of letters share a round trip.

// Writer writes dead letters. Its methods may be called from any goroutine.
type Writer struct {
	cfg      Config
	settings kafka.ConfigMap
	log      *zap.Logger
	lines    *clientlog.Thinner
	main     *producer
	life     context.Context // ends with Close
	end      context.CancelFunc

	mu     sync.Mutex
	open   int           // letters whose done has not returned
	closed bool          // no more letters
	idle   chan struct{} // closed when closed and open is 0
	few    map[string]ceiling

	singleMu sync.Mutex
	single   *producer // sends each letter by itself; started when one is found too large
	noSingle bool      // too late to start it
}

// ceiling is the lowest partition that a topic was found not to have, and until when that is believed.
type ceiling struct {
	partition int32
	until     time.Time
}

const fewFor = time.Minute

// NewWriter starts the producer and does not wait for a broker. Its settings are those of the consumer's map that are not
// about consuming (brokers, security, network), then ours (idempotence, acks=all, lz4, linger.ms 20, a message.timeout.ms of 30
// seconds, or a third of max.poll.interval.ms where that is less), and over them Config.Kafka. The maps are not changed. A nil log
// logs nothing.
func NewWriter(cfg Config, consumer *kafka.ConfigMap, log *zap.Logger) (*Writer, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if log == nil {
		log = zap.NewNop()
	}
	w := &Writer{
		cfg:      cfg,
		settings: settings(cfg, consumer),
		log:      log,
		lines:    clientlog.New(log, "dlq producer"),
		idle:     make(chan struct{}),
		few:      map[string]ceiling{},
	}
	main, err := newProducer(w.settings, log, w.lines, cfg.OnEvent)
	if err != nil {
		return nil, err
	}
	w.main = main
	w.life, w.end = context.WithCancel(context.Background())
	return w, nil
}

// sending is a letter on its way.
type sending struct {
	letter       Letter // redacted
	topic        string
	forms        []form // what is left to try, the present one first
	via          *producer
	anyPartition bool
	done         func(error)
}

// Write writes a letter. It never blocks. done is called once, from another goroutine, and must not block, since other
// letters wait behind it: nil only after all in-sync replicas have the letter. An error wraps ErrTooLarge, ErrUnauthorized,
// ErrTopicMissing or ErrClosed where it is one of these; after any of them the letter may be written again. A letter
// whose fate is not known (the broker did not answer in time, the producer failed) is an error too, and may be in the DLQ all the same.
//
// How many letters are outstanding is for the caller to bound: some hundreds keep the producer busy (a letter is under way for
// linger.ms, 20, and a round trip). Beyond librdkafka's queue.buffering.max.messages, 100,000, a letter gets an error.
//
// The letter goes to the partition with the source's number where the DLQ has it, else to one by its key (Config.Kafka's
// "partitioner"; no key, any). Nil and empty keys, values and header values stay what they are, as the client keeps them
// apart in both directions. A header name is cut at a NUL byte, which the client does to the name of a consumed header as well.
func (w *Writer) Write(l Letter, done func(error)) {
	if l.Record == nil || l.Record.TopicPartition.Topic == nil {
		go done(errors.New("dlq: a letter needs its record, with the topic that it comes from"))
		return
	}
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		go done(fmt.Errorf("dlq: the letter was not written: %w", ErrClosed))
		return
	}
	w.open++
	w.mu.Unlock()

	l = l.cleaned(w.cfg.Redact)
	s := &sending{
		letter: l,
		topic:  w.cfg.TopicFor(*l.Record.TopicPartition.Topic),
		forms:  l.forms(w.cfg.textLimit()),
		via:    w.main,
		done:   done,
	}
	err := topicname.Check(s.topic)
	if err == nil {
		err = w.hand(s)
	}
	if err != nil {
		go w.settle(s, err)
	}
}

// hand hands the letter to the producer, in another form as long as one may help. An error means that it was not taken.
func (w *Writer) hand(s *sending) error {
	for {
		err := s.via.send(s.letter.message(s.topic, w.partition(s), s.forms[0]), func(err error) { w.answered(s, err) })
		if err == nil {
			return nil
		}
		if err = w.change(s, err); err != nil {
			return err
		}
	}
}

// answered is called by the producer.
func (w *Writer) answered(s *sending, err error) {
	if err != nil {
		if err = w.change(s, err); err == nil {
			if err = w.hand(s); err == nil {
				return
			}
		}
	}
	w.settle(s, err)
}

// change gives the letter another form, if err leaves one to try; else it answers the error that remains.
func (w *Writer) change(s *sending, err error) error {
	switch kafkaCode(err) {
	case kafka.ErrUnknownPartition:
		if s.anyPartition {
			return err
		}
		s.anyPartition = true
		w.lacks(s.topic, s.letter.Record.TopicPartition.Partition)
		return nil
	case kafka.ErrMsgSizeTooLarge:
		// The broker measures the batch: the letter may only have been in large company.
		if s.via == w.main {
			single, err := w.alone()
			if err == nil {
				s.via = single
			}
			return err
		}
		if len(s.forms) == 1 {
			return err
		}
		s.forms = s.forms[1:]
		return nil
	}
	return err
}

// alone is the producer whose batches hold one letter.
func (w *Writer) alone() (*producer, error) {
	w.singleMu.Lock()
	defer w.singleMu.Unlock()
	if w.noSingle {
		return nil, ErrClosed
	}
	if w.single != nil {
		return w.single, nil
	}
	settings := maps.Clone(w.settings)
	settings["batch.num.messages"] = 1
	single, err := newProducer(settings, w.log, w.lines, w.cfg.OnEvent)
	if err != nil {
		return nil, err
	}
	single.inherit(w.main)
	w.single = single
	return single, nil
}

// partition is where the letter is to go: its source's number, unless the topic is known not to have it.
func (w *Writer) partition(s *sending) int32 {
	p := s.letter.Record.TopicPartition.Partition
	if s.anyPartition || p < 0 {
		return kafka.PartitionAny
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if c, found := w.few[s.topic]; found && p >= c.partition {
		if time.Now().Before(c.until) {
			return kafka.PartitionAny
		}
		delete(w.few, s.topic) // the topic may have grown
	}
	return p
}

// lacks notes that topic has no such partition, which spares the next letters the detour.
func (w *Writer) lacks(topic string, partition int32) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if c, found := w.few[topic]; found {
		partition = min(partition, c.partition)
	}
	w.few[topic] = ceiling{partition, time.Now().Add(fewFor)}
}

// settle tells what became of the letter.
func (w *Writer) settle(s *sending, err error) {
	s.done(explain(s.topic, err))
	w.mu.Lock()
	defer w.mu.Unlock()
	w.open--
	if w.closed && w.open == 0 {
		close(w.idle)
	}
}

// SetOAuthBearerToken gives the producer a token for SASL/OAUTHBEARER. It is kept for the producer that may have to replace
// this one.
func (w *Writer) SetOAuthBearerToken(t kafka.OAuthBearerToken) error {
	return w.each(func(p *producer) error { return p.setToken(t) })
}

// SetOAuthBearerTokenFailure tells the producer that there is no token, and why; it asks again ten seconds later.
func (w *Writer) SetOAuthBearerTokenFailure(reason string) error {
	return w.each(func(p *producer) error {
		return p.use(func(c *client) error { return c.SetOAuthBearerTokenFailure(reason) })
	})
}

func (w *Writer) each(f func(*producer) error) error {
	err := f(w.main)
	w.singleMu.Lock()
	defer w.singleMu.Unlock()
	if w.single != nil {
		err = errors.Join(err, f(w.single))
	}
	if err != nil {
		return fmt.Errorf("dlq: the producer does not take the OAUTHBEARER token: %w", err)
	}
	return nil
}

// Close takes no more letters, waits until those outstanding are acknowledged or ctx ends, and gives up the rest: their done is
// called with ErrClosed before Close returns, and the error says how many they were. To close again does nothing.
func (w *Writer) Close(ctx context.Context) error {
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		return nil
	}
	w.closed = true
	if w.open == 0 {
		close(w.idle)
	}
	w.mu.Unlock()

	var err error
	select {
	case <-w.idle:
	case <-ctx.Done():
		w.mu.Lock()
		if w.open > 0 {
			err = fmt.Errorf("dlq: %d letters were not acknowledged in time, and are to be written again: %w", w.open, ctx.Err())
		}
		w.mu.Unlock()
	}
	w.end()
	w.main.close()
	w.singleMu.Lock()
	w.noSingle = true
	single := w.single
	w.singleMu.Unlock()
	if single != nil {
		single.close()
	}
	<-w.idle
	w.lines.Flush()
	return err
}
