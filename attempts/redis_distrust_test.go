package attempts_test

// What somebody else, or a bug, has put under our keys: it costs nothing but itself, and is told.

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/breakwater-go/breakwater/attempts"
)

// stored is a good value of record, with one word of it replaced.
func stored(old, new string) string {
	const good = `{"id":"1700000000123","attempts":4,"deaths":1,"noted":false,"wait":60000,"at":1700000000000,"verdict":"",` +
		`"first":1700000000000,"firstError":"a","lastError":"b","class":"c","stack":""}`
	if !strings.Contains(good, old) {
		panic(old)
	}
	return strings.Replace(good, old, new, 1)
}

// garbage are values that Save can't have written.
var garbage = map[string]string{
	"empty":                "",
	"no JSON":              "secret-payload",
	"half of a value":      stored("", "")[:60],
	"null":                 "null",
	"a number":             "5",
	"an array":             `[1,2,3]`,
	"an empty object":      `{}`,
	"not UTF-8":            "\xff\xfe\x00",
	"deep":                 strings.Repeat(`[`, 2000) + strings.Repeat(`]`, 2000),
	"deep inside":          stored(`"c"`, strings.Repeat(`[`, 2000)+strings.Repeat(`]`, 2000)),
	"negative attempts":    stored(`"attempts":4`, `"attempts":-4`),
	"no attempts":          stored(`"attempts":4`, `"attempts":0`),
	"attempts missing":     stored(`"attempts":4,`, ``),
	"too many attempts":    stored(`"attempts":4`, `"attempts":99999999999`),
	"half an attempt":      stored(`"attempts":4`, `"attempts":4.5`),
	"attempts as text":     stored(`"attempts":4`, `"attempts":"4"`),
	"infinite attempts":    stored(`"attempts":4`, `"attempts":1e400`),
	"NaN":                  stored(`"attempts":4`, `"attempts":NaN`),
	"negative deaths":      stored(`"deaths":1`, `"deaths":-1`),
	"negative wait":        stored(`"wait":60000`, `"wait":-1`),
	"wait beyond MaxWait":  stored(`"wait":60000`, `"wait":1209600001`),
	"wait until 5138":      stored(`"wait":60000`, `"wait":98300000000000`),
	"began in 5139":        stored(`"at":1700000000000`, `"at":100000000000000`),
	"began before 1970":    stored(`"at":1700000000000`, `"at":-1`),
	"failed before 1970":   stored(`"first":1700000000000`, `"first":-1`),
	"an unknown verdict":   stored(`"verdict":""`, `"verdict":"guilty"`),
	"a number for a text":  stored(`"a"`, `17`),
	"a text for a boolean": stored(`false`, `"false"`),
	"a note with verdict":  stored(`"noted":false,"wait":60000,"at":1700000000000,"verdict":""`, `"noted":true,"wait":60000,"at":1700000000000,"verdict":"crash"`),
	"no identity":          stored(`"id":"1700000000123",`, ``),
	"a strange identity":   stored(`"1700000000123"`, `"+1700000000123"`),
}

func TestGarbageIsIgnoredToldAndReplaced(t *testing.T) {
	everyRedis(t, func(t *testing.T, client redis.UniversalClient) {
		s := attempts.Redis(client, patient())
		neighbour := attempts.NewRecord(43, record.Timestamp)
		for name, text := range garbage {
			t.Run(name, func(t *testing.T) {
				key := s.Key("g", part)
				check(t, client.Del(t.Context(), key).Err())
				_, err := s.Save(t.Context(), "g", part, neighbour, attempts.Entry{Attempts: 7})
				check(t, err)
				check(t, client.HSet(t.Context(), key, "42", text).Err())

				all, err := s.Claim(t.Context(), "g", "a", parts)
				got := all[part].Entries
				if len(got) != 1 || got[neighbour].Attempts != 7 {
					t.Errorf("entries: %+v; want the neighbour and nothing else", got)
				}
				if !errors.Is(err, attempts.ErrGarbage) || errors.Is(err, attempts.ErrAway) {
					t.Fatalf("error is %v, want ErrGarbage", err)
				}
				if told := err.Error(); !strings.Contains(told, `"42"`) || !strings.Contains(told, key) || !strings.Contains(told, "HDEL") || strings.Contains(told, "secret-payload") {
					t.Errorf("%q; want the field, the key and the cure, and not the value", told)
				}
				check(t, s.Unnote(t.Context(), "g", part, record))
				stands := mustSave(t, s, attempts.Entry{Attempts: 1, Wait: time.Hour})
				if want := (attempts.Entry{Attempts: 1, Wait: stands.Wait}); stands != want {
					t.Errorf("saved over it: %+v", stands)
				}
				if got := mustClaim(t, s, "a").Entries[record]; got.Attempts != 1 {
					t.Errorf("loaded after it: %+v", got)
				}
			})
		}
	})
}

