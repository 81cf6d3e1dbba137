package strategy_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fsnotify/fsnotify"
	"go.uber.org/goleak"

	"github.com/breakwater-go/breakwater/strategy"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// place is a directory with a strategy file in it, and ways to change the file.
type place struct {
	t   *testing.T
	dir string
}

func newPlace(t *testing.T, json string) place {
	p := place{t, t.TempDir()}
	p.write(p.file(), json)
	return p
}

func (p place) file() string            { return p.path("strategy.json") }
func (p place) path(name string) string { return filepath.Join(p.dir, name) }

func (p place) do(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

func (p place) write(path, json string) {
	p.t.Helper()
	p.do(os.WriteFile(path, []byte(json), 0o600))
}

// link makes name a symlink to target, in one step where it is one already, as Kubernetes does.
func (p place) link(target, name string) {
	p.t.Helper()
	p.do(os.Symlink(target, p.path("link_tmp")))
	p.do(os.Rename(p.path("link_tmp"), p.path(name)))
}

// mount makes ..data a symlink to a new directory with the file in it.
func (p place) mount(json string) {
	p.t.Helper()
	dir, err := os.MkdirTemp(p.dir, "..2026_")
	p.do(err)
	p.write(filepath.Join(dir, "strategy.json"), json)
	p.link(filepath.Base(dir), "..data")
}

// edits are the ways in which files change in practice. begin lays the file out, edit changes it.
var edits = []struct {
	name        string
	begin, edit func(place, string)
	pollOnly    bool // what changes is in a directory of which the watcher is not notified
}{
	{
		name: "written in place",
		edit: func(p place, json string) { p.write(p.file(), json) },
	},
	{
		name: "renamed over, as most editors do",
		edit: func(p place, json string) {
			p.write(p.path(".strategy.json.tmp"), json)
			p.do(os.Rename(p.path(".strategy.json.tmp"), p.file()))
		},
	},
	{
		name: "moved to a backup and written anew, as vim does",
		edit: func(p place, json string) {
			p.do(os.Rename(p.file(), p.path("strategy.json~")))
			p.write(p.file(), json)
			p.do(os.Remove(p.path("strategy.json~")))
		},
	},
	{
		name: "removed and created",
		edit: func(p place, json string) {
			p.do(os.Remove(p.file()))
			p.write(p.file(), json)
		},
	},
	{
		name: "swapped through ..data, as Kubernetes does with a ConfigMap",
		begin: func(p place, json string) {
			p.mount(json)
			p.link("..data/strategy.json", "strategy.json")
		},
		edit: func(p place, json string) {
			old, err := os.Readlink(p.path("..data"))
			p.do(err)
			p.mount(json)
			p.do(os.RemoveAll(p.path(old)))
		},
	},
	{
		name: "a symlink into another directory, whose file is written",
		begin: func(p place, json string) {
			p.do(os.Mkdir(p.path("elsewhere"), 0o700))
			p.write(p.path("elsewhere/real.json"), json)
			p.link("elsewhere/real.json", "strategy.json")
		},
		edit:     func(p place, json string) { p.write(p.path("elsewhere/real.json"), json) },
		pollOnly: true,
	},
	{
		name: "its whole directory replaced",
		begin: func(p place, json string) {
			p.do(os.Mkdir(p.path("a"), 0o700))
			p.write(p.path("a/strategy.json"), json)
			p.link("a/strategy.json", "strategy.json")
		},
		edit: func(p place, json string) {
			p.do(os.Rename(p.path("a"), p.path("b")))
			p.do(os.Mkdir(p.path("a"), 0o700))
			p.write(p.path("a/strategy.json"), json)
		},
		pollOnly: true,
	},
}

// TestEditIsTakenUpWithinTwoSeconds has the poll alone, in virtual time: what no notification can be relied on for.
func TestEditIsTakenUpWithinTwoSeconds(t *testing.T) {
	for _, e := range edits {
		t.Run(e.name, func(t *testing.T) {
			p := newPlace(t, `[1]`)
			if e.begin != nil {
				e.begin(p, `[1]`)
			}
			synctest.Test(t, func(t *testing.T) {
				w, reloads := watchByPoll(t, p)
				// The edit may come at any point between two polls.
				time.Sleep(5*time.Second + 10*time.Millisecond)
				e.edit(p, `[2]`)
				time.Sleep(2 * time.Second)
				synctest.Wait()

				r := only(t, reloads)
				if r.Err != nil || r.New != w.Current() || r.Path != p.file() {
					t.Errorf("got %+v", r)
				}
				if got := w.Current().String(); got != "calls at 0s, 2s, then the DLQ (2 calls)" {
					t.Errorf("in force: %s", got)
				}
				if got := r.Old.String(); got != "calls at 0s, 1s, then the DLQ (2 calls)" {
					t.Errorf("before: %s", got)
				}
			})
		})
	}
}

// TestNotificationsAreEnough has the notifications alone, with real time and a poll that does not come.
func TestNotificationsAreEnough(t *testing.T) {
	for _, e := range edits {
		if e.pollOnly {
			continue
		}
		t.Run(e.name, func(t *testing.T) {
			p := newPlace(t, `[1]`)
			if e.begin != nil {
				e.begin(p, `[1]`)
			}
			w, reloads := watchByNotifications(t, p)
			for _, json := range []string{`[2]`, `[3]`, `[4]`} { // each edit may take away the file that was there
				e.edit(p, json)
				select {
				case r := <-reloads:
					if want := strategy.MustParse(json).String(); r.Err != nil || r.New != w.Current() || r.New.String() != want {
						t.Errorf("got %+v, want %s", r, want)
					}
				case <-time.After(20 * time.Second):
					t.Fatal("not taken up")
				}
			}
		})
	}
}

func TestBusyDirectoryDoesNotDelayAnEdit(t *testing.T) {
	p := newPlace(t, `[1]`)
	synctest.Test(t, func(t *testing.T) {
		events := make(chan fsnotify.Event)
		w, err := strategy.WatchByPoll(t.Context(), p.file(), events)
		if err != nil {
			t.Fatal(err)
		}
		p.write(p.file(), `[2]`)
		for range 200 {
			time.Sleep(10 * time.Millisecond)
			events <- fsnotify.Event{Name: "another.log", Op: fsnotify.Write}
		}
		if got := w.Current().String(); !strings.HasPrefix(got, "calls at 0s, 2s") {
			t.Errorf("in force: %s", got)
		}
		_ = w.Close()
	})
}

// follow tells of w's reloads, and closes it at the end of the test.
func follow(t *testing.T, w *strategy.Watcher, err error) (*strategy.Watcher, <-chan strategy.Reload) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Close() })
	reloads := make(chan strategy.Reload, 100)
	w.OnReload(func(r strategy.Reload) { reloads <- r })
	return w, reloads
}

