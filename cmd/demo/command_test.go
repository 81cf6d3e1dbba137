package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// build makes the command as a user has it.
func build(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("half a minute, and -short leaves that out")
	}
	path := filepath.Join(t.TempDir(), "demo")
	if out, err := exec.Command("go", "build", "-o", path, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return path
}

func account(t *testing.T, out []byte) (s Summary) {
	t.Helper()
	lines := bytes.Split(bytes.TrimSpace(out), []byte("\n"))
	if err := json.Unmarshal(lines[len(lines)-1], &s); err != nil {
		t.Fatalf("the last line is no account: %v\n%s", err, out)
	}
	return s
}

func TestTheCommandTakesHalfAMinuteAndAddsUp(t *testing.T) {
	t.Parallel()
	command := exec.Command(build(t), "-json")
	folder := t.TempDir()
	command.Dir = folder // away from the checkout it brings its own strategy
	command.Env = append(os.Environ(), "TMPDIR="+folder)
	var errs bytes.Buffer
	command.Stderr = &errs
	began := time.Now()
	out, err := command.Output()
	if took := time.Since(began); took > time.Minute {
		t.Errorf("it took %v", took)
	}
	if err != nil || errs.Len() > 0 || bytes.ContainsRune(out, '\x1b') {
		t.Errorf("%v %s\n%s", err, &errs, out)
	}
	s := account(t, out)
	if s.Produced < 500 || s.Produced != s.Handled+s.DeadLettered || s.DeadLettered != 2 || s.Lost+s.OutOfOrder+s.EarlyCalls+s.Rebalances != 0 {
		t.Errorf("%+v", s)
	}
	// With intervals of 1, 2 and 4 seconds five seconds of outage see four calls, and those that were under way at the trip.
	if s.CallsWhileDown < 3 || s.CallsWhileDown > 4+halfAMinute.partitions-1 {
		t.Errorf("%d calls while down", s.CallsWhileDown)
	}
	if left, _ := os.ReadDir(folder); len(left) > 0 {
		t.Errorf("%v was left behind", left)
	}
}

func TestControlCEndsTheCommandWithTheAccountSoFar(t *testing.T) {
	t.Parallel()
	command := exec.Command(build(t), "-json")
	stdout, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		out.WriteString(lines.Text() + "\n")
		if strings.Contains(lines.Text(), "OPEN") {
			if err := command.Process.Signal(syscall.SIGINT); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := command.Wait(); err != nil {
		t.Errorf("%v\n%s", err, &out)
	}
	if s := account(t, out.Bytes()); !s.Interrupted || s.Lost != 0 || s.Produced != s.Handled+s.DeadLettered+s.Left {
		t.Errorf("%+v", s)
	}
}
