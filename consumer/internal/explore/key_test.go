package explore

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"
	"unsafe"

	"github.com/breakwater-go/breakwater/breaker"
	"github.com/breakwater-go/breakwater/consumer/internal/decide"
)

// Two worlds with the same key behave alike from here on. The key goes by the types too, so a field that is added to a decider is part of it;
// only what is named here is left out or taken for what it means: an instant by its distance from now, the past as past; a counter by
// its rank; a stamp by whether anything has happened since; attempts beyond the strategy's end as one.

type key [16]byte

// irrelevant fields hold texts, what people are shown, or what follows from the rest.
var irrelevant = map[string]bool{
	"decide.Desk.scoped": true, "decide.Desk.counter": true, "decide.Desk.out": true, "decide.Desk.crashLimit": true, "decide.Desk.pending": true,
	"decide.Scope.next": true, "decide.Scope.since": true,
	"decide.Part.Owner": true, "decide.Part.ID": true,
	"decide.Part.head": true, "decide.Part.call": true, // see writePart
	"decide.Call.Number": true, "decide.Call.Began": true,
	"decide.story.firstFailed": true, "decide.story.failedAt": true, "decide.story.firstError": true, "decide.story.lastError": true,
	"decide.story.class": true, "decide.story.stack": true, "decide.story.episode": true,
	"decide.Letter.Reason": true, "decide.Letter.Class": true, "decide.Letter.LastError": true, "decide.Letter.FirstError": true,
	"decide.Letter.Stack": true, "decide.Letter.FirstFailed": true, "decide.Letter.FailedAt": true, "decide.Letter.Episode": true, "decide.Letter.Err": true,
	"decide.Record.Timestamp": true, "decide.Record.Message": true,
	"attempts.Entry.FirstFailed": true, "attempts.Entry.FirstError": true, "attempts.Entry.LastError": true, "attempts.Entry.Class": true,
	"attempts.Entry.Stack":  true,
	"breaker.Breaker.ratio": true, "breaker.Breaker.episode": true, "breaker.Breaker.opened": true, "breaker.Breaker.shut": true, "breaker.Breaker.stamp": true,
	"explore.lane.w": true, "explore.world.now": true, "explore.world.plan": true, "explore.world.broken": true,
}

// counted fields are attempts, which matter up to one beyond the strategy's end; ranked ones are compared with each other and nothing else.
var (
	counted = map[string]bool{"decide.story.attempts": true, "decide.Letter.Attempts": true, "decide.Call.Attempt": true, "attempts.Entry.Attempts": true,
		"attempts.Entry.Deaths": true, "decide.story.deaths": true, "explore.record.attempts": true, "explore.entry.attempts": true, "explore.entry.deaths": true,
		"decide.Letter.failures": true, "decide.Desk.spent": true, "explore.laws.spent": true}
	ranked = map[string]bool{"decide.Part.turn": true, "decide.story.called": true}
)

func (w *world) key() key {
	k := keyer{world: w, out: make([]byte, 0, 1024), seen: make([]unsafe.Pointer, 0, 32), counters: make([]uint64, 0, 16)}
	writeWorld()(&k, unsafe.Pointer(w))
	// Counters come last, by rank. Nothing, for one that was never set, is among them whether or not one is at nothing now.
	ranks := append(slices.Clone(k.counters), 0)
	slices.Sort(ranks)
	ranks = slices.Compact(ranks)
	for _, n := range k.counters {
		i, _ := slices.BinarySearch(ranks, n)
		k.int(int64(i))
	}
	sum := sha256.Sum256(k.out)
	return key(sum[:16])
}

var writeWorld = sync.OnceValue(func() writer { return writerOf(reflect.TypeFor[world](), "") })

type keyer struct {
	world    *world
	out      []byte
	seen     []unsafe.Pointer
	counters []uint64
}

// first reports whether a pointer has not been followed yet, and writes which one it is.
func (k *keyer) first(p unsafe.Pointer) bool {
	i := slices.Index(k.seen, p)
	if i >= 0 {
		k.byte(byte('A' + i))
		return false
	}
	k.byte(byte('A' + len(k.seen)))
	k.seen = append(k.seen, p)
	return true
}

