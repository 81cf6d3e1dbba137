package decide

import (
	"time"

	"github.com/breakwater-go/breakwater/breaker"
)

// View is what the desk shows of itself.
type View struct {
	Guard   bool
	Spent   int
	Breaker *BreakerView // nil with a breaker for each partition
	Parts   []PartView
}

// BreakerView is one breaker. Its RetryAt is when the next call can come, which a single witness's own wait may put behind the gate.
type BreakerView struct {
	State   string
	Episode string
	Opened  time.Time
	RetryAt time.Time
}

// PartView is one partition.
type PartView struct {
	Part     *Part
	Breaker  *BreakerView
	Refused  error
	Letters  int
	DLQError error
	Held     []HeldView
}

// HeldView is one record that failed and waits.
type HeldView struct {
	Offset      int64
	Attempts    int
	WaitsFor    string
	RetryAt     time.Time
	Error       string
	FirstFailed time.Time
}

// View takes the picture.
func (d *Desk) View() View {
	v := View{Guard: d.guard, Spent: d.spent}
	if d.shared != nil {
		v.Breaker = d.shared.view()
	}
	for _, p := range d.parts {
		pv := PartView{Part: p, Refused: p.refused, Letters: len(p.letters)}
		if p.scope != d.shared {
			pv.Breaker = p.scope.view()
		}
		for _, l := range p.letters {
			if l.Err != nil {
				pv.DLQError = l.Err
				pv.Held = append(pv.Held, HeldView{Offset: l.Record.Offset, Attempts: l.Attempts, WaitsFor: "dlq",
					RetryAt: l.retryAt, Error: l.Err.Error(), FirstFailed: l.FirstFailed})
			}
		}
		if s := &p.story; p.held() {
			pv.Held = append(pv.Held, HeldView{Offset: p.head.Offset, Attempts: s.attempts, WaitsFor: s.waitsFor.String(),
				RetryAt: s.retryAt, Error: s.lastError, FirstFailed: s.firstFailed})
		}
		v.Parts = append(v.Parts, pv)
	}
	return v
}

func (s *Scope) view() *BreakerView {
	v := &BreakerView{State: s.Breaker.State().String(), Episode: s.Breaker.Episode()}
	if s.Breaker.State() != breaker.Closed {
		v.Opened, v.RetryAt = s.Breaker.Opened(), s.next
	}
	return v
}

func (w waiting) String() string { return [...]string{"retry", "person", "budget"}[w] }