func watchByPoll(t *testing.T, p place) (*strategy.Watcher, <-chan strategy.Reload) {
	t.Helper()
	w, err := strategy.WatchByPoll(t.Context(), p.file(), nil)
	return follow(t, w, err)
}

func watchByNotifications(t *testing.T, p place) (*strategy.Watcher, <-chan strategy.Reload) {
	t.Helper()
	w, err := strategy.WatchByNotifications(t.Context(), p.file())
	return follow(t, w, err)
}

// only is the one reload that there was.
func only(t *testing.T, reloads <-chan strategy.Reload) strategy.Reload {
	t.Helper()
	if len(reloads) != 1 {
		t.Fatalf("%d reloads, want one", len(reloads))
	}
	return <-reloads
}

// inVirtualTime gives the test a file with [1] in it and a watcher on it. wait lets virtual time pass.
func inVirtualTime(t *testing.T, f func(t *testing.T, p place, w *strategy.Watcher, reloads <-chan strategy.Reload, wait func(time.Duration))) {
	t.Helper()
	p := newPlace(t, `[1]`)
	synctest.Test(t, func(t *testing.T) {
		w, reloads := watchByPoll(t, p)
		f(t, p, w, reloads, func(d time.Duration) {
			time.Sleep(d)
			synctest.Wait()
		})
	})
}