func TestAGoodValueIsRead(t *testing.T) {
	everyRedis(t, func(t *testing.T, client redis.UniversalClient) {
		s := attempts.Redis(client, patient())
		for name, text := range map[string]string{
			"as it is":                   stored("", ""),
			"written by a later version": stored(`"deaths"`, `"more":{"x":[null,1.5]},"deaths"`),
			"a clock that was set back":  stored(`"at":1700000000000`, `"at":99999999999999`), // the year 5138
		} {
			check(t, client.HSet(t.Context(), s.Key("g", part), "42", text).Err())
			got := mustClaim(t, s, "a").Entries[record]
			if got.Attempts != 4 || got.Deaths != 1 || got.Class != "c" || got.Wait < 0 || got.Wait > time.Minute {
				t.Errorf("%s: read as %+v", name, got)
			}
			if got := mustSave(t, s, attempts.Entry{Attempts: 2}); got.Attempts != 4 || got.LastError != "b" || got.Wait < 0 || got.Wait > time.Minute {
				t.Errorf("%s: a save of fewer attempts answers %+v", name, got)
			}
		}
	})
}

func TestStrangeFieldsAreTold(t *testing.T) {
	client := connect(t, miniredis.RunT(t).Addr())
	s := attempts.Redis(client, patient())
	mustSave(t, s, attempts.Entry{Attempts: 2})
	for _, field := range []string{"", "-1", "007", "1.5", "99999999999999999999", "Owner", "note\x00", strings.Repeat("x", 5000)} {
		check(t, client.HSet(t.Context(), s.Key("g", part), field, stored("", "")).Err())
	}
	all, err := s.Claim(t.Context(), "g", "a", parts)
	if len(all[part].Entries) != 1 || all[part].Entries[record].Attempts != 2 {
		t.Errorf("entries: %+v", all)
	}
	if !errors.Is(err, attempts.ErrGarbage) || !strings.Contains(err.Error(), "and 7 more") || len(err.Error()) > 300 {
		t.Errorf("error: %v", err)
	}
	check(t, s.Forget(t.Context(), "g", part, record.Offset+1))
}

func TestAKeyOfAnotherTypeConcernsItsPartitionAlone(t *testing.T) {
	everyRedis(t, func(t *testing.T, client redis.UniversalClient) {
		s, ctx := attempts.Redis(client, patient()), t.Context()
		key := s.Key("g", part)
		check(t, client.Set(ctx, key, "somebody else's", 0).Err())
		good := attempts.Partition{Topic: "orders", Partition: 4}

		tell := func(what string, err error) {
			t.Helper()
			if !errors.Is(err, attempts.ErrWrongType) || errors.Is(err, attempts.ErrAway) {
				t.Fatalf("%s: %v, want ErrWrongType", what, err)
			}
			if told := err.Error(); !strings.Contains(told, key) || !strings.Contains(told, "DEL") {
				t.Errorf("%s: %q; want the key and the cure", what, told)
			}
		}
		for range 10 { // more often than the breaker bears
			all, err := s.Claim(ctx, "g", "a", []attempts.Partition{part, good})
			tell("Claim", err)
			if _, ok := all[good]; !ok || len(all) != 1 {
				t.Errorf("claimed: %+v; want the good partition alone", all)
			}
			e := attempts.Entry{Attempts: 3}
			stands, err := s.Save(ctx, "g", part, record, e)
			tell("Save", err)
			if stands != e {
				t.Errorf("Save answers %+v", stands)
			}
			tell("Unnote", s.Unnote(ctx, "g", part, record))
			tell("Forget", s.Forget(ctx, "g", part, 1))
			tell("Release", s.Release(ctx, "g", "a", []attempts.Partition{part, good}))
		}
		if !s.Healthy() {
			t.Error("a key of the wrong type made the whole store go away")
		}
		if got := client.Get(ctx, key).Val(); got != "somebody else's" {
			t.Errorf("the key holds %q now", got)
		}
		check(t, client.Del(ctx, key).Err()) // the cure
		mustSave(t, s, attempts.Entry{Attempts: 3})
		if got := mustClaim(t, s, "a").Entries[record]; got.Attempts != 3 {
			t.Errorf("after the cure: %+v", got)
		}
	})
}

