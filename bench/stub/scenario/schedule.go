package scenario

// The schedule decides which phase it is. It takes a time since the start and answers with a value: no clock, no state.
// A moment includes its first instant and not its last.

import "time"

// Moment is a stretch of time in which nothing changes.
type Moment struct {
	Phase int           // its place in Phases
	Round int           // how often the scenario has started again
	Down  bool          // the phase's faults are there; false only in the good part of a phase that flaps
	Left  time.Duration // until the next moment; 0: for ever
}

// At is the moment that the schedule has reached, that long after its start.
func (s *Scenario) At(since time.Duration) Moment {
	var m Moment
	if s.Loop {
		var whole time.Duration
		for _, p := range s.Phases {
			whole += p.For
		}
		m.Round = int(since / whole)
		since %= whole
	}
	for m.Phase = range s.Phases {
		length := s.Phases[m.Phase].For
		if length == 0 || since < length {
			m.Left = max(length-since, 0)
			break
		}
		since -= length
	}
	return s.flap(m, since)
}

// Within is the moment that long after a switch to the phase by hand, in which it stays.
func (s *Scenario) Within(phase int, since time.Duration) Moment {
	return s.flap(Moment{Phase: phase}, since)
}

// flap cuts m, the rest of a phase, down to the part of its flapping that since falls into.
func (s *Scenario) flap(m Moment, since time.Duration) Moment {
	f := s.Phases[m.Phase].Flapping
	if f == (Flapping{}) {
		m.Down = true
		return m
	}
	since %= f.Down + f.Up
	left := f.Down - since
	if m.Down = left > 0; !m.Down {
		left += f.Up
	}
	if m.Left == 0 || left < m.Left {
		m.Left = left
	}
	return m
}