func TestBrokenEditKeepsTheOldOneAndIsReportedOnce(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, p place, w *strategy.Watcher, reloads <-chan strategy.Reload, wait func(time.Duration)) {
		old := w.Current()
		p.write(p.file(), "[1,\n-4]")
		wait(time.Minute)

		r := only(t, reloads)
		var parse *strategy.ParseError
		if !errors.As(r.Err, &parse) || parse.Mistakes[0].Line != 2 || r.Old != old || r.New != old {
			t.Errorf("got %+v", r)
		}
		if w.Current() != old {
			t.Errorf("in force: %v", w.Current())
		}

		p.write(p.file(), `[1, 4]`)
		wait(2 * time.Second)
		if r := only(t, reloads); r.Err != nil || r.Old != old || r.New != w.Current() || w.Current().Intervals() != 2 {
			t.Errorf("after it was mended: %+v", r)
		}
	})
}

func TestFileThatIsGoneKeepsTheOldOneUntilItIsBack(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, p place, w *strategy.Watcher, reloads <-chan strategy.Reload, wait func(time.Duration)) {
		old := w.Current()
		p.do(os.Remove(p.file()))
		wait(time.Minute)
		if r := only(t, reloads); !errors.Is(r.Err, fs.ErrNotExist) || w.Current() != old {
			t.Errorf("got %+v", r)
		}
		p.write(p.file(), `[1]`)
		wait(2 * time.Second)
		if r := only(t, reloads); r.Err != nil {
			t.Errorf("after it came back: %+v", r)
		}
	})
}

func TestFileThatIsBeingWrittenIsNotJudged(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, p place, w *strategy.Watcher, reloads <-chan strategy.Reload, wait func(time.Duration)) {
		const whole = `[2, 4, 8, 16, 32, 64]`
		wait(1050 * time.Millisecond)   // between a poll and the look that it asked for
		for i := range len(whole) + 1 { // over the next poll
			p.write(p.file(), whole[:i])
			wait(90 * time.Millisecond)
		}
		wait(2 * time.Second)
		if r := only(t, reloads); r.Err != nil || w.Current().Intervals() != 6 {
			t.Errorf("got %+v", r)
		}
	})
}

func TestLookIsForgottenWhenTheFileIsAsBefore(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, p place, w *strategy.Watcher, reloads <-chan strategy.Reload, wait func(time.Duration)) {
		for _, json := range []string{`[1]`, `[2]`} { // emptied for a moment, and a second time
			wait(1050 * time.Millisecond)
			p.write(p.file(), ``)
			wait(60 * time.Millisecond)
			p.write(p.file(), json)
			wait(890 * time.Millisecond)
		}
		if r := only(t, reloads); r.Err != nil || !strings.HasPrefix(w.Current().String(), "calls at 0s, 2s") {
			t.Errorf("got %+v", r)
		}
	})
}

func TestNothingIsToldWhereNothingChanged(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, p place, w *strategy.Watcher, reloads <-chan strategy.Reload, wait func(time.Duration)) {
		old := w.Current()
		for range 10 {
			p.write(p.file(), `[1]`)
			p.write(p.path("another.json"), `[2]`)
			wait(time.Second)
		}
		if len(reloads) != 0 || w.Current() != old {
			t.Errorf("%d reloads", len(reloads))
		}
	})
}

func TestBreakerSettingsNeedARestart(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, p place, _ *strategy.Watcher, reloads <-chan strategy.Reload, wait func(time.Duration)) {
		for _, c := range []struct {
			json string
			want []string
		}{
			{`[2]`, nil},
			{`{"intervals": [1], "breaker": {"consecutiveFailures": 3}}`, []string{"breaker.consecutiveFailures"}},
			// Against what was read at the start, not against the last edit.
			{`{"intervals": [2], "breaker": {"consecutiveFailures": 3}}`, []string{"breaker.consecutiveFailures"}},
			{`{"intervals": [2], "breaker": {"scope": "partition"}}`, []string{"breaker.scope"}},
			{
				`{"intervals": [1], "breaker": {"failureRatio": 0.5, "minimumCalls": 20, "window": "1m"}}`,
				[]string{"breaker.consecutiveFailures", "breaker.failureRatio", "breaker.minimumCalls", "breaker.window"},
			},
			{`{"intervals": [1], "breaker": {"consecutiveFailures": 1}}`, nil},
		} {
			p.write(p.file(), c.json)
			wait(2 * time.Second)
			if r := only(t, reloads); r.Err != nil || !slices.Equal(r.NeedsRestart, c.want) {
				t.Errorf("%s: %v, error %v; want %v", c.json, r.NeedsRestart, r.Err, c.want)
			}
		}
	})
}

