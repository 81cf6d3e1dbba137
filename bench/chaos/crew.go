package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/breakwater-go/breakwater/bench/chaos/judge"
	"github.com/breakwater-go/breakwater/consumer"
)

// The crew keeps the members: a berth for each, in which a process runs if it is to. One that has ended without being told is started again after a while, as a
// deployment does. Who lived when, and owned what, is noted here.

type crew struct {
	orders orders
	logs   string // folder
	say    func(format string, args ...any)
	solo   bool // one consumer in each process

	mu      sync.Mutex
	berths  []*berth
	random  *rand.Rand
	lives   []*judge.Life
	owned   []*judge.Owned
	away    []*judge.Span
	status  map[string]consumer.Status
	noisy   bool // faults are on, so a member may fail
	closed  bool
	waiting sync.WaitGroup
	still   chan struct{} // closed when there are to be no faults any more
	once    sync.Once
}

// berth is the place of one member. What follows each other in it are its lives.
type berth struct {
	name   string
	wanted bool // a process is to run here
	born   int
	run    *process
}

// process is one life of a member.
type process struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	lives  []*judge.Life
	told   string // why it is about to end; "": nobody has told it to
	frozen bool
	ended  chan struct{}
}

func newCrew(o orders, seed uint64, berths int, logs string, say func(string, ...any)) *crew {
	c := &crew{orders: o, logs: logs, say: say, random: rand.New(rand.NewPCG(seed, 0xc4e3)), status: map[string]consumer.Status{}, noisy: true, still: make(chan struct{})}
	for i := range berths {
		c.berths = append(c.berths, &berth{name: fmt.Sprintf("m%d", i+1)})
	}
	return c
}

// join starts a member in a berth that is empty, and answers its name.
func (c *crew) join(i int) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	b := c.berths[i]
	if b.wanted || b.run != nil || c.closed {
		return ""
	}
	b.wanted = true
	return c.start(b)
}

// start is called under mu.
func (c *crew) start(b *berth) string {
	b.born++
	name := fmt.Sprintf("%s#%d", b.name, b.born)
	o := c.orders
	o.Names = []string{name}
	if !c.solo && c.random.IntN(3) == 0 {
		o.Names = []string{name + "a", name + "b"}
	}
	self, err := os.Executable()
	if err != nil {
		c.say("%s did not start: %v", name, err)
		return ""
	}
	p := &process{cmd: exec.Command(self, asMember), ended: make(chan struct{})}
	log, err := os.OpenFile(filepath.Join(c.logs, b.name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		c.say("%s did not start: %v", name, err)
		return ""
	}
	defer log.Close()
	fmt.Fprintf(log, "--- %s\n", name)
	p.cmd.Stderr = log
	var out io.ReadCloser
	if p.in, err = p.cmd.StdinPipe(); err == nil {
		if out, err = p.cmd.StdoutPipe(); err == nil {
			err = p.cmd.Start()
		}
	}
	if err != nil {
		c.say("%s did not start: %v", name, err)
		return ""
	}
	for _, n := range o.Names {
		l := &judge.Life{Name: n, Began: time.Now()}
		c.lives, p.lives = append(c.lives, l), append(p.lives, l)
	}
	b.run = p
	c.waiting.Go(func() {
		c.listen(out)
		c.ended(b, p, p.cmd.Wait())
	})
	_ = json.NewEncoder(p.in).Encode(o) // a process that is gone already is noted at its end
	return name
}

// listen notes what a member says.
func (c *crew) listen(out io.Reader) {
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var s said
		if json.Unmarshal(lines.Bytes(), &s) == nil {
			c.note(s)
		}
	}
}

func (c *crew) note(s said) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch s.Said {
	case "assigned":
		for _, p := range s.Partitions {
			if c.owns(s.Who, p) == nil {
				c.owned = append(c.owned, &judge.Owned{Caller: s.Who, Partition: p, From: s.At})
			}
		}
	case "revoked":
		for _, p := range s.Partitions {
			if o := c.owns(s.Who, p); o != nil {
				o.To = s.At
			}
		}
	case "away":
		c.away = append(c.away, &judge.Span{From: s.At, What: s.Who})
	case "back":
		for _, a := range c.away {
			if a.What == s.Who && a.To.IsZero() {
				a.To = s.At
			}
		}
	case "status":
		c.status[s.Who] = *s.Status
	}
}

