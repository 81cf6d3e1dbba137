package main

import (
	"bufio"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/breakwater-go/breakwater/bench/scenarios"
	"github.com/breakwater-go/breakwater/bench/stub/scenario"
)

// The README's commands are run as they stand, from the root of the repository, save that port 8080 may be taken on this machine. The first
// starts the stub, the others talk to it while it runs, and a SIGINT to the whole group, as a terminal's Ctrl-C is one, ends it.
func TestTheCommandsOfTheReadmeWork(t *testing.T) {
	commands := blocks(t, "sh")
	if len(commands) < 2 || !strings.HasPrefix(commands[0], "go run ./bench/stub ") {
		t.Fatalf("the README begins with %q", commands)
	}
	if _, err := exec.LookPath("curl"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("there is no curl on this machine; install it")
		}
		t.Skip("there is no curl on this machine")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	here := strings.NewReplacer("127.0.0.1:8080", addr, "curl ", "curl --fail --max-time 20 ")

	stub := launch(t, "sh", "-c", "exec "+here.Replace(commands[0]))
	stub.read("0.0s")
	for _, command := range strings.Split(strings.TrimSpace(commands[1]), "\n") {
		curl := exec.Command("sh", "-c", here.Replace(command))
		if answer, err := curl.CombinedOutput(); err != nil || len(answer) == 0 {
			t.Errorf("%s: %v\n%s", command, err, answer)
		}
	}
	stub.end(syscall.SIGINT)
	if text := stub.said.String(); !strings.Contains(text, "1 calls in") || !strings.Contains(text, "by hand, until the next switch: down") {
		t.Errorf("it said\n%s", text)
	}
}

func TestASignalEndsItCleanly(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "stub")
	if out, err := exec.Command("go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		stub := launch(t, binary, "-scenario", "outage.json", "-addr", "127.0.0.1:0")
		stub.read("0.0s")
		if code := stub.end(signal); code != 0 || !strings.Contains(stub.said.String(), "0 calls in") {
			t.Errorf("after %v: exit code %d\n%s", signal, code, stub.said.String())
		}
	}
}

// process is a process group that is killed when the test ends, if it has not ended before.
type process struct {
	*exec.Cmd
	t     *testing.T
	lines *bufio.Scanner
	said  strings.Builder // both streams
}

func launch(t *testing.T, name string, args ...string) *process {
	t.Helper()
	p := &process{Cmd: exec.Command(name, args...), t: t}
	p.Dir = "../.."
	p.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := p.StdoutPipe()
	p.Stderr = p.Stdout
	if err == nil {
		err = p.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	p.lines = bufio.NewScanner(out)
	t.Cleanup(func() {
		if p.ProcessState == nil {
			_ = syscall.Kill(-p.Process.Pid, syscall.SIGKILL)
			_ = p.Wait()
		}
	})
	return p
}

// read reads what the process says up to the line with that text, or all of it.
func (p *process) read(until string) {
	p.t.Helper()
	for p.lines.Scan() {
		p.said.WriteString(p.lines.Text() + "\n")
		if until != "" && strings.Contains(p.lines.Text(), until) {
			return
		}
	}
	if until != "" {
		p.t.Fatalf("the stub did not say %q, but\n%s", until, p.said.String())
	}
}

// end sends the signal to the whole group, and answers the exit code.
func (p *process) end(signal syscall.Signal) int {
	p.t.Helper()
	if err := syscall.Kill(-p.Process.Pid, signal); err != nil {
		p.t.Fatal(err)
	}
	late := time.AfterFunc(20*time.Second, func() { _ = syscall.Kill(-p.Process.Pid, syscall.SIGKILL) })
	defer late.Stop()
	p.read("")
	_ = p.Wait()
	return p.ProcessState.ExitCode()
}

func TestTheScenarioOfTheReadmeIsSound(t *testing.T) {
	for _, block := range blocks(t, "json") {
		if _, err := scenario.Parse("README.md", []byte(block)); err != nil {
			t.Error(err)
		}
	}
}

func TestTheScenariosThatTheReadmeNamesShip(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(readme), "`outage.json` ships")
	text, _, _ = strings.Cut(text, "They are")
	names := regexp.MustCompile("`([a-z-]+)`").FindAllStringSubmatch(text, -1)
	if len(names) < 5 {
		t.Fatalf("it names only %v", names)
	}
	for _, name := range names {
		if _, err := scenarios.Load(name[1]); err != nil {
			t.Error(err)
		}
	}
}

// blocks are the code blocks of that language in the README.
func blocks(t *testing.T, language string) []string {
	t.Helper()
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, match := range regexp.MustCompile("(?s)```"+language+"\n(.*?)```").FindAllStringSubmatch(string(readme), -1) {
		all = append(all, match[1])
	}
	if len(all) == 0 {
		t.Fatalf("the README has no %s block", language)
	}
	return all
}
