package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/breakwater-go/breakwater/bench/internal/contend"
	"github.com/breakwater-go/breakwater/bench/internal/contenders"
	"github.com/breakwater-go/breakwater/bench/internal/page"
	"github.com/breakwater-go/breakwater/bench/internal/tally"
	"github.com/breakwater-go/breakwater/bench/stub/server"
)

// TestMain lets the test's own program be a contender, as the bench's is.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == asContender {
		os.Exit(contend.Main(os.Stdin, os.Stdout, contenders.All))
	}
	goleak.VerifyTestMain(m)
}

func TestWrongFlagsAreRefused(t *testing.T) {
	folder := t.TempDir()
	bad := filepath.Join(folder, "bad.json")
	if err := os.WriteFile(bad, []byte(`{"phases": [{"nam": "well"}]}`), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ args, want string }{
		{"-nonsense", "nonsense"},
		{"steady", `"steady" is no flag`},
		{"-scenario nope", `no scenario "nope"`},
		{"-contenders nope", `no contender "nope"`},
		{"-records -1", "can't be negative"},
		{"-rounds 0", "must be over zero"},
		{"-real -brokers a:1", "give one of them"},
		{"-scenario " + bad, bad + `:1: phases[0].nam: this key is unknown; did you mean "name"?`},
		{"-scenario " + folder, "-scenario " + folder + ": is a directory; name a file that can be read"},
		{"-scenario /nope/x.json", `there is no file "/nope/x.json"`},
		{"-json /nope/x.json", "bench: -json /nope/x.json: no such file or directory; name a file in a folder that exists"},
		{"-html /nope/x.html", "bench: -html /nope/x.html: no such file or directory; name a file in a folder that exists"},
		{"-html " + folder, "bench: -html " + folder + ": is a directory; name a file"},
		{"-profile /nope", "bench: -profile /nope: no such file or directory; name a folder that exists"},
		{"-profile " + bad, "bench: -profile " + bad + ": not a directory; name a folder that exists"},
	} {
		var out, errs bytes.Buffer
		if code := run(t.Context(), strings.Fields(c.args), &out, &errs); code != 2 || !strings.Contains(errs.String(), c.want) {
			t.Errorf("bench %s: code %d, said %q", c.args, code, errs.String())
		}
		if strings.Contains(c.args, bad) && strings.Contains(errs.String(), "no scenario") {
			t.Errorf("bench %s: the file is there, and it says %q", c.args, errs.String())
		}
	}
}

func TestEachColumnThatIsPrintedIsExplained(t *testing.T) {
	var out bytes.Buffer
	print(&out, page.Report{Rows: []tally.Row{
		{Scenario: "steady", Contender: "bare", Figures: tally.Figures{"records_per_s": 5, "left": 0}},
		{Scenario: "outage", Contender: "bare", Figures: tally.Figures{"first_success_phase_ms": 7, "records_per_s": 6}},
	}})
	for _, k := range tally.Keys {
		want := 0
		if k.Key == "records_per_s" || k.Key == "first_success_phase_ms" {
			want = 1
		}
		if n := strings.Count(out.String(), "  "+k.About+"\n"); n != want {
			t.Errorf("%s is explained %d times, want %d\n%s", k.Key, n, want, out.String())
		}
	}
}

func TestACallerWhoGaveUpIsTold(t *testing.T) {
	for _, c := range []struct {
		outcome     string
		membersGo   bool
		gaveUp, cut bool
	}{
		{"ok", false, false, false}, {"503", false, false, false}, {"503", true, false, false},
		{server.Gone, false, true, false}, {"hang", false, true, false}, {"drip", false, true, false},
		{server.Gone, true, false, true}, {server.Pending, true, false, true}, {"hang", true, true, false},
	} {
		started := time.Unix(0, 0)
		e := evidence(server.Report{Started: started, Log: []server.Call{{Record: "t/0/1", Outcome: c.outcome}}}, started, c.membersGo)
		if got := e.Calls[0]; got.GaveUp != c.gaveUp || got.Cut != c.cut {
			t.Errorf("%s, members go %t: %+v", c.outcome, c.membersGo, got)
		}
	}
}

func TestHelpNamesEveryScenarioAndContender(t *testing.T) {
	var out, errs bytes.Buffer
	if code := run(t.Context(), []string{"-h"}, &out, &errs); code != 0 {
		t.Errorf("code %d", code)
	}
	for _, want := range []string{"steady", "long-outage-budget", "crash", "breakwater", "usual-tuned", "watermill", "-partitions", "exit code"} {
		if !strings.Contains(errs.String(), want) {
			t.Errorf("no %q in the help", want)
		}
	}
}

