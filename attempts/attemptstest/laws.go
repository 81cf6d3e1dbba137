package attemptstest

// The laws, one function each. Each begins with an empty store and says in its name what would go wrong without it.

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/breakwater-go/breakwater/attempts"
)

// Laws are what TestStore checks.
func Laws() []Law {
	law := func(name string, check func(b bench)) Law {
		return Law{name, func(t *testing.T, open func(t *testing.T) attempts.Store, advance func(time.Duration)) {
			check(bench{t, open(t), advance})
		}}
	}
	return []Law{
		law("an empty store knows nothing", emptyStore),
		law("the next owner finds all that was saved", nextOwner),
		law("the wait goes on while nobody looks", waitGoesOn),
		law("a repeat changes nothing", repeat),
		law("fewer attempts never lower", neverLower),
		law("a shorter wait never shortens a longer one", laterWins),
		law("a verdict replaces the note of its attempt", verdictReplacesNote),
		law("a record that is due stays due", dueStays),
		law("the first failure is kept", firstFailure),
		law("writes may come late, twice and in any order", anyOrder),
		law("another record at the same offset starts over", identity),
		law("a note is taken back, once", unnote),
		law("what lies below the commit is forgotten", forget),
		law("a mark tells that the last owner did not leave", marks),
		law("a foreign mark is told until the first commit", guard),
		law("groups, topics and partitions share nothing", apart),
		law("many partitions are claimed at once", many),
		law("texts are cut between characters", texts),
		law("an entry that makes no sense is refused or bounded", absurd),
		law("any number of writers count right", concurrent),
	}
}

var firstFailed = time.Date(2026, 3, 4, 5, 6, 8, 123e6, time.UTC)

// failed is the entry after n attempts that failed.
func failed(n int, wait time.Duration) attempts.Entry {
	return attempts.Entry{
		Attempts: n, Wait: wait, FirstFailed: firstFailed, FirstError: "refused",
		LastError: fmt.Sprintf("refused the %d. time", n), Class: "http 503",
	}
}

// noted is the entry with a note of call n.
func noted(n int) attempts.Entry {
	e := failed(n, long)
	e.Noted, e.Deaths = true, 1
	return e
}

func emptyStore(b bench) {
	got := b.claim(group, owner, part)
	if len(got.Entries) != 0 || got.ForeignMark {
		b.Errorf("an empty store answers %+v", got)
	}
	b.unnote(record)
	b.forget(1000)
	b.release(other, part)
	b.release(owner, part)
	all, err := b.Claim(b.Context(), group, owner, nil)
	if err != nil || len(all) != 0 {
		b.Errorf("a claim of nothing answers %v, %v", all, err)
	}
}

func nextOwner(b bench) {
	e := attempts.Entry{
		Attempts: 5, Deaths: 2, Verdict: "permanent", Wait: long,
		FirstFailed: firstFailed, FirstError: "a", LastError: "b \"quoted\"\n\x00 ключ 鍵", Class: "http 400", Stack: "main.go:1",
	}
	b.wantSame(b.save(e), e)
	got := b.claim(group, other, part)
	if len(got.Entries) != 1 {
		b.Fatalf("%d entries, want 1: %+v", len(got.Entries), got)
	}
	b.wantSame(got.Entries[record], e)
	b.wantRemains(got.Entries[record], long, 0)

	unknown := attempts.NewRecord(0, time.Time{}) // a record without a timestamp is a record
	b.wantSame(b.saveAt(part, unknown, noted(1)), noted(1))
	last := attempts.NewRecord(math.MaxInt64, firstFailed)
	b.wantSame(b.saveAt(part, last, failed(1, 0)), failed(1, 0))
	if got := b.claim(group, owner, part); len(got.Entries) != 3 || got.Entries[unknown].Attempts != 1 || got.Entries[last].Attempts != 1 {
		b.Errorf("entries of three records: %+v", got)
	}
}

func waitGoesOn(b bench) {
	b.wantRemains(b.save(failed(1, long)), long, 0)
	short := attempts.NewRecord(18, firstFailed)
	b.saveAt(part, short, failed(1, tick/2))
	b.advance(tick)
	got := b.claim(group, other, part).Entries
	b.wantRemains(got[record], long, tick)
	if got[short].Wait != 0 {
		b.Errorf("%v remain of a wait that is over", got[short].Wait)
	}
}

func repeat(b bench) {
	b.save(failed(2, long))
	b.advance(tick)
	again := b.save(failed(2, long))
	b.wantSame(again, failed(2, long))
	b.wantRemains(again, long, tick)
	got, _ := b.load(record)
	b.wantRemains(got, long, tick)

	b.save(noted(3))
	b.advance(tick)
	again = b.save(noted(3))
	b.wantSame(again, noted(3))
	b.wantRemains(again, long, tick)
}

