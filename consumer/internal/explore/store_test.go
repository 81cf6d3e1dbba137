package explore

import (
	"time"

	"github.com/breakwater-go/breakwater/attempts"
	"github.com/breakwater-go/breakwater/consumer/internal/decide"
)

// The attempt store of a world, on the world's clock: what package attempts says of a Store, in as few lines as that takes.

// answerStore does the next thing that the store was asked for a partition; with an error it does not.
func (w *world) answerStore(l *lane, err error) {
	o := l.ops[0]
	l.ops = l.ops[1:]
	switch o.do {
	case decide.Save:
		answer := o.entry
		if err == nil {
			answer = w.save(l, o.record.Offset, o.entry)
			if answer.Attempts > o.entry.Attempts {
				w.laws.learns(int(o.part.ID.Partition), o.part, o.record.Offset, answer)
			}
		}
		w.desk.Saved(w.now, o.part, o.record, answer, err)
	case decide.Unnote:
		if e := l.entries[o.record.Offset]; e != nil && e.noted {
			delete(l.entries, o.record.Offset)
			if e.before != nil {
				l.entries[o.record.Offset] = e.before
			}
		}
		if o.entry.Attempts > 0 {
			w.save(l, o.record.Offset, o.entry)
		}
		w.desk.Unnoted(w.now, o.part, o.record)
		w.desk.Unnoted(w.now, o.part, o.record)
	case decide.Forget:
		l.guard = false
		for offset := range l.entries {
			if offset < o.below {
				delete(l.entries, offset)
			}
		}
	}
}

// save writes an entry over what is there: more attempts before fewer, then a verdict before a note, then one that is due for the DLQ.
func (w *world) save(l *lane, offset int64, s attempts.Entry) attempts.Entry {
	own := &entry{attempts: s.Attempts, deaths: s.Deaths, noted: s.Noted, verdict: s.Verdict, until: w.now.Add(s.Wait)}
	old := l.entries[offset]
	switch {
	case old == nil, own.attempts > old.attempts:
		if own.noted && old != nil {
			own.before = &entry{attempts: old.attempts, deaths: old.deaths, noted: old.noted, verdict: old.verdict, until: old.until}
		}
	case own.attempts == old.attempts && old.noted && !own.noted, own.attempts == old.attempts && old.noted == own.noted && old.verdict == "" && own.verdict != "":
		if old.noted == own.noted && old.until.After(own.until) {
			own.until = old.until
		}
	default:
		own = old
	}
	l.entries[offset] = own
	return w.shown(own)
}

func (w *world) shown(e *entry) attempts.Entry {
	return attempts.Entry{Attempts: e.attempts, Deaths: e.deaths, Noted: e.noted, Verdict: e.verdict, Wait: max(0, e.until.Sub(w.now))}
}

// answerClaims tells the desk what the store knows of the partitions that are new, or that it could not tell of before.
func (w *world) answerClaims(err error) {
	for q, l := range w.lanes {
		if !l.claiming && !l.again {
			continue
		}
		l.again = err != nil
		l.claiming = false
		loaded := attempts.Loaded{Entries: map[attempts.Record]attempts.Entry{}}
		if err == nil {
			l.guard = l.guard || l.mark == foreign
			l.mark = ours
			loaded.ForeignMark = l.guard
			for offset, e := range l.entries {
				loaded.Entries[attempts.NewRecord(offset, time.UnixMilli(offset))] = w.shown(e)
			}
		}
		w.laws.claimed(q, loaded)
		w.desk.Claimed(w.now, l.part, &loaded)
	}
}
