// Following the file. A poll once a second makes it certain that an edit is seen, on any file system, through any chain of
// symlinks and over any way of replacing the file; the notifications of the file's directory only make it faster. Both
// only ask for a look: what counts is the content, and it counts once two looks in a row, a tenth of a second apart, have
// found the same, so that a file that is being written is not judged half-way. Only the watcher's goroutine looks;
// Current is one atomic load.

package strategy

import (
	"context"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fsnotify/fsnotify"
)

const (
	pollEvery = time.Second            // an edit is taken up within two
	settle    = 100 * time.Millisecond // between two looks that must find the same
)

// Watcher follows a strategy file and has the strategy in force. Its methods may be called from any goroutine.
type Watcher struct {
	path    string
	first   *Strategy // what a consumer that started with the watcher has read
	current atomic.Pointer[Strategy]

	judged  content // what came of it is in force, or was reported
	pending content // seen once

	mu        sync.Mutex
	listeners []*func(Reload) // by pointer, since functions cannot be compared

	cancel context.CancelFunc
	done   chan struct{}
}

// Reload is what came of a change of the file.
type Reload struct {
	Path string
	Old  *Strategy // was in force before
	New  *Strategy // is in force now; Old, where Err is not nil
	Err  error     // why the file was not taken up: it wraps a *ParseError, or it could not be read
	// NeedsRestart names the settings, such as "breaker.scope", that are read at start only and now differ from those that
	// Watch found first.
	NeedsRestart []string
}

// content is what a look finds: data, or the problem that there was in reading it.
type content struct{ data, problem string }

// Watch loads the file and follows it until ctx ends or Close is called. It fails where the first load fails.
//
// An edit is taken up within two seconds, also where the file is replaced, as most editors do, or swapped by a symlink, as
// Kubernetes does. A broken edit, or a file that is gone, changes nothing but what OnReload is told.
func Watch(ctx context.Context, path string) (*Watcher, error) {
	return watch(ctx, path, pollEvery, notifications(path))
}

// hints say that something in the file's directory has changed.
type hints struct {
	events   <-chan fsnotify.Event
	troubles <-chan error // an overflow, say: what was lost may have been ours
	close    func() error
}

// notifications are the hints of the operating system, where it has any to give. They are of the directory, because the
// file itself may be replaced.
func notifications(path string) hints {
	none := hints{close: func() error { return nil }}
	n, err := fsnotify.NewWatcher()
	if err != nil {
		return none
	}
	if err := n.Add(filepath.Dir(path)); err != nil {
		_ = n.Close()
		return none
	}
	return hints{n.Events, n.Errors, n.Close}
}

// watch is Watch with its two ways to be told of a change given apart. It closes the hints at the end.
func watch(ctx context.Context, path string, every time.Duration, hints hints) (w *Watcher, err error) {
	defer func() {
		if err != nil {
			_ = hints.close()
		}
	}()
	data, err := read(path)
	if err != nil {
		return nil, err
	}
	s, err := Parse(path, data)
	if err != nil {
		return nil, err
	}
	now := content{data: string(data)}
	w = &Watcher{path: path, first: s, judged: now, pending: now, done: make(chan struct{})}
	w.current.Store(s)
	ctx, w.cancel = context.WithCancel(ctx)
	go w.run(ctx, every, hints)
	return w, nil
}

// Current is the strategy in force. It takes no lock.
func (w *Watcher) Current() *Strategy { return w.current.Load() }

// Path is the path of the file, as Watch got it.
func (w *Watcher) Path() string { return w.path }

// OnReload has f told of every change of the file from now on: taken up, refused, or put right again. f is called from the
// watcher's goroutine, so it must not call Close, and while it runs no further change is seen. stop ends that; a call that
// is under way goes on.
func (w *Watcher) OnReload(f func(Reload)) (stop func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	listener := &f
	w.listeners = append(w.listeners, listener)
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.listeners = slices.DeleteFunc(w.listeners, func(l *func(Reload)) bool { return l == listener })
	}
}

// Close ends the watching and waits until it has ended. The strategy in force stays. It may be called again; the error is
// always nil.
func (w *Watcher) Close() error {
	w.cancel()
	<-w.done
	return nil
}

func (w *Watcher) run(ctx context.Context, every time.Duration, hints hints) {
	defer close(w.done)
	defer func() { _ = hints.close() }()
	poll := time.NewTicker(every)
	defer poll.Stop()
	var soon <-chan time.Time // the next look; nil: nobody has asked for one
	for {
		select {
		case <-ctx.Done():
			return
		case <-hints.events:
		case <-hints.troubles:
		case <-poll.C:
		case <-soon:
			soon = nil
			if w.look() {
				continue
			}
		}
		if soon == nil {
			soon = time.After(settle)
		}
	}
}

// look reads the file. false: it has changed, and is to be looked at again before it is judged.
func (w *Watcher) look() (settled bool) {
	data, err := read(w.path)
	now := content{data: string(data)}
	if err != nil {
		now.problem = err.Error()
	}
	switch now {
	case w.judged:
		w.pending = now
		return true
	case w.pending:
		w.judged = now
		w.tell(w.judge(data, err))
		return true
	}
	w.pending = now
	return false
}

// judge puts what was read in force, or says why not.
func (w *Watcher) judge(data []byte, err error) Reload {
	old := w.Current()
	if err != nil {
		return Reload{Path: w.path, Old: old, New: old, Err: err}
	}
	s, err := Parse(w.path, data)
	if err != nil {
		return Reload{Path: w.path, Old: old, New: old, Err: err}
	}
	w.current.Store(s)
	return Reload{Path: w.path, Old: old, New: s, NeedsRestart: needsRestart(w.first.Breaker(), s.Breaker())}
}

func (w *Watcher) tell(r Reload) {
	w.mu.Lock()
	listeners := slices.Clone(w.listeners)
	w.mu.Unlock()
	for _, f := range listeners {
		(*f)(r)
	}
}

func needsRestart(started, now Breaker) (settings []string) {
	for _, s := range []struct {
		name    string
		differs bool
	}{
		{"breaker.consecutiveFailures", started.ConsecutiveFailures != now.ConsecutiveFailures},
		{"breaker.failureRatio", started.FailureRatio != now.FailureRatio},
		{"breaker.minimumCalls", started.MinimumCalls != now.MinimumCalls},
		{"breaker.window", started.Window != now.Window},
		{"breaker.scope", started.Scope != now.Scope},
	} {
		if s.differs {
			settings = append(settings, s.name)
		}
	}
	return settings
}
