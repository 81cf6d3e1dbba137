package breakwater

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/breakwater-go/breakwater/strategy"
)

// What the documents say is held against the code: the tests that they name exist, the commands that they show are run somewhere, the JSON that they show is accepted.

// documents are the pages at the top.
var documents = []string{"README.md", "GUARANTEES.md", "CONTRIBUTING.md", "docs/scenarios.md", "bench/README.md"}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// allTests are the names of the test functions of this module.
func allTests(t *testing.T) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	pattern := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Example|Benchmark)\w*)\(`)
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		for _, m := range pattern.FindAllStringSubmatch(read(t, path), -1) {
			found[m[1]] = true
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestEveryTestThatADocumentNamesExists(t *testing.T) {
	tests := allTests(t)
	for _, document := range documents {
		names := regexp.MustCompile(`\b(?:Test|Fuzz)[A-Z]\w+`).FindAllString(read(t, document), -1)
		for _, name := range names {
			if !tests[name] {
				t.Errorf("%s names %s, and there is no such test", document, name)
			}
		}
		if document == "GUARANTEES.md" && len(names) < 50 {
			t.Errorf("%s names %d tests only", document, len(names))
		}
	}
}

// shown says for each command of a document where it is run, whatever its flags; the flags have tests of their own.
var shown = map[string]string{
	"go run ./cmd/demo": "cmd/demo: TestCommand…, as a built binary",
	"make test":         ".ci/run",
	"go run ./bench":    "bench: its smoke test",
}

func TestEveryCommandThatADocumentShowsIsRunSomewhere(t *testing.T) {
	for _, document := range documents {
		for _, block := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(read(t, document), -1) {
			for _, command := range strings.Split(strings.TrimSpace(block[1]), "\n") {
				command, _, _ = strings.Cut(command, "  #")
				words := strings.Fields(command)
				if shown[strings.Join(words[:min(3, len(words))], " ")] == "" {
					t.Errorf("%s shows %q, which nothing runs", document, command)
				}
			}
		}
	}
	if !strings.Contains(read(t, ".ci/run"), "make test") {
		t.Error(".ci/run does not run the test command of the README")
	}
}

func TestStrategyOfTheReadmeIsTheOneThatWeShipAndSaysWhatItMeans(t *testing.T) {
	readme := read(t, "README.md")
	blocks := regexp.MustCompile("(?s)```json\n(.*?)```").FindAllStringSubmatch(readme, -1)
	if len(blocks) == 0 {
		t.Fatal("the README shows no strategy")
	}
	shown, err := strategy.Parse("README.md", []byte(blocks[0][1]))
	if err != nil {
		t.Fatal(err)
	}
	shipped, err := strategy.Load("strategy.json")
	if err != nil {
		t.Fatal(err)
	}
	if shown.String() != shipped.String() || !strings.Contains(readme, shown.String()) {
		t.Errorf("README: %q; strategy.json: %q", shown, shipped)
	}
	if plain(t, blocks[0][1]) != plain(t, read(t, "strategy.json")) {
		t.Error("the README's strategy and strategy.json differ")
	}
}

// plain is a strategy without its comments, in one form.
func plain(t *testing.T, text string) string {
	t.Helper()
	var fields map[string]any
	if err := json.Unmarshal([]byte(text), &fields); err != nil {
		t.Fatal(err)
	}
	delete(fields, "$comment")
	delete(fields, "$schema")
	out, err := json.Marshal(fields)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func TestEveryLinkWithinTheRepositoryLeadsSomewhere(t *testing.T) {
	for _, document := range documents {
		for _, m := range regexp.MustCompile(`\]\(([^)#]+)`).FindAllStringSubmatch(read(t, document), -1) {
			if strings.HasPrefix(m[1], "http") {
				continue
			}
			if _, err := os.Stat(filepath.Join(filepath.Dir(document), m[1])); err != nil {
				t.Errorf("%s links to %s: %v", document, m[1], err)
			}
		}
	}
}
