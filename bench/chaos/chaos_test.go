package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"
	"go.uber.org/goleak"

	"github.com/breakwater-go/breakwater/bench/chaos/judge"
)

// The whole command on an embedded broker, with members that are processes: this test binary, run again.

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == asMember {
		os.Exit(member())
	}
	goleak.VerifyTestMain(m)
}

func TestShortRunKeepsTheLaws(t *testing.T) {
	if testing.Short() {
		t.Skip("a quarter of a minute of faults, and the time to recover from them")
	}
	path := filepath.Join(t.TempDir(), "report.json")
	var out, errs bytes.Buffer
	if code := run(t.Context(), []string{"-embedded", "-minutes", "0.1", "-seed", "1", "-json", path}, &out, &errs); code != 0 {
		t.Fatalf("exit code %d\n%s%s", code, out.String(), errs.String())
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var reports []report
	if err := json.Unmarshal(text, &reports); err != nil {
		t.Fatal(err)
	}
	r := reports[0]
	if r.Records == 0 || r.Faults["members"] == 0 || r.Calls[judge.OK] == 0 || !r.Hung && r.Findings.Open > 0 {
		t.Errorf("%s", out.String())
	}
	for _, want := range []string{"members: ", "every record", "no violation"} {
		if !r.Hung && !strings.Contains(out.String(), want) {
			t.Errorf("nothing said of %q:\n%s", want, out.String())
		}
	}
}

func TestInterruptJudgesWhatWasSeen(t *testing.T) {
	if testing.Short() {
		t.Skip("starts members")
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var out lines
	out.when = func(line string) {
		if strings.Contains(line, "members: ") {
			cancel()
		}
	}
	var errs bytes.Buffer
	began := time.Now()
	if code := run(ctx, []string{"-embedded", "-minutes", "60", "-seed", "3"}, &out, &errs); code != 0 {
		t.Errorf("exit code %d\n%s%s", code, out.String(), errs.String())
	}
	if !strings.Contains(out.String(), "it was interrupted") {
		t.Errorf("%s", out.String())
	}
	if took := time.Since(began); took > 10*time.Minute {
		t.Errorf("it took %v", took)
	}
}

// lines is an output that tells of each write.
type lines struct {
	bytes.Buffer
	when func(string)
}

func (l *lines) Write(p []byte) (int, error) {
	l.when(string(p))
	return l.Buffer.Write(p)
}

func TestWrongCallIsToldApart(t *testing.T) {
	for _, args := range [][]string{{"-minutes", "-1"}, {"-runs", "0"}, {"-embedded", "-minutes", "60", "-json", "/no/such/folder/report.json"}, {"now"}, {"-nonsense"}} {
		var out, errs bytes.Buffer
		if code := run(t.Context(), args, &out, &errs); code != 2 || errs.Len() == 0 {
			t.Errorf("%v: exit code %d, %q", args, code, errs.String())
		}
	}
	var out, errs bytes.Buffer
	if code := run(t.Context(), []string{"-h"}, &out, &errs); code != 0 || !strings.Contains(errs.String(), "-seed") {
		t.Errorf("-h: exit code %d, %q", code, errs.String())
	}
}

func TestContentIsAFunctionOfTheSeedAndHasEveryForm(t *testing.T) {
	at := time.UnixMilli(1)
	forms := map[string]bool{}
	for n := range uint64(300) {
		m := content(7, topic, 1, n, at)
		if d := differs(m, content(7, topic, 1, n, at)); d != "" {
			t.Fatal(d)
		}
		if differs(m, content(7, topic, 1, n+1, at)) == "" && len(m.Value) > 8 {
			t.Errorf("records %d and %d are the same", n, n+1)
		}
		for name, b := range map[string][]byte{"key": m.Key, "value": m.Value} {
			forms[name+map[bool]string{true: " nil", false: " not nil"}[b == nil]] = true
			forms[name+map[bool]string{true: " empty", false: " not empty"}[b != nil && len(b) == 0]] = true
		}
		for _, h := range m.Headers {
			forms["header "+h.Key+map[bool]string{true: " nil", false: ""}[h.Value == nil]] = true
		}
	}
	for _, form := range []string{"key nil", "key empty", "value nil", "value empty", "header note", "header note nil", "header REASON"} {
		if !forms[form] {
			t.Errorf("there is no %s in %v", form, forms)
		}
	}
}

func TestDifferencesAreTold(t *testing.T) {
	at := time.UnixMilli(1)
	var n uint64
	for ; len(content(1, topic, 0, n, at).Headers) < 2 || content(1, topic, 0, n, at).Key == nil; n++ {
	}
	was := content(1, topic, 0, n, at)
	for what := range map[string]bool{"key": true, "value": true, "timestamp": true, "headers": true} {
		is := content(1, topic, 0, n, at)
		switch what {
		case "key":
			is.Key = nil
		case "value":
			is.Value = append(is.Value, 1)
		case "timestamp":
			is.Timestamp = at.Add(time.Millisecond)
		case "headers":
			is.Headers = is.Headers[1:]
		}
		if d := differs(was, is); !strings.Contains(d, what) {
			t.Errorf("%s: %q", what, d)
		}
	}
}

func TestFatesAreDrawnAsTheirSharesSay(t *testing.T) {
	d := destiny{seed: 5, deadlyOneIn: 1000}
	count := map[fate]int{}
	const n = 200_000
	for o := range int64(n) {
		count[d.of(judge.ID{Partition: 2, Offset: o})]++
	}
	for _, s := range shares {
		if want := int(s.share) * n / 100_000; count[s.fate] < want*8/10 || count[s.fate] > want*12/10 {
			t.Errorf("%d of %s, not about %d", count[s.fate], s.fate, want)
		}
	}
	if count[deadly] < n/1000*7/10 || count[deadly] > n/1000*13/10 {
		t.Errorf("%d deadly", count[deadly])
	}
}

func TestDependencyAnswersByFateAndOutageAndNotesIt(t *testing.T) {
	d, err := startDependency(destiny{seed: 5, deadlyOneIn: 1000})
	if err != nil {
		t.Fatal(err)
	}
	defer d.close()
	o := orders{Dependency: d.url}
	find := func(f fate) (id judge.ID) {
		for d.destiny.of(id) != f {
			id.Offset++
		}
		return id
	}
	call := func(id judge.ID) error {
		m := content(1, topic, id.Partition, 0, time.UnixMilli(1))
		m.TopicPartition.Offset = kafka.Offset(id.Offset)
		return o.handle(t.Context(), "m1#1", m)
	}
	for f, want := range map[fate]judge.Answer{well: judge.OK, poison: judge.Failed, permanent: judge.Refused} {
		err := call(find(f))
		calls := d.seen()
		last := calls[len(calls)-1]
		if last.Answer != want || last.ID != find(f) || last.Caller != "m1#1" || last.Attempt != 1 || (err == nil) != (want == judge.OK) {
			t.Errorf("%s: %v, noted as %+v", f, err, last)
		}
	}
	d.set(unavailable)
	if err := call(find(well)); err == nil {
		t.Error("an outage, and no error")
	}
	d.set(resetting)
	if err := call(find(well)); err == nil {
		t.Error("a reset connection, and no error")
	}
	d.set("")
	if resp, err := http.Get(d.url); err != nil || resp.StatusCode != http.StatusBadRequest {
		t.Errorf("a stranger is answered %v, %v", resp, err)
	} else {
		resp.Body.Close()
	}
}
