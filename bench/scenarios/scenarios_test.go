package scenarios

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/breakwater-go/breakwater/bench/stub/scenario"
)

func TestEachScenarioThatShipsIsSound(t *testing.T) {
	want := []string{"brownout", "deadly", "dlq-down", "drip", "flapping", "hang", "long-outage", "outage", "poison", "ratelimit", "redis-down", "refused", "slow", "steady"}
	if got := Names(); !slices.Equal(got, want) {
		t.Fatalf("these ship: %v, want %v", got, want)
	}
	for _, name := range Names() {
		t.Run(name, func(t *testing.T) {
			s, err := Load(name)
			if err != nil {
				t.Fatal(err)
			}
			last := s.Phases[len(s.Phases)-1]
			if s.Loop || len(last.Faults) > 0 || last.Broker != nil || last.Redis != "" {
				t.Errorf("it does not end well: %v", last)
			}
			data, _ := os.ReadFile(name + ".json")
			if !strings.HasPrefix(string(data), "{\n  \"$comment\": \"") {
				t.Error("it does not say first what it is for")
			}
		})
	}
}

func TestLoadPrefersAFileAndSaysWhatShips(t *testing.T) {
	t.Chdir(t.TempDir())
	write := func(name, text string) {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if s, err := Load("outage.json"); err != nil || len(s.Phases) != 3 || s.Name != "outage.json" {
		t.Errorf("the one that ships: %v, %v", s, err)
	}
	write("outage.json", `{"phases": [{"name": "mine"}]}`)
	if s, err := Load("outage.json"); err != nil || s.Phases[0].Name != "mine" {
		t.Errorf("the file: %v, %v", s, err)
	}
	write("bad.json", `{"phases": [{"nam": "mine"}]}`)
	var refused *scenario.ParseError
	if _, err := Load("bad.json"); !errors.As(err, &refused) || refused.Name != "bad.json" {
		t.Errorf("a bad file: %v", err)
	}
	if _, err := Load("nope.json"); err == nil || !strings.Contains(err.Error(), "brownout, deadly") {
		t.Errorf("no file: %v", err)
	}
	if _, err := Load(filepath.Dir(".")); err == nil || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a folder: %v", err)
	}
}
