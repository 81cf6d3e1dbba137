package servers

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// machine makes this test's machine one with an empty cache and no programs but those given.
func machine(t *testing.T, programs map[string]string) (cache string) {
	t.Helper()
	bin, cache := t.TempDir(), t.TempDir()
	for name, script := range programs {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", bin)
	t.Setenv("HOME", cache)
	t.Setenv("XDG_CACHE_HOME", cache)
	return cache
}

// mvn is a Maven that leaves one jar, and a line in a file for each time that it ran.
const mvn = `
PATH=/usr/bin:/bin
for a; do case $a in -DoutputDirectory=*) out=${a#*=};; esac; done
mkdir "$out" && echo jar >"$out/kafka.jar" && echo ran >>"$XDG_CACHE_HOME/runs"`

func TestKafkaIsFetchedOnceHoweverManyAskForIt(t *testing.T) {
	cache := machine(t, map[string]string{"java": "", "mvn": mvn})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			path, err := FetchKafka(t.Context())
			if err != nil {
				t.Error(err)
				return
			}
			if jars, _ := filepath.Glob(path); len(jars) != 1 {
				t.Errorf("%s holds %v, want one jar", path, jars)
			}
		})
	}
	wg.Wait()
	if runs, _ := os.ReadFile(filepath.Join(cache, "runs")); string(runs) != "ran\n" {
		t.Errorf("Maven ran: %q, want once", runs)
	}
}

func TestAnInterruptedFetchIsStartedOver(t *testing.T) {
	machine(t, map[string]string{"java": "", "mvn": mvn + "; exit 1"})
	if _, err := FetchKafka(t.Context()); !errors.Is(err, ErrUnavailable) {
		t.Fatalf("FetchKafka with a failing Maven: %v", err)
	}
	if err := os.WriteFile(filepath.Join(os.Getenv("PATH"), "mvn"), []byte("#!/bin/sh\n"+mvn), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := FetchKafka(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestWhatIsMissingIsNamed(t *testing.T) {
	for _, c := range []struct {
		programs map[string]string
		want     string
	}{
		{nil, "apt-get install openjdk"},
		{map[string]string{"java": ""}, "apt-get install maven"},
	} {
		machine(t, c.programs)
		_, err := FetchKafka(t.Context())
		if !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("with %v: %v, want %q in it", c.programs, err, c.want)
		}
	}
}
