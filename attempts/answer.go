package attempts

// What the scripts answer, read with distrust: whoever is behind the client may be no Redis, or have other scripts. An answer
// that makes no sense is a store that is away, never an entry.

import (
	"fmt"
	"slices"
)

// errNonsense is an answer that no script of ours gives.
var errNonsense = fmt.Errorf("%w: it answers what a Redis would not; see what the client is connected to", ErrAway)

// readClaim reads what claimScript answered. strange are the fields that nobody here wrote, or that hold what nobody here
// wrote.
func readClaim(val any) (loaded Loaded, strange []string, ok bool) {
	answer, ok := val.([]any)
	if !ok || len(answer) != 3 {
		return loaded, nil, false
	}
	now, isClock := clock(answer[0])
	foreign, isFlag := answer[1].(int64)
	fields, isHash := answer[2].([]any)
	if !isClock || !isFlag || !isHash || len(fields)%2 != 0 {
		return loaded, nil, false
	}
	loaded = Loaded{Entries: make(map[Record]Entry, len(fields)/2), ForeignMark: foreign == 1}
	for pair := range slices.Chunk(fields, 2) {
		field, isName := pair[0].(string)
		text, isText := pair[1].(string)
		if !isName || !isText {
			return loaded, nil, false
		}
		if field == "owner" || field == "guard" {
			continue
		}
		offset, isOffset := decodeOffset(field)
		record, entry, isEntry := decode(offset, text, now)
		if !isOffset || !isEntry {
			strange = append(strange, field)
			continue
		}
		loaded.Entries[record] = entry
	}
	return loaded, strange, true
}

// readSave reads what saveScript answered: the entry of r that stands.
func readSave(r Record, val any) (Entry, bool) {
	answer, ok := val.([]any)
	if !ok || len(answer) != 2 {
		return Entry{}, false
	}
	now, isClock := clock(answer[0])
	text, isText := answer[1].(string)
	record, stands, isEntry := decode(r.Offset, text, now)
	return stands, isClock && isText && isEntry && record == NewRecord(r.Offset, r.Timestamp)
}

// clock reads the store's clock, in milliseconds.
func clock(val any) (now int64, ok bool) {
	now, ok = val.(int64)
	return now, ok && 0 <= now && now <= lastInstant
}
