// Package page writes the HTML page of a bench run: one file that loads nothing, readable in a narrow window and in a wide one, by day and by night.
package page

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/breakwater-go/breakwater/bench/internal/tally"
)

// Report is what the page shows.
type Report struct {
	Command string
	Made    time.Time
	Facts   []string // machine and versions
	Rows    []tally.Row
	Tracks  []Track
	About   map[string]string // of scenarios and contenders
}

// Track is a contender's run over time.
type Track struct {
	Scenario, Contender string
	Step                time.Duration // length of a bucket
	Done                []float64     // records done in each, a second
	Calls               []float64     // calls that reached the dependency in each, a second; nil: as Done
	Open                []Span        // the contender's breaker, or what it has in place of one
	Down                []Span        // the dependency
	Events              []Mark
}

// Span is from From to To, since the start of the track.
type Span struct{ From, To time.Duration }

// Mark is something that happened.
type Mark struct {
	At   time.Duration
	Text string
}

//go:embed page.html
var text string

var layout = template.Must(template.New("page").Parse(text))

// Write writes the page.
func Write(w io.Writer, r Report) error {
	type scenario struct {
		Name, About string
		Rows        []tally.Row
		Race        bool
		Bars        []bar
		Chart       chart
	}
	v := struct {
		Report
		Verdict   string
		Good      bool
		Scenarios []scenario
		Costs     []string
		Losses    []string
		Cast      []string
	}{Report: r, Costs: costs, Losses: losses}
	v.Verdict, v.Good = verdict(r.Rows)
	for _, row := range r.Rows {
		if !slices.Contains(v.Cast, row.Contender) {
			v.Cast = append(v.Cast, row.Contender)
		}
		i := slices.IndexFunc(v.Scenarios, func(s scenario) bool { return s.Name == row.Scenario })
		if i < 0 {
			i = len(v.Scenarios)
			v.Scenarios = append(v.Scenarios, scenario{Name: row.Scenario, About: r.About[row.Scenario]})
		}
		v.Scenarios[i].Rows = append(v.Scenarios[i].Rows, row)
	}
	for i := range v.Scenarios {
		s := &v.Scenarios[i]
		s.Bars = bars(s.Rows)
		s.Race = len(s.Bars) > 0
		s.Chart = draw(slices.DeleteFunc(slices.Clone(r.Tracks), func(t Track) bool { return t.Scenario != s.Name }))
	}
	return layout.Execute(w, v)
}

// The columns of the two tables.
var (
	costs  = []string{"records_per_s", "cpu_s_per_million", "cpu_of_bare", "allocs_per_record", "peak_rss_mb", "bytes_fetched"}
	losses = []string{"lost", "duplicated", "out_of_order", "early_calls", "calls_while_down", "rebalances", "dlq_missing", "dlq_double", "dlq_incomplete",
		"first_success_ms", "drained_ms"}
	// Good or bad; the others are neither.
	faults = losses[:4]
)

// Head is a key as a heading.
func (r Report) Head(key string) string {
	return strings.ReplaceAll(strings.TrimSuffix(strings.TrimSuffix(key, "_ms"), "_mb"), "_", " ")
}

// Tip explains a key.
func (r Report) Tip(key string) string {
	for _, k := range tally.Keys {
		if k.Key == key {
			return k.About
		}
	}
	return ""
}

// Cell is a figure for a person.
func (r Report) Cell(row tally.Row, key string) string {
	v, ok := row.Figures[key]
	switch {
	case !ok:
		return "–"
	case strings.HasSuffix(key, "_ms"):
		return fmt.Sprintf("%.2f s", v/1000)
	case key == "bytes_fetched":
		return fmt.Sprintf("%.1f MB", v/1e6)
	case key == "peak_rss_mb":
		return fmt.Sprintf("%.0f MB", v)
	case v == float64(int64(v)) || v >= 1000:
		return thousands(int64(v))
	default:
		return fmt.Sprintf("%.2f", v)
	}
}

// Class is how a figure is shown: a fault stands out, a zero steps back.
func (r Report) Class(row tally.Row, key string) string {
	v := row.Figures[key]
	switch {
	case v == 0:
		return "none"
	case slices.Contains(faults, key) || strings.HasPrefix(key, "dlq_"):
		return "bad"
	default:
		return ""
	}
}

func thousands(n int64) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "\u202f" + s[i:]
	}
	return s
}

func verdict(rows []tally.Row) (string, bool) {
	runs, broken := 0, []string{}
	for _, r := range rows {
		if r.Contender == "breakwater" {
			runs++
			for _, b := range r.Broken {
				broken = append(broken, r.Scenario+": "+b)
			}
		}
	}
	switch {
	case runs == 0:
		return "Breakwater did not take part.", true
	case len(broken) > 0:
		return "Breakwater has broken a law. " + strings.Join(broken, "; "), false
	case runs == 1:
		return "Breakwater lost no record and broke none of its laws.", true
	default:
		return fmt.Sprintf("Breakwater lost no record and broke none of its laws, in %d scenarios.", runs), true
	}
}

// bar is a contender's rate in a race.
type bar struct {
	Name, Rate, Ratio string
	Percent           float64 // of the fastest
	Ours              bool
}

func bars(rows []tally.Row) (all []bar) {
	fastest := 0.0
	for _, r := range rows {
		fastest = max(fastest, r.Figures["records_per_s"])
	}
	for _, r := range rows {
		rate := r.Figures["records_per_s"]
		if rate == 0 {
			continue
		}
		b := bar{Name: r.Contender, Rate: thousands(int64(rate)), Percent: 100 * rate / fastest, Ours: r.Contender == "breakwater"}
		if ratio := r.Figures["of_bare"]; r.Contender != "bare" && ratio > 0 {
			b.Ratio = fmt.Sprintf("%.2f × bare", ratio)
		}
		all = append(all, b)
	}
	return all
}
