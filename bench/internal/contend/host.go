package contend

// The host is the part of a contender's process that is the same for all: it reads the job and the commands, does the handler's work, and speaks.

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime/metrics"
	"runtime/pprof"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/breakwater-go/breakwater/bench/internal/ledger"
	"github.com/breakwater-go/breakwater/bench/stub/server"
)

// Host is what a contender works with. All methods may be called from any goroutine.
type Host struct {
	Job

	book    *ledger.Ledger
	http    http.Client
	fetched atomic.Int64
	spun    atomic.Uint64

	mu  sync.Mutex
	out *json.Encoder
}

// Contender consumes until ctx ends, and leaves its group.
type Contender func(ctx context.Context, h *Host) error

// Main runs the contender that the job on in names, and returns the process's exit code.
func Main(in io.Reader, out io.Writer, contenders map[string]Contender) int {
	h := &Host{out: json.NewEncoder(out)}
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<20)
	if !lines.Scan() {
		return 1
	}
	err := json.Unmarshal(lines.Bytes(), &h.Job)
	if err == nil {
		err = h.open()
	}
	run := contenders[h.Contender]
	if err == nil && run == nil {
		err = fmt.Errorf("there is no contender %q", h.Contender)
	}
	if err != nil {
		h.say(Said{Error: err.Error()})
		return 1
	}
	if h.Profile != "" {
		file, err := os.Create(h.Profile)
		if err == nil {
			err = pprof.StartCPUProfile(file)
		}
		if err != nil {
			h.say(Said{Error: err.Error()})
			return 1
		}
		defer pprof.StopCPUProfile()
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	go func() {
		for lines.Scan() {
			switch lines.Text() {
			case Sample:
				h.say(Said{Sample: true, Mallocs: mallocs(), Fetched: h.fetched.Load()})
			case Stop:
				stop()
			}
		}
		os.Exit(1) // the bench is gone
	}()
	if err := run(ctx, h); err != nil {
		h.say(Said{Error: err.Error()})
		return 1
	}
	return 0
}

func (h *Host) open() (err error) {
	if h.Ledger != "" {
		h.book, err = ledger.Open(h.Ledger, h.Parts, h.Records)
	}
	h.http.Timeout = 2 * time.Second
	h.http.Transport = &http.Transport{MaxIdleConnsPerHost: 1000}
	return err
}

func (h *Host) say(s Said) {
	s.At = time.Now().UnixNano()
	h.mu.Lock()
	defer h.mu.Unlock()
	_ = h.out.Encode(s) // to nobody, if the bench is gone
}

// State says that the contender's breaker has changed.
func (h *Host) State(state string) { h.say(Said{State: state}) }

// Statistics takes what librdkafka tells about itself.
func (h *Host) Statistics(text string) {
	var s struct {
		Bytes int64 `json:"rx_bytes"`
	}
	if json.Unmarshal([]byte(text), &s) == nil {
		h.fetched.Store(s.Bytes)
	}
}

// Fetched says how many bytes have come from the brokers so far.
func (h *Host) Fetched(bytes int64) { h.fetched.Store(bytes) }

// Handle is the handler of every contender. It answers nil, a Refused, or what kept the call from reaching the dependency.
func (h *Host) Handle(ctx context.Context, r Record) error {
	if h.book != nil {
		return h.note(r)
	}
	return h.call(ctx, r)
}

// note is a call of a dependency that is a book in memory.
func (h *Host) note(r Record) error {
	if h.Spin > 0 {
		h.spun.Store(Spin(h.Spin))
	}
	if h.Wait > 0 {
		time.Sleep(h.Wait)
	}
	status := 200
	if len(r.Value) > 0 && r.Value[0] == Poison {
		status = 422
	} else if h.FailEvery > 0 && r.Partition == 0 && r.Offset%h.FailEvery == 0 && r.Offset < h.FailEvery*h.FailTimes &&
		h.book.Calls(r.Partition, r.Offset) == 0 {
		status = 503
	}
	h.book.Note(r.Partition, r.Offset, status == 200)
	if status != 200 {
		return Refused{status}
	}
	return nil
}

// call calls the stub.
func (h *Host) call(ctx context.Context, r Record) error {
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, h.Stub+"/charge", nil)
	if err != nil {
		return err
	}
	q.Header.Set("X-Record", r.Topic+"/"+strconv.Itoa(int(r.Partition))+"/"+strconv.FormatInt(r.Offset, 10))
	q.Header.Set("X-Attempt", strconv.Itoa(max(1, r.Attempt)))
	answer, err := h.http.Do(q)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.Header.Get(server.DieHeader) != "" {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}
	if _, err := io.Copy(io.Discard, answer.Body); err != nil {
		return err
	}
	if answer.StatusCode != http.StatusOK {
		return Refused{answer.StatusCode}
	}
	return nil
}

// IsPermanent tells whether waiting can't cure err.
func IsPermanent(err error) bool {
	var r Refused
	return errors.As(err, &r) && r.Permanent()
}

// Spin uses CPU for n turns.
func Spin(n int) uint64 {
	x := uint64(n)
	for range n {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
	}
	return x
}

// Turns is how many turns of Spin take d on this machine.
func Turns(d time.Duration) int {
	const n = 1 << 20
	best := time.Hour
	for range 5 {
		began := time.Now()
		if Spin(n) == 0 {
			return 0 // never
		}
		best = min(best, time.Since(began))
	}
	return max(1, int(float64(n)*float64(d)/float64(best)))
}

// mallocs reads the runtime's count without stopping the world.
func mallocs() uint64 {
	s := []metrics.Sample{{Name: "/gc/heap/allocs:objects"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}
