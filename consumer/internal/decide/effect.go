package decide

import (
	"github.com/breakwater-go/breakwater/attempts"
	"github.com/breakwater-go/breakwater/observe"
)

// Effect is one thing that the loop has to do. Which fields say something stands beside each Verb.
type Effect struct {
	Do     Verb
	Part   *Part
	Record attempts.Record
	Entry  attempts.Entry
	Letter *Letter
	Below  int64
	Event  observe.Event
}

// Verb is what to do.
type Verb int

const (
	Wake   Verb = iota // Part: its lane looks at its phase again
	Save               // Part, Record, Entry: write to the attempt store, then tell Saved
	Unnote             // Part, Record, Entry: take a note back; Entry, where it counts anything, is what was known before
	Forget             // Part, Below: drop the fields of committed offsets
	Send               // Part, Letter: write the dead letter, then tell LetterWritten or LetterFailed
	Commit             // Part: store and commit at once
	Tell               // Event: to the observers
)
