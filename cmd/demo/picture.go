package main

// What is written on the board: the picture of one instant, and a line for each event. Both are made of values, and do no I/O.

import (
	"fmt"
	"strings"
	"time"

	"github.com/breakwater-go/breakwater/consumer"
	"github.com/breakwater-go/breakwater/observe"
)

// view is one instant: what the consumer says of itself, and what was counted from the outside.
type view struct {
	status   consumer.Status
	figures  figures
	strategy string // the file's path
	now      time.Time
}

// picture is the block at the bottom.
func (v view) picture(paint func(tone, text string) string, width, height int) []string {
	lines := []string{paint(dim, strings.Repeat("─", max(width-1, 0))), v.breaker(paint), v.payments(paint)}
	strategy := "strategy  " + v.status.Strategy
	if with := strategy + "; edit " + v.strategy; len(with) < width {
		strategy = with
	}
	below := []string{v.sum(), paint(dim, strategy)}
	room := max(height-len(lines)-len(below)-4, 1) // some lines of what scrolls by stay in sight
	names := 9
	for _, p := range v.status.Partitions {
		names = max(names, len(partitionName(p)))
	}
	for i, p := range v.status.Partitions {
		if i == room-1 && len(v.status.Partitions) > room {
			lines = append(lines, paint(dim, fmt.Sprintf("… and %d more partitions", len(v.status.Partitions)-i)))
			break
		}
		lines = append(lines, v.partition(p, names, paint))
	}
	return append(lines, below...)
}

func (v view) breaker(paint func(string, string) string) string {
	b := v.status.Breaker
	switch {
	case b.State == "":
		return "breaker   one for each partition"
	case b.State == "closed":
		return "breaker   " + paint(green, "CLOSED") + "  records flow"
	}
	since := fmt.Sprintf("  open for %s, episode %s  ", seconds(v.now.Sub(b.Opened)), b.Episode)
	if left := b.RetryAt.Sub(v.now); left > 0 {
		return "breaker   " + paint(red, "OPEN") + "    " + paint(bold, "next call in "+seconds(left)) + since + bar(left)
	}
	return "breaker   " + paint(yellow, strings.ToUpper(b.State)) + "  " + paint(bold, "one record probes") + since
}

func (v view) payments(paint func(string, string) string) string {
	f := v.figures
	switch {
	case f.isDown:
		return fmt.Sprintf("payments  %s    for %s, %s reached it while down", paint(red, "DOWN"), seconds(f.downFor), calls(f.whileDown))
	case f.downFor > 0:
		return fmt.Sprintf("payments  %s    it was down for %s, %s reached it then", paint(green, "WELL"), seconds(f.downFor), calls(f.whileDown))
	}
	return "payments  " + paint(green, "WELL")
}

func partitionName(p consumer.PartitionStatus) string {
	return fmt.Sprintf("%s/%d", p.Topic, p.Partition)
}

func (v view) partition(p consumer.PartitionStatus, names int, paint func(string, string) string) string {
	state, tone := "flows", green
	switch {
	case p.Refused != "":
		state, tone = "refused: "+p.Refused, red
	case len(p.Reasons) > 0 && p.Paused:
		state, tone = "paused: "+strings.Join(p.Reasons, ", "), yellow
	case len(p.Reasons) > 0:
		state, tone = "waits: "+strings.Join(p.Reasons, ", "), yellow
	}
	line := fmt.Sprintf("%-*s %s %3d buffered", names, partitionName(p), paint(tone, fmt.Sprintf("%-22s", state)), p.Records)
	for _, h := range v.status.Held {
		if h.Topic == p.Topic && h.Partition == p.Partition {
			line += fmt.Sprintf("  @%d failed %d×", h.Offset, h.Attempts)
			if left := h.RetryAt.Sub(v.now); h.WaitsFor == "retry" && left > 0 {
				line += ", waits " + seconds(left)
			} else if h.WaitsFor != "retry" {
				line += ", waits for: " + h.WaitsFor
			}
		}
	}
	return line
}

func (v view) sum() string {
	f := v.figures
	return fmt.Sprintf("produced  %d = %d handled + %d dead-lettered + %d to come", f.produced, f.handled, f.dead, max(f.produced-f.handled-f.dead, 0))
}

// line is the picture where there is only a line for it.
func (v view) line() string {
	b := v.status.Breaker
	state := "breaker " + b.State
	if left := b.RetryAt.Sub(v.now); left > 0 {
		state += ", next call in " + seconds(left)
	}
	return state + "; produced " + strings.TrimPrefix(v.sum(), "produced  ")
}

// bar is a countdown to look at: a sign for each quarter of a second, no longer than fits.
func bar(left time.Duration) string {
	return strings.Repeat("▪", min(int(left/(250*time.Millisecond))+1, 20))
}

func seconds(d time.Duration) string {
	if d >= time.Minute {
		return d.Round(time.Second).String()
	}
	return fmt.Sprintf("%.1fs", d.Seconds())
}

func calls(n int) string {
	if n == 1 {
		return "1 call"
	}
	return fmt.Sprintf("%d calls", n)
}

// Observe writes an event's line.
func (b *board) Observe(e observe.Event) {
	tag, tone, text := tell(e)
	b.say(tag, tone, text)
}

// tell says an event in few words, and those that are rare in the words of observe.
func tell(e observe.Event) (tag, tone, text string) {
	record := fmt.Sprintf("%s/%d@%d", e.Topic, e.Partition, e.Offset)
	next := ""
	if !e.RetryAt.IsZero() {
		next = "next call in " + seconds(e.RetryAt.Sub(e.At))
	}
	switch e.Kind {
	case observe.Started:
		return "start", plain, e.Text
	case observe.Stopping:
		return "end", plain, "the consumer finishes what it has in hand, commits and leaves"
	case observe.Stopped:
		return "end", plain, "the consumer has left"
	case observe.Assigned:
		return "group", plain, fmt.Sprintf("%d partitions assigned", e.Count)
	case observe.Tripped:
		return "OPEN", red, fmt.Sprintf("%s: %v. All pause, %s", record, e.Err, next)
	case observe.AlsoFailed:
		return "failed", red, fmt.Sprintf("%s: %v. Was under way, waits too", record, e.Err)
	case observe.Probing:
		return "probe", yellow, fmt.Sprintf("%s, attempt %d", record, e.Attempt)
	case observe.ProbeFailed:
		return "failed", red, fmt.Sprintf("%s: %v. Stays open, %s", record, e.Err, next)
	case observe.Closed:
		return "CLOSED", green, fmt.Sprintf("%s succeeded after %s: everything resumes", record, seconds(e.For))
	case observe.Held:
		if next == "" {
			next = "no interval is left"
		}
		return "held", yellow, fmt.Sprintf("%s: %v. Waits alone, %s", record, e.Err, next)
	case observe.Released:
		return "done", green, record + ", which had failed"
	case observe.DeadLettered:
		return "DLQ", red, fmt.Sprintf("%s after %s: %s", record, calls(e.Attempt), e.Text)
	case observe.Reloaded:
		return "edit", yellow, e.Text
	case observe.ReloadRefused:
		return "edit", red, fmt.Sprintf("%s; %v", e.Kind.Sentence(), e.Err)
	}
	text = e.Kind.Sentence()
	if e.Topic != "" {
		text = record + ": " + text
	}
	if e.Text != "" {
		text += ": " + e.Text
	}
	if e.Err != nil {
		text += fmt.Sprintf(": %v", e.Err)
	}
	return "note", [...]string{observe.Info: plain, observe.Warn: yellow, observe.Error: red}[e.Kind.Severity()], text
}
