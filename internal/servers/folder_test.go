package servers

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// newSleeper makes a folder in which a program runs that would never end, with a child of its own.
func newSleeper(t *testing.T) (*folder, *process) {
	t.Helper()
	f, err := newFolder("test")
	Must(t, err)
	closeAtEnd(t, f)
	p, err := f.run("sleeper", "sh", "-c", "sleep 1000 & echo ready; wait")
	Must(t, err)
	eventually(t, "the program runs", func() bool { return strings.Contains(p.tail(), "ready") })
	return f, p
}

// groupLives tells whether a process of the group led by pid is left.
func groupLives(pid int) bool { return syscall.Kill(-pid, 0) == nil }

func exists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, os.ErrNotExist)
}

func TestCloseLeavesNothingBehind(t *testing.T) {
	f, p := newSleeper(t)
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "its processes are gone", func() bool { return !groupLives(p.cmd.Process.Pid) })
	if exists(f.path) {
		t.Errorf("%s is still there", f.path)
	}
	if err := f.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
}

func TestCloseEndsAFrozenProcess(t *testing.T) {
	f, p := newSleeper(t)
	if err := p.signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "its processes are gone", func() bool { return !groupLives(p.cmd.Process.Pid) })
}

// The test starts itself once more, as an owner that is killed without a chance to clean up.
func TestNothingIsLeftBehindByAnOwnerThatIsKilled(t *testing.T) {
	if os.Getenv("BREAKWATER_TEST_OWNER") != "" {
		f, p := newSleeper(t)
		fmt.Printf("owner %d %s\n", p.cmd.Process.Pid, f.path)
		select {} // until it is killed
	}
	owner := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	owner.Env = append(os.Environ(), "BREAKWATER_TEST_OWNER=1")
	out, err := owner.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := owner.Start(); err != nil {
		t.Fatal(err)
	}
	var pid int
	var path string
	for lines := bufio.NewScanner(out); pid == 0 && lines.Scan(); {
		_, _ = fmt.Sscanf(lines.Text(), "owner %d %s", &pid, &path)
	}
	if pid == 0 || !groupLives(pid) || !exists(path) {
		t.Fatalf("the owner has not started its server: pid %d, folder %q", pid, path)
	}

	_ = owner.Process.Kill()
	_ = owner.Wait()
	eventually(t, "its processes and its folder are gone", func() bool { return !groupLives(pid) && !exists(path) })
}

func TestAProgramThatEndsIsReportedWithItsLog(t *testing.T) {
	f, err := newFolder("test")
	Must(t, err)
	closeAtEnd(t, f)
	p, err := f.run("broken", "sh", "-c", "echo the reason; exit 3")
	Must(t, err)
	err = p.wait(t.Context())
	if err == nil || !errors.Is(err, errEnded) || !strings.Contains(err.Error(), "the reason") || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("wait: %v", err)
	}
	if err := p.kill(); err != nil {
		t.Errorf("kill of a process that has ended: %v", err)
	}
	if err := p.signal(syscall.SIGSTOP); err == nil {
		t.Error("a signal to a process that has ended was accepted")
	}
}
