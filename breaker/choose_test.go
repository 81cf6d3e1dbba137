package breaker

import (
	"fmt"
	"testing"
	"time"
)

// Candidates as a table writes them: w is a witness, n a new record, x exhausted, - not callable; then when the record is due, in
// seconds from now, and when it was called last.
func lanes(now time.Time, specs ...string) []Candidate {
	cs := make([]Candidate, len(specs))
	for i, spec := range specs {
		var kind string
		var due int
		if _, err := fmt.Sscanf(spec, "%s %d %d", &kind, &due, &cs[i].Called); err != nil {
			panic(spec)
		}
		for _, k := range kind {
			switch k {
			case 'w':
				cs[i].Witness = true
			case 'x':
				cs[i].Exhausted = true
			}
		}
		cs[i].Callable = kind[0] != '-'
		if cs[i].Witness {
			cs[i].RetryAt = now.Add(time.Duration(due) * time.Second)
		}
	}
	return cs
}

func TestWhichRecordProbes(t *testing.T) {
	now := time.Unix(1e9, 0)
	for name, c := range map[string]struct {
		lanes  []string
		chosen int
		next   int // seconds from now, where nobody is chosen; -1: by time alone never
	}{
		"nobody has a record":                                 {nil, -1, -1},
		"with one partition the failed record itself":         {[]string{"w 0 1"}, 0, 0},
		"one witness that is not due and nobody else":         {[]string{"w 5 1"}, -1, 5},
		"a single witness lets another partition go first":    {[]string{"w 0 1", "n 0 9"}, 1, 0},
		"also while it is not due":                            {[]string{"w 5 1", "n 0 9"}, 1, 0},
		"another partition that may not be called is none":    {[]string{"w 0 1", "-n 0 0"}, 0, 0},
		"the other partitions take turns":                     {[]string{"w 0 1", "n 0 7", "n 0 6"}, 2, 0},
		"two witnesses: the one that was called longest ago":  {[]string{"w 0 5", "w 0 4", "n 0 0"}, 1, 0},
		"of two witnesses only one is due":                    {[]string{"w 0 5", "w 3 4", "n 0 0"}, 0, 0},
		"no witness is due: another partition":                {[]string{"w 2 5", "w 3 4", "n 0 9"}, 2, 0},
		"no witness is due and no other: the earliest":        {[]string{"w 2 5", "w 3 4"}, -1, 2},
		"all are exhausted: another partition":                {[]string{"wx 0 5", "wx 0 4", "n 0 9"}, 2, 0},
		"one of two is exhausted: the witnesses":              {[]string{"wx 0 4", "w 0 5", "n 0 9"}, 0, 0},
		"all are exhausted and there is no other":             {[]string{"wx 0 5", "wx 0 4"}, 1, 0},
		"no witness at all":                                   {[]string{"n 0 8", "n 0 3"}, 1, 0},
		"a witness that can't be called leaves the other due": {[]string{"-w 0 1", "w 0 2"}, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			chosen, next := Choose(now, lanes(now, c.lanes...))
			want := time.Time{}
			if c.chosen < 0 && c.next >= 0 {
				want = now.Add(time.Duration(c.next) * time.Second)
			}
			if chosen != c.chosen || !next.Equal(want) {
				t.Errorf("chose %d, or asks again at %v; want %d, %v", chosen, next, c.chosen, want)
			}
		})
	}
}