func (k *keyer) byte(b byte) { k.out = append(k.out, b) }
func (k *keyer) int(i int64) { k.out = binary.AppendVarint(k.out, i) }
func (k *keyer) bool(b bool) {
	if b {
		k.byte('t')
	} else {
		k.byte('f')
	}
}

func (k *keyer) time(t time.Time) {
	switch {
	case t.IsZero():
		k.byte('z')
	case !t.After(k.world.now):
		k.byte('p')
	default:
		k.byte('d')
		k.int(int64(t.Sub(k.world.now)))
	}
}

type writer func(k *keyer, at unsafe.Pointer)

var writers sync.Map // string to writer

func writerOf(t reflect.Type, field string) writer {
	id := field
	if !counted[field] && !ranked[field] && field != "decide.Letter.sentAt" {
		id = t.String() + "@" + t.PkgPath()
	}
	if w, ok := writers.Load(id); ok {
		return w.(writer)
	}
	w := makeWriter(t, field)
	writers.Store(id, w)
	return w
}

func makeWriter(t reflect.Type, field string) writer {
	switch {
	case counted[field]:
		return func(k *keyer, at unsafe.Pointer) {
			k.int(min(reflect.NewAt(t, at).Elem().Int(), int64(k.world.plan.beyond())))
		}
	case ranked[field]:
		return func(k *keyer, at unsafe.Pointer) { k.counters = append(k.counters, *(*uint64)(at)) }
	case field == "decide.Letter.sentAt":
		return func(k *keyer, at unsafe.Pointer) { k.time((*(*time.Time)(at)).Add(time.Second)) } // then it has waited long enough
	case t == timeType:
		return func(k *keyer, at unsafe.Pointer) { k.time(*(*time.Time)(at)) }
	case t == reflect.TypeFor[breaker.Stamp]():
		panic("a stamp says something only beside its breaker")
	case t == engineType:
		return writeEngine
	case t == reflect.TypeFor[decide.Part]():
		return writePart(t)
	case t == reflect.TypeFor[call]():
		return func(k *keyer, at unsafe.Pointer) { writeCall(k, (*call)(at)) }
	case t == reflect.TypeFor[plan]():
		return func(*keyer, unsafe.Pointer) {}
	}
	switch t.Kind() {
	case reflect.Bool:
		return func(k *keyer, at unsafe.Pointer) { k.bool(*(*bool)(at)) }
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return func(k *keyer, at unsafe.Pointer) { k.int(reflect.NewAt(t, at).Elem().Int()) }
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return func(k *keyer, at unsafe.Pointer) { k.int(int64(reflect.NewAt(t, at).Elem().Uint())) }
	case reflect.String:
		return func(k *keyer, at unsafe.Pointer) {
			s := *(*string)(at)
			k.int(int64(len(s)))
			k.out = append(k.out, s...)
		}
	case reflect.Pointer:
		e := t.Elem()
		writeElem := sync.OnceValue(func() writer { return writerOf(e, "") }) // when it is asked for: types refer to themselves
		return func(k *keyer, at unsafe.Pointer) {
			p := *(*unsafe.Pointer)(at)
			if p == nil || !copied[e.PkgPath()] {
				k.bool(p == nil)
				return
			}
			if k.first(p) {
				writeElem()(k, p)
			}
		}
	case reflect.Struct:
		return writeFields(t)
	case reflect.Slice:
		w, size := writerOf(t.Elem(), ""), t.Elem().Size()
		return func(k *keyer, at unsafe.Pointer) {
			s := reflect.NewAt(t, at).Elem()
			k.int(int64(s.Len()))
			for i := range s.Len() {
				w(k, unsafe.Add(s.UnsafePointer(), uintptr(i)*size))
			}
		}
	case reflect.Array:
		w, size := writerOf(t.Elem(), ""), t.Elem().Size()
		return func(k *keyer, at unsafe.Pointer) {
			for i := range t.Len() {
				w(k, unsafe.Add(at, uintptr(i)*size))
			}
		}
	case reflect.Map:
		return writeMap(t)
	case reflect.Interface:
		return func(k *keyer, at unsafe.Pointer) {
			i := reflect.NewAt(t, at).Elem()
			if i.IsNil() || i.Elem().Kind() != reflect.Pointer || !copied[i.Elem().Type().Elem().PkgPath()] {
				k.bool(i.IsNil())
				return
			}
			v := reflect.New(i.Elem().Type())
			v.Elem().Set(i.Elem())
			writerOf(i.Elem().Type(), "")(k, v.UnsafePointer())
		}
	}
	panic(fmt.Sprintf("the key has no rule for %v", t))
}