func (c *crew) owns(who string, partition int32) *judge.Owned {
	for _, o := range c.owned {
		if o.Caller == who && o.Partition == partition && o.To.IsZero() {
			return o
		}
	}
	return nil
}

// ended notes the end of a life, and begins the next.
func (c *crew) ended(b *berth, p *process, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer close(p.ended)
	now := time.Now()
	how, dirty, wrong := c.verdict(p, err)
	for _, l := range p.lives {
		l.Ended, l.How, l.Dirty = now, how, dirty
		for i := range l.Frozen {
			if l.Frozen[i].To.IsZero() {
				l.Frozen[i].To = now
			}
		}
		for _, o := range c.owned {
			if o.Caller == l.Name && o.To.IsZero() {
				o.To = now
			}
		}
		for _, a := range c.away {
			if a.What == l.Name && a.To.IsZero() {
				a.To = now
			}
		}
	}
	p.lives[0].Wrong = wrong
	b.run = nil
	if p.told == "" || wrong != "" {
		c.say("%s", strings.TrimSpace(p.lives[0].Name+" ended: "+how+" "+wrong))
	}
	if b.wanted && !c.closed {
		pause := time.Duration(c.random.Int64N(int64(2 * time.Second)))
		time.AfterFunc(pause, func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			if b.wanted && b.run == nil && !c.closed {
				c.say("%s starts", c.start(b))
			}
		})
	}
}

// verdict says how a process ended, whether uncleanly, and what must not be about it. It is called under mu.
func (c *crew) verdict(p *process, err error) (how string, dirty bool, wrong string) {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		status, _ := exit.Sys().(syscall.WaitStatus)
		switch {
		case status.Signaled() && status.Signal() == syscall.SIGKILL && p.told != "":
			return p.told, true, ""
		case status.Signaled() && status.Signal() == syscall.SIGKILL:
			return "killed by its record", true, ""
		case status.Signaled() && status.Signal() == syscall.SIGTERM && p.told != "":
			return p.told, false, "" // told so soon that it had not begun to listen
		case status.Signaled() || exit.ExitCode() == 2:
			return err.Error(), true, "crashed: " + c.lastWords(p)
		}
	}
	if err != nil {
		words := c.lastWords(p)
		for _, fatal := range []error{consumer.ErrFenced, consumer.ErrFatal} {
			if strings.Contains(words, fatal.Error()) {
				how = fatal.Error()
			}
		}
		if how == "" && p.told != "" && strings.Contains(words, consumer.ErrCloseTimeout.Error()) {
			return consumer.ErrCloseTimeout.Error(), true, "" // it was told to end, and all that was done is committed
		}
		if !c.noisy {
			wrong = "failed in quiet times: " + words
		}
		return "ended by itself, " + cmp.Or(how, words), true, wrong
	}
	if p.told == "" {
		wrong = "ended, and nobody had told it to"
	}
	return p.told, false, wrong
}

// lastWords are what a member printed after its log: the error that it ended with, or the trace of its crash.
func (c *crew) lastWords(p *process) string {
	berth, _, _ := strings.Cut(p.lives[0].Name, "#")
	text, _ := os.ReadFile(filepath.Join(c.logs, berth+".log"))
	var last string
	for line := range strings.Lines(strings.TrimSpace(string(text))) {
		if _, err := time.Parse("2006-01-02T15:04:05", line[:min(len(line), 19)]); err == nil {
			last = "" // of the log: what it ended with comes after it
			continue
		}
		last += strings.TrimSpace(line) + " "
	}
	return last[:min(len(last), 600)]
}

// pick chooses one of the members that run and are not frozen, nor about to end.
func (c *crew) pick(r *rand.Rand) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	var those []int
	for i, b := range c.berths {
		if b.run != nil && b.run.told == "" && !b.run.frozen {
			those = append(those, i)
		}
	}
	if len(those) == 0 {
		return -1
	}
	return those[r.IntN(len(those))]
}