func TestStopEndsTheTelling(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, p place, w *strategy.Watcher, reloads <-chan strategy.Reload, wait func(time.Duration)) {
		told := 0
		stop := w.OnReload(func(strategy.Reload) { told++ })
		p.write(p.file(), `[2]`)
		wait(2 * time.Second)
		stop()
		stop()
		p.write(p.file(), `[3]`)
		wait(2 * time.Second)
		if told != 1 || len(reloads) != 2 {
			t.Errorf("told %d times, the other %d times; want 1 and 2", told, len(reloads))
		}
	})
}

func TestWatchingEndsWithItsContext(t *testing.T) {
	p := newPlace(t, `[1]`)
	synctest.Test(t, func(t *testing.T) { // fails where a goroutine is left
		ctx, cancel := context.WithCancel(t.Context())
		w, err := strategy.WatchByPoll(ctx, p.file(), nil)
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		synctest.Wait()
		p.write(p.file(), `[2]`)
		time.Sleep(time.Minute)
		if got := w.Current().String(); !strings.HasPrefix(got, "calls at 0s, 1s") {
			t.Errorf("in force: %s", got)
		}
	})
}

func TestCloseEndsTheWatching(t *testing.T) {
	p := newPlace(t, `[1]`)
	w, err := strategy.Watch(t.Context(), p.file())
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	}
	goleak.VerifyNone(t, goleak.IgnoreCurrent())
	if w.Current().Intervals() != 1 || w.Path() != p.file() {
		t.Errorf("after Close: %v of %s", w.Current(), w.Path())
	}
}

func TestCloseWaitsForTheTelling(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, p place, w *strategy.Watcher, _ <-chan strategy.Reload, wait func(time.Duration)) {
		told := make(chan struct{}, 1)
		w.OnReload(func(strategy.Reload) {
			time.Sleep(time.Minute)
			told <- struct{}{}
		})
		p.write(p.file(), `[2]`)
		wait(2 * time.Second)
		_ = w.Close()
		if len(told) != 1 {
			t.Error("Close came back while a listener was running")
		}
	})
}

func TestWatchFailsWhereTheFirstLoadFails(t *testing.T) {
	p := newPlace(t, `[-1]`)
	var parse *strategy.ParseError
	if w, err := strategy.Watch(t.Context(), p.file()); !errors.As(err, &parse) || w != nil {
		t.Errorf("of a broken file: %v, %v", w, err)
	}
	if w, err := strategy.Watch(t.Context(), p.path("none.json")); !errors.Is(err, fs.ErrNotExist) || w != nil {
		t.Errorf("of a missing file: %v, %v", w, err)
	}
	if w, err := strategy.Watch(t.Context(), p.path("none/none.json")); !errors.Is(err, fs.ErrNotExist) || w != nil {
		t.Errorf("of a missing directory: %v, %v", w, err)
	}
}

func TestCurrentWhileItChanges(t *testing.T) {
	p := newPlace(t, `[1]`)
	w, reloads := watchByNotifications(t, p)
	end := make(chan struct{})
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for {
				select {
				case <-end:
					return
				default:
					if wait, ok := w.Current().Wait(1); !ok || wait < time.Second {
						t.Errorf("waits %v, %v", wait, ok)
					}
				}
			}
		})
	}
	for _, json := range []string{`[2]`, `[3]`, `[4]`} {
		p.write(p.file(), json)
		<-reloads
	}
	close(end)
	readers.Wait()
}