func writeFields(t reflect.Type) writer {
	type entry struct {
		at uintptr
		w  writer
	}
	var fields []entry
	for i := range t.NumField() {
		f := t.Field(i)
		name := t.String() + "." + f.Name
		if !irrelevant[name] && f.Name != "_" {
			fields = append(fields, entry{f.Offset, writerOf(f.Type, name)})
		}
	}
	return func(k *keyer, at unsafe.Pointer) {
		for _, f := range fields {
			f.w(k, unsafe.Add(at, f.at))
		}
	}
}

// writeMap writes a map in the order of its keys, which hold no pointers.
func writeMap(t reflect.Type) writer {
	return func(k *keyer, at unsafe.Pointer) {
		m := reflect.NewAt(t, at).Elem()
		k.int(int64(m.Len()))
		if m.Len() == 0 {
			return
		}
		type pair struct {
			name []byte
			v    reflect.Value
		}
		var pairs []pair
		for it := m.MapRange(); it.Next(); {
			pairs = append(pairs, pair{fmt.Append(nil, it.Key().Interface()), it.Value()})
		}
		slices.SortFunc(pairs, func(a, b pair) int { return bytes.Compare(a.name, b.name) })
		for _, p := range pairs {
			k.out = append(k.out, p.name...)
			v := reflect.New(t.Elem())
			v.Elem().Set(p.v)
			writerOf(t.Elem(), "")(k, v.UnsafePointer())
		}
	}
}

// writeEngine writes what gobreaker has counted. Open and half-open are one: the gate says when to probe.
func writeEngine(k *keyer, at unsafe.Pointer) {
	e := reflect.NewAt(engineType, at).Elem()
	k.bool(e.FieldByName("state").Int() == 0)
	k.int(int64(e.FieldByName("counts").Elem().FieldByName("ConsecutiveFailures").Uint()))
}

// writePart leaves out what means nothing in the phase that a partition is in.
func writePart(t reflect.Type) writer {
	head, _ := t.FieldByName("head")
	call, _ := t.FieldByName("call")
	writeHead := writerOf(head.Type, "")
	writeRest := writeFields(t)
	return func(k *keyer, at unsafe.Pointer) {
		p := (*decide.Part)(at)
		writeRest(k, at)
		if p.Phase() != decide.Empty {
			writeHead(k, unsafe.Add(at, head.Offset))
		}
		if p.Phase() != decide.Empty && p.Phase() != decide.Waiting {
			c := (*decide.Call)(unsafe.Add(at, call.Offset))
			k.bool(c.Probe)
			writeStamp(k, p, c.Stamp)
		}
	}
}

// writeStamp writes what the breaker reads off a stamp: whether it is of now, of an earlier instant of this state, or of an earlier state.
func writeStamp(k *keyer, p *decide.Part, s breaker.Stamp) {
	switch now := p.Stamp(); {
	case s == now:
		k.byte('n')
	case s>>32 == now>>32:
		k.byte('s')
	default:
		k.byte('o')
	}
}

func writeCall(k *keyer, c *call) {
	if k.first(unsafe.Pointer(c.part)) {
		writerOf(reflect.TypeFor[decide.Part](), "")(k, unsafe.Pointer(c.part))
	}
	k.int(c.offset)
	k.bool(c.calm)
	k.bool(c.outlived)
	k.bool(c.sinceChange)
	k.bool(c.sinceFailure)
	if c.calm {
		writeStamp(k, c.part, c.stamp)
	}
}
