package servers

// A folder holds one server (or one cluster of them): its files and its processes. It is gone when Close returns, and it is gone
// a moment after the owning process has ended without calling Close. For that, each folder has a janitor: a small shell that
// reads from a pipe which only the owner holds. The end of the pipe is the end of the owner, whatever ended it.

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
)

// The janitor runs in a process group of its own, so that a Ctrl-C in the terminal does not reach it. Each line that it reads
// names all the process groups that run in the folder at that moment. Processes that were killed may write for an instant
// longer, hence the loop.
const janitor = `
while read -r line; do groups=$line; done
[ -z "$groups" ] || kill -KILL $groups 2>/dev/null
for i in 1 2 3 4 5 6 7 8 9; do rm -rf -- "$1" 2>/dev/null && break; sleep 0.2; done`

// A server waits for one line before it becomes what it is to be, so that it never runs without its janitor's knowledge.
const waiting = `read -r go && exec "$0" "$@"`

type folder struct {
	path    string
	janitor *exec.Cmd
	owner   io.WriteCloser // the janitor's standard input

	mu    sync.Mutex
	procs map[*process]bool // those that run
}

// newFolder makes a folder, the name is for whoever finds it while it stands.
func newFolder(name string) (*folder, error) {
	path, err := os.MkdirTemp("", "breakwater-"+name+"-")
	if err != nil {
		return nil, fmt.Errorf("servers: %w", err)
	}
	f := &folder{path: path, janitor: exec.Command("/bin/sh", "-c", janitor, "breakwater-janitor", path), procs: map[*process]bool{}}
	f.janitor.Dir, f.janitor.Env = "/", []string{"PATH=/usr/bin:/bin"}
	f.janitor.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	f.owner, err = f.janitor.StdinPipe()
	if err == nil {
		err = f.janitor.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("servers: janitor of %s: %w", path, errors.Join(err, os.RemoveAll(path)))
	}
	return f, nil
}

// run starts a program in the folder. What it prints goes to the file name.log, after what an earlier run has left there.
func (f *folder) run(name, program string, args ...string) (*process, error) {
	p := &process{name: name, log: filepath.Join(f.path, name+".log"), folder: f, exited: make(chan struct{})}
	out, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("servers: %w", err)
	}
	defer out.Close()
	p.cmd = exec.Command("/bin/sh", append([]string{"-c", waiting, program}, args...)...)
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = f.path, out, out
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	ready, err := p.cmd.StdinPipe()
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("servers: start %s: %w", name, err)
	}
	f.changed(p, true)
	go func() {
		_ = p.cmd.Wait() // how it ended is of no interest: its log says why
		f.changed(p, false)
		close(p.exited)
	}()
	_, err = io.WriteString(ready, "go\n")
	if err = errors.Join(err, ready.Close()); err != nil {
		return nil, fmt.Errorf("servers: start %s: %w", name, errors.Join(err, p.kill()))
	}
	return p, nil
}

// changed tells the janitor what runs now.
func (f *folder) changed(p *process, runs bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if runs {
		f.procs[p] = true
	} else {
		delete(f.procs, p)
	}
	var line bytes.Buffer
	for p := range f.procs {
		fmt.Fprintf(&line, "-%d ", p.cmd.Process.Pid)
	}
	line.WriteByte('\n')
	_, _ = f.owner.Write(line.Bytes()) // fails only after Close, when nothing is left to tell
}

// Close kills what runs in the folder, waits for it, and removes the folder. A second Close does nothing.
func (f *folder) Close() error {
	f.mu.Lock()
	var running []*process
	for p := range f.procs {
		running = append(running, p)
	}
	f.mu.Unlock()
	var errs []error
	for _, p := range running {
		errs = append(errs, p.kill())
	}
	if f.owner.Close() == nil {
		errs = append(errs, f.janitor.Wait())
	}
	if _, err := os.Stat(f.path); err == nil {
		errs = append(errs, fmt.Errorf("servers: %s could not be removed; remove it by hand", f.path))
	}
	return errors.Join(errs...)
}

// errEnded is wrapped by the error about a process that has ended and was not to.
var errEnded = errors.New("has ended")

// A process is one server program. Its methods may be called from any goroutine.
type process struct {
	name, log string
	cmd       *exec.Cmd
	folder    *folder
	exited    chan struct{} // closed when it has ended and has been waited for
}

// signal sends a signal to the process and its children.
func (p *process) signal(s syscall.Signal) error {
	select {
	case <-p.exited:
		return fmt.Errorf("servers: %s does not run", p.name)
	default:
	}
	if err := syscall.Kill(-p.cmd.Process.Pid, s); err != nil {
		return fmt.Errorf("servers: %s to %s: %w", s, p.name, err)
	}
	return nil
}

// kill ends the process at once, as kill -9 does, and waits for its end. It is no error when it has ended before.
func (p *process) kill() error {
	if err := p.signal(syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		select {
		case <-p.exited:
		default:
			return err
		}
	}
	<-p.exited
	return nil
}

// wait waits for the end of a process that is to end by itself, with success. When ctx ends first, the process is killed.
func (p *process) wait(ctx context.Context) error {
	select {
	case <-p.exited:
	case <-ctx.Done():
		return errors.Join(fmt.Errorf("servers: %s: %w", p.name, ctx.Err()), p.kill())
	}
	if !p.cmd.ProcessState.Success() {
		return fmt.Errorf("servers: %s %w: %s\n%s", p.name, errEnded, p.cmd.ProcessState, p.tail())
	}
	return nil
}

// tail returns the last lines of what the process has printed, for an error message.
func (p *process) tail() string {
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-15):], "\n")
}