// babbler stands in front of a client and answers for Redis.
type babbler struct{ answer any }

func (b *babbler) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (b *babbler) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }
func (b *babbler) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(_ context.Context, cmds []redis.Cmder) error {
		for _, cmd := range cmds {
			cmd.(*redis.Cmd).SetVal(b.answer)
		}
		return nil
	}
}

func TestAnAnswerThatMakesNoSense(t *testing.T) {
	client := connect(t, "127.0.0.1:1")
	var b babbler
	client.AddHook(&b)
	s := attempts.Redis(client, patient())
	value, now := stored("", ""), time.Now().UnixMilli()
	another := stored("1700000000123", "1700000000124")
	for _, b.answer = range []any{
		nil, "OK", int64(1), []any{}, []any{now}, []any{"now", value}, []any{now, now}, []any{now, nil}, []any{now, "value"}, []any{now, another},
		[]any{int64(-1), value}, []any{int64(1 << 62), value},
		[]any{now, int64(0), nil}, []any{now, "0", []any{}}, []any{now, int64(0), []any{"42"}}, []any{now, int64(0), []any{"42", now}},
		[]any{now, int64(0), []any{now, value}}, []any{int64(-1 << 63), int64(0), []any{"42", value}},
	} {
		e := attempts.Entry{Attempts: 3}
		if stands, err := s.Save(t.Context(), "g", part, record, e); !errors.Is(err, attempts.ErrAway) || stands != e {
			t.Errorf("%v: Save answers %+v, %v", b.answer, stands, err)
		}
		if all, err := s.Claim(t.Context(), "g", "a", parts); !errors.Is(err, attempts.ErrAway) || len(all) != 0 {
			t.Errorf("%v: Claim answers %+v, %v", b.answer, all, err)
		}
	}
}

// FuzzGarbageInRedis: whatever a field holds, a claim goes on, and a save makes it good again.
func FuzzGarbageInRedis(f *testing.F) {
	for _, text := range garbage {
		f.Add(text)
	}
	f.Add(stored("", ""))
	f.Add(stored("false", "true"))
	f.Add(stored(`"stack":""`, `"stack":"","was":"garbage"`))
	client := connect(f, miniredis.RunT(f).Addr())
	s := attempts.Redis(client, patient())
	f.Fuzz(func(t *testing.T, text string) {
		key := s.Key("g", part)
		check(t, client.Del(t.Context(), key).Err())
		check(t, client.HSet(t.Context(), key, "42", text).Err())
		all, err := s.Claim(t.Context(), "g", "a", parts)
		if _, claimed := all[part]; !claimed || err != nil && !errors.Is(err, attempts.ErrGarbage) {
			t.Fatalf("Claim: %+v, %v", all, err)
		}
		for r, e := range all[part].Entries {
			if e.Attempts < 1 || e.Deaths < 0 || e.Wait < 0 || e.Wait > attempts.MaxWait || len(e.LastError) > attempts.MaxErrorText {
				t.Errorf("%v read as %+v", r, e)
			}
		}
		check(t, s.Unnote(t.Context(), "g", part, record))
		stands := mustSave(t, s, attempts.Entry{Attempts: 2, LastError: "refused"})
		got := mustClaim(t, s, "a").Entries[record]
		got.Wait = stands.Wait
		if stands.Attempts < 2 || got != stands {
			t.Errorf("saved %+v, loaded %+v", stands, got)
		}
	})
}
