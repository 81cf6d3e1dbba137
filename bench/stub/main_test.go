package main

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/breakwater-go/breakwater/bench/stub/server"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestTheExitCodeTellsTheTruth(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	bad := filepath.Join(t.TempDir(), "bad.json")
	if err := os.WriteFile(bad, []byte("{\n\"phases\": [{\"nam\": 5}]}"), 0o600); err != nil {
		t.Fatal(err)
	}
	cases := []struct {
		name string
		args []string
		code int
		says string
	}{
		{"help", []string{"-h"}, 0, "outage, poison"},
		{"unknown flag", []string{"-scenari", "x"}, 2, "-scenari"},
		{"no flag", []string{"outage.json"}, 2, "given with -scenario"},
		{"no such scenario", []string{"-scenario", "nope"}, 2, "brownout"},
		{"no such file", []string{"-scenario", "/nope.json"}, 2, `there is no file "/nope.json"; give one, or a scenario that ships: brownout`},
		{"bad scenario", []string{"-scenario", bad}, 2, `:2: phases[0].nam: this key is unknown; did you mean "name"?`},
		{"port taken", []string{"-addr", taken.Addr().String()}, 1, "whose port is free"},
		{"control port taken", []string{"-addr", "127.0.0.1:0", "-control", taken.Addr().String()}, 1, "-control"},
		{"ended", []string{"-addr", "127.0.0.1:0"}, 0, ""},
		{"report in no folder", []string{"-addr", "127.0.0.1:0", "-report", "/nope/x"}, 2, "stub: -report /nope/x: no such file or directory; name a file in a folder that exists"},
		{"report is a folder", []string{"-addr", "127.0.0.1:0", "-report", filepath.Dir(bad)}, 2, "is a directory; name a file"},
		{"no address", []string{"-addr", ""}, 2, "stub: -addr: the address is empty; write host:port"},
		{"a URL", []string{"-addr", "http://127.0.0.1:8080"}, 2, "leave off http://"},
		{"a control URL", []string{"-addr", "127.0.0.1:0", "-control", "http://127.0.0.1:8081"}, 2, "stub: -control: \"http://127.0.0.1:8081\" is a URL; leave off http://"},
		{"control is the address", []string{"-addr", ":8080", "-control", "127.0.0.1:8080"}, 2, "-control 127.0.0.1:8080 is -addr too"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			ctx, end := context.WithCancel(t.Context())
			end()
			var out, errs output
			if code := run(ctx, c.args, &out, &errs); code != c.code || !strings.Contains(errs.String(), c.says) {
				t.Errorf("exit code %d, %s; want %d with %q", code, errs.String(), c.code, c.says)
			}
			if c.code != 0 && out.String() != "" {
				t.Errorf("it listened before it had seen what is wrong: %s", out.String())
			}
		})
	}
}

func TestItSaysWhereItListens(t *testing.T) {
	for _, c := range []struct{ addr, want string }{
		{":0", `(?m)at http://127\.0\.0\.1:\d+$`},
		{"0.0.0.0:0", `(?m)at http://127\.0\.0\.1:\d+ and at every other address of this machine$`},
	} {
		ctx, end := context.WithCancel(t.Context())
		end()
		var out, errs output
		run(ctx, []string{"-addr", c.addr, "-control", c.addr}, &out, &errs)
		if n := len(regexp.MustCompile(c.want).FindAllString(out.String(), -1)); n != 2 {
			t.Errorf("%s: it said %s%s", c.addr, out.String(), errs.String())
		}
	}
}

