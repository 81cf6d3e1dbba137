package page

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/breakwater-go/breakwater/bench/internal/tally"
)

func report() Report {
	return Report{
		Command: "go run ./bench -scenario <mine>", Made: time.Unix(0, 0), Facts: []string{"two CPUs"}, About: map[string]string{"steady": "all is well", "outage": "down"},
		Rows: []tally.Row{
			{Scenario: "steady", Contender: "breakwater", Figures: tally.Figures{"records_per_s": 380_000, "of_bare": 0.95, "lost": 0}},
			{Scenario: "steady", Contender: "bare", Figures: tally.Figures{"records_per_s": 400_000, "lost": 0}},
			{Scenario: "steady", Contender: "spring", Note: "not to be had: no Java"},
			{Scenario: "outage", Contender: "bare", Figures: tally.Figures{"lost": 6000}},
		},
		Tracks: []Track{
			{Scenario: "steady", Contender: "bare", Step: time.Second, Done: []float64{1, 2}},
			{Scenario: "outage", Contender: "bare", Step: time.Second, Done: []float64{300, 0, 300}, Calls: []float64{300, 1, 300},
				Open: []Span{{time.Second, 2 * time.Second}}, Down: []Span{{time.Second, 9 * time.Second}}, Events: []Mark{{time.Second, "kill -9"}}},
		},
	}
}

func render(t *testing.T, r Report) string {
	t.Helper()
	var b strings.Builder
	if err := Write(&b, r); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestThePageLoadsNothing(t *testing.T) {
	if found := regexp.MustCompile(`(?i)https?:|src=|@import|url\(|<script`).FindString(render(t, report())); found != "" {
		t.Errorf("the page has %q in it", found)
	}
}

func TestThePageShowsLossesAbsenteesAndRatios(t *testing.T) {
	got := render(t, report())
	for _, want := range []string{`<td class="bad">6` + "\u202f" + `000</td>`, "not to be had: no Java", "0.95 × bare", "kill -9 at 1 s", "&lt;mine&gt;",
		"Breakwater lost no record and broke none of its laws."} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q on the page", want)
		}
	}
}

func TestAPartWithNothingInItIsNotThere(t *testing.T) {
	r := report()
	r.Rows, r.Tracks = r.Rows[3:], r.Tracks[1:]
	if got := render(t, r); strings.Contains(got, "Cost and throughput") || !strings.Contains(got, "Over time") {
		t.Error("the parts do not go with what was run")
	}
}

func TestABrokenLawIsTheFirstThingOnThePage(t *testing.T) {
	r := report()
	r.Rows[0].Broken = []string{"1 records lost"}
	if got := render(t, r); !strings.Contains(got, `class="verdict broken">Breakwater has broken a law. steady: 1 records lost`) {
		t.Error("the breach is not said")
	}
}

func TestAFailedCallIsDrawnHoweverFewThereAre(t *testing.T) {
	c := draw(report().Tracks[1:])
	if c.Rows[0].Bad == "" {
		t.Error("one failed call among hundreds is not in the picture")
	}
	if r := c.Rows[0].Down[0]; r.X+r.Width > wide+0.1 {
		t.Errorf("the outage is drawn beyond the picture: %+v", r)
	}
}
