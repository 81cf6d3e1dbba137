package main

// What is printed at the end: a table for each scenario, with the columns that say something there, and under all of them what each column is.

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"

	"github.com/breakwater-go/breakwater/bench/internal/page"
	"github.com/breakwater-go/breakwater/bench/internal/tally"
)

// always are columns that are shown wherever they are measured; the others only where one of them is not zero.
var always = []string{"records_per_s", "cpu_s_per_million", "peak_rss_mb", "lost", "out_of_order", "calls_while_down", "early_calls", "rebalances",
	"first_success_ms", "drained_ms"}

func print(out io.Writer, r page.Report) {
	printed := map[string]bool{}
	for len(r.Rows) > 0 {
		scenario := r.Rows[0].Scenario
		n := slices.IndexFunc(r.Rows, func(row tally.Row) bool { return row.Scenario != scenario })
		if n < 0 {
			n = len(r.Rows)
		}
		fmt.Fprintf(out, "\n%s: %s\n", scenario, r.About[scenario])
		for _, c := range table(out, r.Rows[:n]) {
			printed[c] = true
		}
		r.Rows = r.Rows[n:]
	}
	fmt.Fprintln(out)
	for _, k := range tally.Keys {
		if printed[k.Key] {
			fmt.Fprintf(out, "  %-22s  %s\n", name(k.Key), k.About)
		}
	}
}

// name is how a key is called in a heading.
func name(key string) string { return strings.ReplaceAll(key, "_", " ") }

// table prints the rows of one scenario, and answers which columns they have.
func table(out io.Writer, rows []tally.Row) (columns []string) {
	for _, k := range tally.Keys {
		if slices.ContainsFunc(rows, func(r tally.Row) bool {
			v, measured := r.Figures[k.Key]
			return measured && (v != 0 || slices.Contains(always, k.Key))
		}) {
			columns = append(columns, k.Key)
		}
	}
	// The names would be wider than the figures, so that each column has its name on two lines.
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	for line := range 3 {
		cells := []string{""}
		for _, c := range columns {
			cells = append(cells, heading(c)[line])
		}
		if strings.TrimSpace(strings.Join(cells, "")) != "" {
			fmt.Fprintln(w, strings.Join(cells, "\t")+"\t")
		}
	}
	for _, r := range rows {
		cells := []string{r.Contender}
		for _, c := range columns {
			cells = append(cells, cell(r.Figures, c))
		}
		fmt.Fprintln(w, strings.Join(cells, "\t")+"\t")
	}
	w.Flush()
	for _, r := range rows {
		if r.Note != "" {
			fmt.Fprintf(out, "  %s: %s\n", r.Contender, r.Note)
		}
	}
	return columns
}

// heading is a key on three lines.
func heading(key string) (lines [3]string) {
	words := strings.Split(key, "_")
	i := 0
	for _, w := range words {
		if lines[i] != "" && len(lines[i])+len(w) >= 9 && i < 2 {
			i++
		}
		lines[i] = strings.TrimSpace(lines[i] + " " + w)
	}
	return lines
}

func cell(f tally.Figures, key string) string {
	v, measured := f[key]
	switch {
	case !measured:
		return "-"
	case v == float64(int64(v)) || v >= 100:
		return fmt.Sprintf("%.0f", v)
	default:
		return fmt.Sprintf("%.2f", v)
	}
}

// brief is a row in one line, for the progress.
func brief(r tally.Row) string {
	if r.Figures == nil {
		return r.Note
	}
	var parts []string
	for _, k := range []string{"lost", "out_of_order", "calls_while_down", "early_calls", "rebalances", "first_success_ms"} {
		if _, measured := r.Figures[k]; measured {
			parts = append(parts, name(k)+" "+cell(r.Figures, k))
		}
	}
	return strings.Join(parts, ", ")
}

// facts are the machine and the versions.
func facts(broker string) []string {
	_, librdkafka := kafka.LibraryVersion()
	facts := []string{
		fmt.Sprintf("%s, %s/%s, %d CPUs", runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU()),
		fmt.Sprintf("librdkafka %s, on %s", librdkafka, broker),
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				facts = append(facts, "revision "+s.Value)
			}
		}
	}
	return facts
}