func TestABrokenLawIsExitCodeOne(t *testing.T) {
	rows := []tally.Row{{Scenario: "steady", Contender: "bare", Figures: tally.Figures{"lost": 9}}, {Scenario: "steady", Contender: "breakwater"}}
	var out bytes.Buffer
	if code := verdict(&out, rows); code != 0 {
		t.Errorf("another contender's loss: code %d", code)
	}
	rows[1].Broken = []string{"1 records lost"}
	if code := verdict(&out, rows); code != 1 || !strings.Contains(out.String(), "1 records lost") {
		t.Errorf("a loss of ours: code %d, said %q", code, out.String())
	}
}

func TestABrokerThatIsNotThereIsExitCodeOne(t *testing.T) {
	if testing.Short() {
		t.Skip("the client tries for 20 s")
	}
	var out, errs bytes.Buffer
	if code := run(t.Context(), []string{"-brokers", "127.0.0.1:1"}, &out, &errs); code != 1 || !strings.Contains(errs.String(), "check -brokers") {
		t.Errorf("code %d, said %q", code, errs.String())
	}
}

// bench runs the bench, and reads the figures that it wrote.
func runBench(t *testing.T, args ...string) (code int, rows map[string]map[string]any) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "figures.json")
	var out, errs bytes.Buffer
	code = run(context.Background(), append(args, "-json", file), &out, &errs)
	t.Log(out.String(), errs.String())
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var list []map[string]any
	if err := json.Unmarshal(text, &list); err != nil {
		t.Fatal(err)
	}
	rows = map[string]map[string]any{}
	for _, r := range list {
		rows[r["scenario"].(string)+" "+r["contender"].(string)] = r
	}
	return code, rows
}

func TestARaceIsCountedToTheLastRecord(t *testing.T) {
	page := filepath.Join(t.TempDir(), "bench.html")
	code, rows := runBench(t, "-scenario", "poison", "-records", "3000", "-partitions", "3", "-contenders", "breakwater,bare,spring", "-html", page)
	if code != 0 {
		t.Errorf("code %d", code)
	}
	ours, bare := rows["poison breakwater"], rows["poison bare"]
	if ours["lost"] != 0.0 || ours["duplicated"] != 0.0 || ours["left"] != 0.0 || ours["dlq_incomplete"] != 0.0 || ours["records_per_s"].(float64) <= 0 {
		t.Errorf("breakwater: %v", ours)
	}
	// Neither does bare, as long as nothing goes wrong: it hands its letters to a producer.
	if bare["lost"] != 0.0 || bare["dlq_missing"] != 0.0 || bare["dlq_incomplete"] != 0.0 {
		t.Errorf("bare: %v", bare)
	}
	if note, _ := rows["poison spring"]["note"].(string); !strings.Contains(note, "not to be had") {
		t.Errorf("spring: %v", rows["poison spring"])
	}
	if text, err := os.ReadFile(page); err != nil || !bytes.Contains(text, []byte("</html>")) {
		t.Errorf("the page: %v, %d bytes", err, len(text))
	}
}

// A short scenario of one's own: down for two seconds.
func TestAnOutageIsCountedByTheDependency(t *testing.T) {
	file := filepath.Join(t.TempDir(), "mine.json")
	script := `{"phases": [{"name": "well", "for": "1s"}, {"name": "down", "for": "2s", "faults": [{"do": 503}]}, {"name": "well again"}]}`
	if err := os.WriteFile(file, []byte(script), 0o644); err != nil {
		t.Fatal(err)
	}
	code, rows := runBench(t, "-scenario", file, "-contenders", "breakwater,bare", "-partitions", "2")
	if code != 0 {
		t.Errorf("code %d", code)
	}
	ours, bare := rows["mine breakwater"], rows["mine bare"]
	if ours["lost"] != 0.0 || ours["early_calls"] != 0.0 || ours["rebalances"] != 0.0 || ours["out_of_order"] != 0.0 {
		t.Errorf("breakwater: %v", ours)
	}
	if calls := ours["calls_while_down"].(float64); calls < 1 || calls > 5 {
		t.Errorf("breakwater made %v calls while the dependency was down", calls)
	}
	if lost, calls := bare["lost"].(float64), bare["calls_while_down"].(float64); lost < 100 || lost > calls+1 { // one may arrive at the very turn
		t.Errorf("bare lost %v with %v calls while down", lost, calls)
	}
}