func TestARun(t *testing.T) {
	folder := t.TempDir()
	file, report := filepath.Join(folder, "mine.json"), filepath.Join(folder, "report.json")
	if err := os.WriteFile(file, []byte(`{"loop": true, "phases": [
		{"name": "well", "for": "50ms"},
		{"name": "down", "for": "50ms", "faults": [{"do": 503}], "flapping": {"down": "10ms", "up": "10ms"}},
		{"name": "gone", "for": "50ms", "faults": [{"do": "refuse"}]}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	defer end()
	var out, errs output
	code := make(chan int)
	go func() {
		code <- run(ctx, []string{"-scenario", file, "-addr", "127.0.0.1:0", "-control", "127.0.0.1:0", "-seed", "99", "-report", report}, &out, &errs)
	}()
	control := regexp.MustCompile(`control at (http://\S+)`)
	wait(t, &out, func(text string) bool {
		return control.MatchString(text) && strings.Count(text, "s  down for 50ms") >= 2
	})
	post := func(path string) {
		t.Helper()
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		resp, err := client.Post(control.FindStringSubmatch(out.String())[1]+path, "", nil)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if body, _ := io.ReadAll(resp.Body); resp.StatusCode != 200 {
			t.Fatalf("%s: %d %s", path, resp.StatusCode, body)
		}
	}
	post("/_stub/phase?name=gone")
	wait(t, &out, func(text string) bool { return strings.Contains(text, "by hand, until the next switch: gone") })
	post("/_stub/phase?name=well")
	wait(t, &out, func(text string) bool { return strings.Contains(text, "by hand, until the next switch: well") })
	stub := regexp.MustCompile(`at (http://\S+)`).FindStringSubmatch(out.String())[1]
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Get(stub + "/orders/0/17")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	end()
	if got := <-code; got != 0 || errs.String() != "" {
		t.Fatalf("exit code %d, %s", got, errs.String())
	}
	text := out.String()
	for _, want := range []string{
		"mine.json, seed 99, at http://127.0.0.1:",
		`so far in "well": no call`,
		"1 calls in",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
	var read server.Report
	data, err := os.ReadFile(report)
	if err == nil {
		err = json.Unmarshal(data, &read)
	}
	if err != nil || read.Seed != 99 || len(read.Log) != 1 || read.Log[0].Record != "orders/0/17" || read.Log[0].Outcome != "ok" {
		t.Errorf("the report is %+v, %v", read, err)
	}
	if turns := strings.Count(text, "s  down for 50ms"); turns > len(read.Spans)/3+2 {
		t.Errorf("the ups and downs within a phase were said: %d lines for %d spans\n%s", turns, len(read.Spans), text)
	}
}

func TestALostPortIsExitCode1(t *testing.T) {
	file := filepath.Join(t.TempDir(), "gone.json")
	if err := os.WriteFile(file, []byte(`{"phases": [{"name": "gone", "for": "1h", "faults": [{"do": "refuse"}]}, {"name": "well"}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, errs output
	code := make(chan int)
	go func() {
		code <- run(t.Context(), []string{"-scenario", file, "-addr", "127.0.0.1:0", "-control", "127.0.0.1:0"}, &out, &errs)
	}()
	control := regexp.MustCompile(`control at (http://\S+)`)
	wait(t, &out, control.MatchString)
	thief, err := net.Listen("tcp", regexp.MustCompile(`at http://(\S+)`).FindStringSubmatch(out.String())[1])
	if err != nil {
		t.Fatal(err)
	}
	defer thief.Close()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	if resp, err := client.Post(control.FindStringSubmatch(out.String())[1]+"/_stub/phase?name=well", "", nil); err == nil {
		resp.Body.Close()
	}
	if got := <-code; got != 1 || !strings.Contains(errs.String(), "can't be opened again") {
		t.Errorf("exit code %d, %s", got, errs.String())
	}
}

// output is what a run writes, to be read while it runs.
type output struct {
	mu   sync.Mutex
	text strings.Builder
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

func wait(t *testing.T, out *output, holds func(text string) bool) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for !holds(out.String()) {
		if time.Now().After(deadline) {
			t.Fatalf("10 s have passed, and it said only\n%s", out.String())
		}
		<-time.After(time.Millisecond)
	}
}