// vacant chooses an empty berth.
func (c *crew) vacant(r *rand.Rand) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	var those []int
	for i, b := range c.berths {
		if b.run == nil && !b.wanted {
			those = append(those, i)
		}
	}
	if len(those) == 0 {
		return -1
	}
	return those[r.IntN(len(those))]
}

// signal sends a signal to the member in a berth, and answers its name; "": there is none. told is why it ends; "": it does not.
func (c *crew) signal(i int, s syscall.Signal, told string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	b := c.berths[i]
	if b.run == nil {
		return ""
	}
	if told != "" {
		b.run.told = told
	}
	if s == syscall.SIGTERM {
		b.wanted = false
	}
	_ = b.run.cmd.Process.Signal(s)
	return b.run.lives[0].Name
}

// freeze stops a member (SIGSTOP), and answers what lets it go on.
func (c *crew) freeze(i int, most time.Duration) (name string, thaw func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.berths[i].run
	if p == nil {
		return "", func() {}
	}
	// If this process should die meanwhile, somebody has to wake the frozen one, so that it notices.
	waker := exec.Command("/bin/sh", "-c", fmt.Sprintf("sleep %d; kill -CONT %d", 2*int(most.Seconds()+1), p.cmd.Process.Pid))
	waker.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if waker.Start() != nil || p.cmd.Process.Signal(syscall.SIGSTOP) != nil {
		return "", func() {}
	}
	p.frozen = true
	for _, l := range p.lives {
		l.Frozen = append(l.Frozen, judge.Span{From: time.Now()})
	}
	return p.lives[0].Name, func() {
		_ = syscall.Kill(-waker.Process.Pid, syscall.SIGKILL)
		_ = waker.Wait()
		_ = p.cmd.Process.Signal(syscall.SIGCONT)
		c.mu.Lock()
		defer c.mu.Unlock()
		p.frozen = false
		for _, l := range p.lives {
			if last := &l.Frozen[len(l.Frozen)-1]; last.To.IsZero() {
				last.To = time.Now()
			}
		}
	}
}

// thaw wakes all that are frozen, and freezes nobody any more.
func (c *crew) thaw() { c.once.Do(func() { close(c.still) }) }

// calm says that the faults are over: from now on a member that fails is a violation. At least two members run.
func (c *crew) calm() {
	c.mu.Lock()
	c.noisy = false
	c.mu.Unlock()
	for i := range c.berths {
		if i < 2 {
			c.join(i)
		}
	}
}

// ask has every member tell its status, and waits a moment for it.
func (c *crew) ask() map[string]consumer.Status {
	c.mu.Lock()
	clear(c.status)
	for _, b := range c.berths {
		if b.run != nil {
			_, _ = io.WriteString(b.run.in, "status\n")
		}
	}
	c.mu.Unlock()
	time.Sleep(time.Second)
	c.mu.Lock()
	defer c.mu.Unlock()
	all := map[string]consumer.Status{}
	for who, s := range c.status {
		all[who] = s
	}
	return all
}

// dismiss ends all members as a deployment does, and kills those that have not ended after a while.
func (c *crew) dismiss(patience time.Duration) {
	c.thaw()
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	for i := range c.berths {
		c.signal(i, syscall.SIGTERM, "told to stop")
	}
	late := time.AfterFunc(patience, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, b := range c.berths {
			if b.run != nil {
				b.run.told = fmt.Sprintf("killed: it had not stopped after %v", patience)
				if !c.noisy {
					b.run.lives[0].Wrong = b.run.told
				}
				_ = b.run.cmd.Process.Kill()
			}
		}
	})
	defer late.Stop()
	c.waiting.Wait()
}

// running counts the members' processes.
func (c *crew) running() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, b := range c.berths {
		if b.run != nil {
			n++
		}
	}
	return n
}

// testify adds what is known of the members to a history.
func (c *crew) testify(h *judge.History) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, l := range c.lives {
		h.Lives = append(h.Lives, *l)
	}
	for _, o := range c.owned {
		h.Owned = append(h.Owned, *o)
	}
	for _, a := range c.away {
		h.StoreSaid = append(h.StoreSaid, *a)
	}
}