func neverLower(b bench) {
	b.save(failed(3, long))
	b.advance(tick)
	for _, late := range []attempts.Entry{failed(1, tick), failed(2, 2*long), noted(2), {Attempts: 2, Verdict: "permanent"}} {
		got := b.save(late)
		b.wantSame(got, failed(3, 0))
		b.wantRemains(got, long, tick)
	}
	b.wantStored(failed(3, 0))
	b.wantSame(b.save(failed(4, tick)), failed(4, 0))
}

func laterWins(b bench) {
	b.save(failed(1, long))
	b.advance(tick)
	b.wantRemains(b.save(failed(1, tick)), long, tick)
	b.wantRemains(b.save(failed(1, 2*long)), 2*long, 0)
	b.advance(tick)
	b.wantRemains(b.save(failed(1, 2*long)), 2*long, tick)
}

func verdictReplacesNote(b bench) {
	b.wantSame(b.save(noted(1)), noted(1))
	b.wantSame(b.save(failed(1, tick)), failed(1, 0))
	b.wantSame(b.save(noted(1)), failed(1, 0)) // the note comes late
	b.wantStored(failed(1, 0))

	b.save(noted(2))
	permanent := failed(2, 0)
	permanent.Verdict = "permanent"
	b.wantSame(b.save(permanent), permanent)
	b.wantStored(permanent)
}

func dueStays(b bench) {
	due := failed(2, 0)
	due.Verdict = "exhausted"
	b.save(failed(2, long))
	b.advance(tick)
	got := b.save(due)
	b.wantSame(got, due)
	b.wantRemains(got, long, tick)
	b.wantSame(b.save(failed(2, long)), due)
	b.wantStored(due)
	b.wantSame(b.save(failed(3, tick)), failed(3, 0)) // called again all the same: an operator may
}

func firstFailure(b bench) {
	b.save(failed(1, 0))
	later := failed(2, 0)
	later.FirstFailed, later.FirstError = firstFailed.Add(time.Hour), "what a new owner takes for the first"
	b.wantSame(b.save(later), failed(2, 0))
	b.wantSame(b.save(attempts.Entry{Attempts: 3}), attempts.Entry{Attempts: 3, FirstFailed: firstFailed, FirstError: "refused"})
}

// anyOrder writes the whole life of a record in random orders, each write once or more. What stands is what its last write
// says, and the wait is that of the last write too.
func anyOrder(b bench) {
	life := []attempts.Entry{noted(1), failed(1, time.Hour), noted(2), failed(2, 2*time.Hour), noted(3), failed(3, 3*time.Hour), failed(3, 3*time.Hour)}
	life[0].FirstFailed, life[0].FirstError = time.Time{}, ""
	for i := range life[2:] {
		life[i+2].FirstFailed, life[i+2].FirstError = firstFailed.Add(time.Hour), "not the first"
	}
	end := &life[len(life)-1]
	end.Verdict = "exhausted"
	want := *end
	want.FirstFailed, want.FirstError = firstFailed, "refused"

	for seed := range uint64(40) {
		r := attempts.NewRecord(int64(seed), firstFailed)
		random := rand.New(rand.NewPCG(seed, 0))
		writes := slices.Concat(life, life[:random.IntN(len(life))])
		random.Shuffle(len(writes), func(i, j int) { writes[i], writes[j] = writes[j], writes[i] })
		for _, w := range writes {
			b.saveAt(part, r, w)
		}
		got, _ := b.load(r)
		b.wantSame(got, want)
		b.wantRemains(got, 3*time.Hour, 0)
		if b.Failed() {
			b.Fatalf("with seed %d, in the order %+v", seed, writes)
		}
	}
}

func identity(b bench) {
	reborn := attempts.NewRecord(record.Offset, record.Timestamp.Add(time.Millisecond))
	b.save(noted(3))
	b.unnote(reborn)
	b.wantStored(noted(3))
	b.wantSame(b.saveAt(part, reborn, failed(1, 0)), failed(1, 0))
	got := b.claim(group, owner, part).Entries
	if len(got) != 1 {
		b.Errorf("entries of two records at one offset: %+v", got)
	}
	b.wantSame(got[reborn], failed(1, 0))

	// The zone and the part below a millisecond are not part of the name, and need not be: Kafka keeps neither.
	same := attempts.Record{Offset: reborn.Offset, Timestamp: reborn.Timestamp.Add(time.Microsecond).In(time.FixedZone("", 3600))}
	b.wantSame(b.saveAt(part, same, failed(2, 0)), failed(2, 0))
	b.wantSame(b.claim(group, owner, part).Entries[reborn], failed(2, 0))
}

