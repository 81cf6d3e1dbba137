package stage

// A contender's process, seen from the outside: what it says is read, what it costs is asked of the operating system.

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/breakwater-go/breakwater/bench/internal/contend"
)

// Process is a contender that runs, or has ended. Its methods may be called from any goroutine.
type Process struct {
	Ended chan struct{} // closed when it has ended

	cmd *exec.Cmd
	in  io.WriteCloser

	mu      sync.Mutex
	said    []contend.Said // changes of state
	samples chan contend.Said
	failed  string
	over    time.Time
	stderr  tail
}

// Command is how to run a contender: the bench itself, or the program of the peers.
type Command []string

// Start runs a contender.
func Start(command Command, job contend.Job) (*Process, error) {
	p := &Process{Ended: make(chan struct{}), cmd: exec.Command(command[0], command[1:]...), samples: make(chan contend.Said, 16)}
	p.cmd.Stderr = &p.stderr
	var err error
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("contender %s did not start: %w", job.Contender, err)
	}
	go p.read(out)
	if err := json.NewEncoder(p.in).Encode(job); err != nil {
		p.Kill()
		return nil, fmt.Errorf("contender %s did not start: %w", job.Contender, err)
	}
	return p, nil
}

func (p *Process) read(out io.Reader) {
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		var s contend.Said
		if json.Unmarshal(lines.Bytes(), &s) != nil {
			continue
		}
		p.mu.Lock()
		switch {
		case s.Error != "":
			p.failed = s.Error
		case s.Sample:
			select {
			case p.samples <- s:
			default:
			}
		default:
			p.said = append(p.said, s)
		}
		p.mu.Unlock()
	}
	err := p.cmd.Wait()
	p.mu.Lock()
	p.over = time.Now()
	if p.failed == "" && err != nil {
		p.failed = strings.TrimSpace(err.Error() + " " + p.stderr.String())
	}
	p.mu.Unlock()
	close(p.Ended)
}

// Said are the changes of state so far.
func (p *Process) Said() []contend.Said {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]contend.Said(nil), p.said...)
}

// Over is when it ended; now, while it runs.
func (p *Process) Over() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over.IsZero() {
		return time.Now()
	}
	return p.over
}

// Failed is why it has ended by itself; "" where it hasn't.
func (p *Process) Failed() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.failed
}

// Usage is what a process has cost so far.
type Usage struct {
	CPU     time.Duration
	Mallocs uint64 // Go's
	Fetched int64
}

// Usage asks for it.
func (p *Process) Usage() (u Usage, err error) {
	for len(p.samples) > 0 {
		<-p.samples
	}
	u.CPU = p.cpu()
	if _, err := io.WriteString(p.in, contend.Sample+"\n"); err != nil {
		return u, err
	}
	select {
	case s := <-p.samples:
		u.Mallocs, u.Fetched = s.Mallocs, s.Fetched
		return u, nil
	case <-p.Ended:
		return u, errors.New("the contender has ended: " + p.Failed())
	case <-time.After(10 * time.Second):
		return u, errors.New("the contender does not answer")
	}
}

// cpu adds up what the kernel says of its threads, in nanoseconds; 0 where the kernel doesn't.
func (p *Process) cpu() (sum time.Duration) {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", p.cmd.Process.Pid))
	for _, t := range threads {
		text, err := os.ReadFile(t)
		if err != nil {
			continue // a thread that has ended
		}
		ran, _, _ := strings.Cut(string(text), " ")
		n, _ := strconv.ParseInt(ran, 10, 64)
		sum += time.Duration(n)
	}
	return sum
}

// Memory is what it has in memory now, and what it had at most, in MB; 0 where the kernel doesn't say.
func (p *Process) Memory() (now, peak float64) {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) != 3 {
			continue
		}
		kb, _ := strconv.ParseFloat(fields[1], 64)
		switch fields[0] {
		case "VmRSS:":
			now = kb / 1024
		case "VmHWM:":
			peak = kb / 1024
		}
	}
	return now, peak
}

// Leave tells it to end, as SIGTERM does.
func (p *Process) Leave() { _, _ = io.WriteString(p.in, contend.Stop+"\n") }

// Kill ends it as kill -9 does, and waits.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill()
	<-p.Ended
}

// Stop has it leave; after the timeout it is killed. False: it had to be.
func (p *Process) Stop(timeout time.Duration) bool {
	p.Leave()
	select {
	case <-p.Ended:
		return true
	case <-time.After(timeout):
		p.Kill()
		return false
	}
}

// tail keeps the last kilobyte that was written to it.
type tail struct {
	mu   sync.Mutex
	text []byte
}

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, b...)
	t.text = t.text[max(0, len(t.text)-1024):]
	return len(b), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.text)
}
