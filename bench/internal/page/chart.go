package page

// The pictures: for each contender one drawing, all of a scenario to the same scales. A drawing is 1000 wide and is stretched to the window, so
// there is no text in it. Rates are drawn to the square root, since the rush after an outage would flatten all else; calls to the logarithm, so
// that one call can be seen beside a thousand.

import (
	"fmt"
	"math"
	"strings"
	"time"
)

const (
	wide    = 1000.0
	rates   = 100.0 // height of the rates
	strip   = 36.0  // height of the calls, under them
	between = 6.0
)

type chart struct {
	Rows     []drawing
	Highest  string   // rate
	Ticks    []string // of the time axis, evenly spread
	Height   float64
	HasCalls bool
	HasOpen  bool
	HasDown  bool
}

type drawing struct {
	Name       string
	Done       string // path of the area
	Calls, Bad string // paths of the strip: all calls, and those that failed
	Open, Down []rect
	Events     []event
	Ours       bool
}

type rect struct{ X, Width float64 }

type event struct {
	X    float64
	Text string
}

func draw(tracks []Track) (c chart) {
	c.Height = rates
	var length time.Duration
	highest, mostCalls := 0.0, 0.0
	for _, t := range tracks {
		length = max(length, time.Duration(len(t.Done))*t.Step)
		for _, v := range t.Done {
			highest = max(highest, v)
		}
		for _, v := range t.Calls {
			c.HasCalls = true
			mostCalls = max(mostCalls, v*t.Step.Seconds())
		}
	}
	if length == 0 || highest == 0 {
		return chart{}
	}
	if c.HasCalls {
		c.Height += between + strip
	}
	x := func(d time.Duration) float64 { return wide * float64(d) / float64(length) }
	rects := func(spans []Span) (all []rect) {
		for _, s := range spans {
			from, to := x(max(0, s.From)), x(min(length, s.To))
			if to > from {
				all = append(all, rect{from, max(to-from, 1)})
			}
		}
		return all
	}
	for _, t := range tracks {
		d := drawing{Name: t.Contender, Open: rects(t.Open), Down: rects(t.Down), Ours: t.Contender == "breakwater"}
		c.HasOpen, c.HasDown = c.HasOpen || len(d.Open) > 0, c.HasDown || len(d.Down) > 0
		var area, calls, bad strings.Builder
		fmt.Fprintf(&area, "M0 %.0f", rates)
		for i, v := range t.Done {
			from, to, y := x(time.Duration(i)*t.Step), x(time.Duration(i+1)*t.Step), rates*(1-math.Sqrt(v/highest))
			fmt.Fprintf(&area, "L%.1f %.1fL%.1f %.1f", from, y, to, y)
			if t.Calls == nil {
				continue
			}
			column := func(b *strings.Builder, v float64) {
				if n := v * t.Step.Seconds(); n > 0.5 {
					h := strip * (0.25 + 0.75*math.Log(n)/math.Log(max(2, mostCalls)))
					fmt.Fprintf(b, "M%.1f %.1fV%.1fH%.1fV%.1fZ", from, c.Height, c.Height-h, max(to, from+2), c.Height)
				}
			}
			column(&calls, t.Calls[i])
			column(&bad, t.Calls[i]-v)
		}
		fmt.Fprintf(&area, "L%.1f %.0fZ", x(time.Duration(len(t.Done))*t.Step), rates)
		d.Done, d.Calls, d.Bad = area.String(), calls.String(), bad.String()
		for _, e := range t.Events {
			d.Events = append(d.Events, event{x(e.At), fmt.Sprintf("%s at %.0f s", e.Text, e.At.Seconds())})
		}
		c.Rows = append(c.Rows, d)
	}
	c.Highest = thousands(int64(math.Round(highest)))
	for i := range 5 {
		at := length.Seconds() * float64(i) / 4
		format := "%.0f s"
		if length < 8*time.Second {
			format = "%.1f s"
		}
		c.Ticks = append(c.Ticks, fmt.Sprintf(format, at))
	}
	return c
}