func unnote(b bench) {
	b.save(noted(1))
	b.unnote(record)
	b.wantNothing()
	b.unnote(record)

	b.save(failed(1, long))
	b.advance(tick)
	b.save(noted(2))
	for range 2 { // the second time as if the answer had been lost
		b.unnote(record)
		b.wantStored(failed(1, 0))
		got, _ := b.load(record)
		b.wantRemains(got, long, tick)
	}

	death, call := noted(2), noted(3)
	call.Deaths = 2
	b.save(death)
	b.claim(group, other, part)
	b.save(call)
	b.save(call)
	for range 2 {
		b.unnote(record)
		b.wantStored(death)
	}
	b.wantSame(b.save(failed(3, 0)), failed(3, 0))
	b.unnote(record) // a verdict is no note
	b.wantStored(failed(3, 0))
}

func forget(b bench) {
	elsewhere := attempts.Partition{Topic: part.Topic, Partition: part.Partition + 1}
	offsets := []int64{0, 9, 10, 99, 100, 101, 1<<53 + 1, 1<<53 + 2, math.MaxInt64}
	for _, offset := range offsets {
		r := attempts.NewRecord(offset, firstFailed)
		b.saveAt(part, r, failed(1, 0))
		b.saveAt(elsewhere, r, failed(1, 0))
	}
	b.claim(group, owner, part)
	for i, below := range offsets {
		b.forget(below)
		var left []int64
		got := b.claim(group, owner, part)
		for r := range got.Entries {
			left = append(left, r.Offset)
		}
		slices.Sort(left)
		if !slices.Equal(left, offsets[i:]) {
			b.Errorf("after Forget(%d) %v is left, want %v", below, left, offsets[i:])
		}
	}
	if n := len(b.claim(group, owner, elsewhere).Entries); n != len(offsets) {
		b.Errorf("%d entries left in another partition, want %d", n, len(offsets))
	}
	if !b.claim(group, other, part).ForeignMark {
		b.Error("the mark is gone with the entries")
	}
}

func marks(b bench) {
	foreign := func(owner string) bool { b.Helper(); return b.claim(group, owner, part).ForeignMark }
	if foreign(owner) {
		b.Error("nobody's mark is foreign")
	}
	if foreign(owner) {
		b.Error("one's own mark is foreign")
	}
	b.release(other, part) // not his
	if !foreign(other) {
		b.Error("the mark of an owner that did not leave is not told")
	}
	b.release(owner, part) // no longer his
	b.release(other, part)
	if foreign(owner) {
		b.Error("the mark of an owner that left is told")
	}
	b.save(failed(1, 0))
	b.release(owner, part)
	b.wantStored(failed(1, 0))
}

func guard(b bench) {
	b.claim(group, owner, part)
	for range 2 {
		if !b.claim(group, other, part).ForeignMark {
			b.Error("a repeated claim does not tell the mark that the first one found")
		}
	}
	b.forget(0)
	if b.claim(group, other, part).ForeignMark {
		b.Error("the mark is told after a commit")
	}
	b.claim(group, owner, part)
	b.release(owner, part)
	if b.claim(group, owner, part).ForeignMark {
		b.Error("the mark is told after a clean leave")
	}
}

// places are names that a careless key would mix up.
var places = []struct {
	group, topic string
	partition    int32
}{
	{"a", "b", 1}, {"a:b", "", 1}, {"", "a:b", 1}, {"a", "b:1", 1}, {"a:b:1", "", 1}, {"a", "b", 11}, {"a", "b1", 1}, {"ab", "", 1},
	{"{a}", "b", 1}, {"a}", "b", 1}, {"{a", "b", 1}, {"%7Ba", "b", 1}, {"a%3Ab", "", 1}, {"A", "b", 1}, {"a ", "b", 1}, {"a+", "b", 1},
	{"a\x00", "b", 1}, {"ä", "b", 1}, {"owner", "owner", 1}, {"a/b", "", 1}, {"", "", 0},
}

func apart(b bench) {
	for i, p := range places {
		e := failed(i+1, 0)
		at := attempts.Partition{Topic: p.topic, Partition: p.partition}
		if b.claim(p.group, fmt.Sprint(i), at).ForeignMark {
			b.Errorf("%+v has the mark of another", p)
		}
		if _, err := b.Save(b.Context(), p.group, at, record, e); err != nil {
			b.Fatal(err)
		}
	}
	for i, p := range places {
		at := attempts.Partition{Topic: p.topic, Partition: p.partition}
		if got := b.claim(p.group, fmt.Sprint(i), at).Entries; len(got) != 1 || got[record].Attempts != i+1 {
			b.Errorf("%+v has the entries of another: %+v", p, got)
		}
	}
}

