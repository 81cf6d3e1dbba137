// Command mutate shows that the tests are worth something: it breaks the code on purpose, one fault at a time, and runs the tests that have to
// notice. It prints one line for each fault, and exits 0 only when every one was caught.
//
//	go run ./scripts/mutate              all of them
//	go run ./scripts/mutate -run probe   those whose name matches
//	go run ./scripts/mutate -list        only what they are
//
// The working tree is not touched: each fault lives in an overlay of the go command.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// patience bounds one run of one package's tests. A fault may well make them hang.
const patience = 3 * time.Minute

func main() {
	which := flag.String("run", "", "only the faults whose name matches this regular expression")
	list := flag.Bool("list", false, "list the faults")
	flag.Parse()
	if err := run(*which, *list); err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}

func run(which string, list bool) error {
	pattern, err := regexp.Compile(which)
	if err != nil {
		return fmt.Errorf("-run is no regular expression: %w", err)
	}
	var chosen []fault
	for _, f := range faults {
		if pattern.MatchString(f.name) {
			chosen = append(chosen, f)
		}
	}
	if len(chosen) == 0 {
		return errors.New("no fault has such a name; -list shows them")
	}
	if list {
		for _, f := range chosen {
			fmt.Println(f.name)
		}
		return nil
	}
	root, err := moduleRoot()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)

	if err := sound(root, chosen); err != nil {
		return err
	}
	results := make([]chan result, len(chosen))
	turns := make(chan struct{}, runtime.NumCPU())
	for i, f := range chosen {
		results[i] = make(chan result, 1)
		go func() {
			turns <- struct{}{}
			results[i] <- try(root, filepath.Join(dir, strconv.Itoa(i)), f)
			<-turns
		}()
	}
	caught := 0
	for i, f := range chosen {
		r := <-results[i]
		fmt.Printf("%-72s %v\n", f.name, r)
		if r.by != "" {
			caught++
		}
	}
	fmt.Printf("%d faults, %d caught\n", len(chosen), caught)
	if caught < len(chosen) {
		return errors.New("there are faults that no test has noticed")
	}
	return nil
}

// result is what became of one fault.
type result struct {
	by   string // the test that noticed; "": none
	says string // in its words
	err  error  // the fault could not be tried
	took time.Duration
}

func (r result) String() string {
	switch {
	case r.err != nil:
		return fmt.Sprintf("NOT TRIED: %v", r.err)
	case r.by == "":
		return fmt.Sprintf("SURVIVED (%.0fs)", r.took.Seconds())
	default:
		return fmt.Sprintf("caught by %s (%.0fs)%s", r.by, r.took.Seconds(), r.says)
	}
}

// sound runs the tests on the code as it is: where they fail without a fault, they prove nothing.
func sound(root string, chosen []fault) error {
	done := map[tests]bool{}
	for _, f := range chosen {
		for _, t := range f.tests {
			if done[t] {
				continue
			}
			done[t] = true
			if output, failed, err := goTest(root, "", t); err != nil {
				return err
			} else if failed {
				return fmt.Errorf("%s fails without any fault:\n%s", t.pkg, output)
			}
		}
	}
	return nil
}

// try runs the tests against one fault, the cheapest first.
func try(root, dir string, f fault) (r result) {
	began := time.Now()
	defer func() { r.took = time.Since(began) }()
	overlay, err := write(root, dir, f)
	if err != nil {
		return result{err: err}
	}
	for _, t := range f.tests {
		output, failed, err := goTest(root, overlay, t)
		if err != nil {
			return result{err: err}
		}
		if failed {
			name, err := culprit(output)
			if err != nil {
				return result{err: err}
			}
			return result{by: t.pkg + " " + name, says: finding.FindString(output)}
		}
	}
	return result{}
}

// finding is what the search through every schedule says of a broken law or of work that never ends.
var finding = regexp.MustCompile(`(?m) (progress|laws? [0-9, ]+|guard|budget|operator|what it costs): .*`)

// goTest runs tests; an overlay of "" is the code as it is.
func goTest(root, overlay string, t tests) (output string, failed bool, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience+time.Minute)
	defer cancel()
	args := []string{"test", "-failfast", "-vet=off", "-timeout", patience.String()}
	if overlay != "" {
		args = append(args, "-overlay", overlay)
	}
	if t.run != "" {
		args = append(args, "-run", t.run)
	}
	cmd := exec.CommandContext(ctx, "go", append(args, "./"+t.pkg)...)
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return "", false, fmt.Errorf("go test did not run: %w", err)
	}
	return string(out), err != nil, nil
}

var failure = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)`)

// running is a test that was under way when the time was up.
var running = regexp.MustCompile(`running tests:\s+(\S+)`)

// culprit names the test that noticed. A fault that does not compile was noticed by nobody: it has to be written anew.
func culprit(output string) (string, error) {
	if strings.Contains(output, "[build failed]") || strings.Contains(output, "[setup failed]") {
		return "", fmt.Errorf("the fault does not compile:\n%s", output)
	}
	// The last line that names a test inside the one that failed first says the most.
	name := ""
	for _, m := range failure.FindAllStringSubmatch(output, -1) {
		if name == "" || strings.HasPrefix(m[1], name+"/") {
			name = m[1]
		}
	}
	if m := running.FindStringSubmatch(output); name == "" && m != nil {
		name = m[1] + ", which never ended"
	}
	if name == "" {
		name = "a panic outside of any test"
	}
	return name, nil
}

// write puts the faulty files and the overlay that swaps them in into dir.
func write(root, dir string, f fault) (overlay string, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	replace := map[string]string{}
	texts := map[string]string{}
	for _, e := range f.edits {
		path := filepath.Join(root, filepath.FromSlash(e.file))
		if texts[path] == "" {
			b, err := os.ReadFile(path)
			if err != nil {
				return "", err
			}
			texts[path] = string(b)
		}
		if texts[path], err = e.apply(texts[path]); err != nil {
			return "", err
		}
	}
	for path, text := range texts {
		faulty := filepath.Join(dir, fmt.Sprintf("%d_%s", len(replace), filepath.Base(path)))
		if err := os.WriteFile(faulty, []byte(text), 0o600); err != nil {
			return "", err
		}
		replace[path] = faulty
	}
	b, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	overlay = filepath.Join(dir, "overlay.json")
	return overlay, os.WriteFile(overlay, b, 0o600)
}

// apply replaces the one place that an edit means.
func (e edit) apply(text string) (string, error) {
	if n := strings.Count(text, e.old); n != 1 {
		return "", fmt.Errorf("%s has %d places, not one, that read\n%s", e.file, n, e.old)
	}
	return strings.Replace(text, e.old, e.new, 1), nil
}

// moduleRoot is where go.mod is, from here upwards.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", errors.New("there is no go.mod here or above; run it inside the repository")
		}
		dir = up
	}
}
