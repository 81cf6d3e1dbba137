package main

import (
	"os"
	"path/filepath"
	"testing"
)

// The faults are exact places in the code, so they have to follow it.
func TestEachFaultFitsTheCode(t *testing.T) {
	if len(faults) < 25 {
		t.Errorf("only %d faults", len(faults))
	}
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			if names[f.name] || len(f.edits) == 0 || len(f.tests) == 0 {
				t.Error("it has no name of its own, no edit or no test")
			}
			names[f.name] = true
			if _, err := write(root, t.TempDir(), f); err != nil {
				t.Error(err)
			}
			for _, x := range f.tests {
				if _, err := os.Stat(filepath.Join(root, x.pkg)); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

func TestCulprit(t *testing.T) {
	for output, want := range map[string]string{
		"--- FAIL: TestA (0.1s)\n    --- FAIL: TestA/b (0.1s)\n--- FAIL: TestC (0s)": "TestA/b",
		"    --- FAIL: TestA/b (0.1s)\n--- FAIL: TestA (0.1s)":                       "TestA/b",
		"panic: test timed out after 3m0s\n\trunning tests:\n\t\tTestA (3m0s)\n":     "TestA, which never ended",
		"panic: out of luck": "a panic outside of any test",
	} {
		if got, err := culprit(output); got != want || err != nil {
			t.Errorf("%q: %q, %v", output, got, err)
		}
	}
	if _, err := culprit("FAIL x [build failed]"); err == nil {
		t.Error("a fault that does not compile counts as caught")
	}
}