func many(b bench) {
	var ps []attempts.Partition
	for i := range int32(100) {
		p := attempts.Partition{Topic: fmt.Sprintf("topic-%d", i%3), Partition: i}
		ps = append(ps, p)
		b.saveAt(p, attempts.NewRecord(int64(i), firstFailed), failed(int(i)+1, 0))
	}
	b.claim(group, other, ps[7])
	all, err := b.Claim(b.Context(), group, owner, ps)
	if err != nil || len(all) != len(ps) {
		b.Fatalf("%d partitions of %d, %v", len(all), len(ps), err)
	}
	for i, p := range ps {
		got := all[p]
		if e := got.Entries[attempts.NewRecord(int64(i), firstFailed)]; len(got.Entries) != 1 || e.Attempts != i+1 || got.ForeignMark != (i == 7) {
			b.Errorf("%v: %+v", p, got)
		}
	}
	b.release(owner, ps...)
	all, err = b.Claim(b.Context(), group, other, ps)
	for p, got := range all {
		if err != nil || got.ForeignMark {
			b.Errorf("%v is still marked after the release of all: %v", p, err)
		}
	}
}

func texts(b bench) {
	for _, text := range []string{strings.Repeat("é", 20_000), "x" + strings.Repeat("鍵", 20_000), strings.Repeat("\xff", 20_000), "ok \xff\xfe", "\x00\"\\/</script>"} {
		e := attempts.Entry{Attempts: 1, FirstError: text, LastError: text, Class: text, Stack: text}
		r := attempts.NewRecord(int64(len(text)), firstFailed)
		stands := b.saveAt(part, r, e)
		got := b.claim(group, owner, part).Entries[r]
		b.wantSame(got, stands)
		for name, c := range map[string]struct {
			text string
			most int
		}{
			"FirstError": {got.FirstError, attempts.MaxErrorText}, "LastError": {got.LastError, attempts.MaxErrorText},
			"Class": {got.Class, attempts.MaxClass}, "Stack": {got.Stack, attempts.MaxStack},
		} {
			whole := strings.ToValidUTF8(text, "\uFFFD")
			if !utf8.ValidString(c.text) || len(c.text) > c.most || !strings.HasPrefix(whole, c.text) {
				b.Errorf("%s of %d bytes came back as %d bytes: %.40q", name, len(text), len(c.text), c.text)
			}
			if len(c.text) < min(len(strings.ToValidUTF8(text, "")), c.most-utf8.UTFMax) {
				b.Errorf("%s of %d bytes was cut to %d, though %d are kept", name, len(text), len(c.text), c.most)
			}
		}
	}
}

func absurd(b bench) {
	for name, e := range map[string]attempts.Entry{
		"no attempt":        {Attempts: 0},
		"negative attempts": {Attempts: -3},
		"unknown verdict":   {Attempts: 1, Verdict: "guilty"},
		"note and verdict":  {Attempts: 1, Noted: true, Verdict: "permanent"},
	} {
		if _, err := b.Save(b.Context(), group, part, record, e); err == nil {
			b.Errorf("%s: saved without an error", name)
		}
	}
	if _, err := b.Save(b.Context(), group, part, attempts.NewRecord(-1, firstFailed), failed(1, 0)); err == nil {
		b.Error("negative offset: saved without an error")
	}
	b.wantNothing()

	got := b.save(attempts.Entry{Attempts: 1, Deaths: -1, Wait: -time.Hour})
	if got.Deaths != 0 || got.Wait != 0 {
		b.Errorf("negative deaths and wait: %+v", got)
	}
	got = b.save(attempts.Entry{Attempts: math.MaxInt, Deaths: math.MaxInt, Wait: math.MaxInt64, FirstFailed: time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)})
	if got.Attempts != attempts.MaxAttempts || got.Deaths != attempts.MaxAttempts || got.Wait > attempts.MaxWait || got.FirstFailed.Year() > 5138 {
		b.Errorf("beyond all bounds: %+v", got)
	}
	b.wantStored(got)
}

func concurrent(b bench) {
	const writers, most = 8, 15
	ps := []attempts.Partition{part, {Topic: part.Topic, Partition: part.Partition + 1}}
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			for n := range most {
				for _, p := range ps {
					if got, err := b.Save(b.Context(), group, p, record, failed(n+1, 0)); err != nil || got.Attempts < n+1 {
						b.Errorf("writer %d: %+v, %v", w, got, err)
					}
				}
				if _, err := b.Claim(b.Context(), group, fmt.Sprint(w), ps); err != nil {
					b.Errorf("writer %d: %v", w, err)
				}
			}
		})
	}
	all.Wait()
	for _, p := range ps {
		b.wantSame(b.claim(group, owner, p).Entries[record], failed(most, 0))
	}
}
