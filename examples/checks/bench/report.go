package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

// row has the name and the figures of a row, as in the JSON file: see the package documentation.
type row map[string]any

// figure returns a figure of the row with a name, or NaN.
func figure(rows []row, name, figure string) float64 {
	for _, r := range rows {
		if v, ok := r[figure].(float64); ok && r["name"] == name {
			return v
		}
	}
	return math.NaN()
}

// add adds the outcome of a measurement's run.
func add(rows []row, m measurement, figures map[string]float64, err error) []row {
	name, base := m.row()
	i := slices.IndexFunc(rows, func(r row) bool { return r["name"] == name })
	if i < 0 {
		i = len(rows)
		rows = append(rows, row{"name": name, "what": m.Peer.What, "base": base, "object_size": m.Load.Size,
			"gogc": float64(m.GOGC), "live_mb": float64(m.Live)})
	}
	for f, v := range figures {
		runs, _ := rows[i][f].([]float64)
		rows[i][f] = append(runs, v)
	}
	if err != nil {
		rows[i]["error"] = fmt.Sprintf("%s: %v", m.Kind, err)
	}
	return rows
}

// summarize replaces the figures of all runs by their medians, and adds what follows from them.
func summarize(rows []row) {
	for _, r := range rows {
		most := 0
		for f, v := range r {
			if runs, ok := v.([]float64); ok {
				slices.Sort(runs)
				r[f], most = (runs[(len(runs)-1)/2]+runs[len(runs)/2])/2, max(most, len(runs))
			}
		}
		r["runs"] = float64(most)
	}
	for _, r := range rows {
		for f, ratio := range map[string]string{speed: "ratio", "initial_events_per_s": "ratio",
			"first_snapshot_ms": "ratio", "cpu_us_per_event": "cpu_ratio"} {
			v := figure(rows, r["name"].(string), f) / figure(rows, r["base"].(string), f)
			if !strings.HasSuffix(f, "_per_s") {
				v = 1 / v
			}
			if !math.IsNaN(v) {
				r[ratio] = v
			}
		}
	}
}

// report prints the tables that have figures. It returns an error that names the failed measurements, if any.
func report(w io.Writer, rows []row) (err error) {
	const costs = " ratio cpu_us_per_event cpu_ratio allocs_per_event bytes_per_event peak_rss_mb"
	table(w, rows, "Events, as fast as the peer reads", speed+costs)
	for _, rate := range []string{"1000", "4000"} {
		figures := "latency_p50_us_RATE latency_p99_us_RATE latency_max_us_RATE latency_reached_RATE"
		table(w, rows, "Latency at "+rate+" events/s", strings.ReplaceAll(figures, "RATE", rate))
	}
	table(w, rows, "First snapshot", "first_snapshot_ms ratio peak_rss_mb base_rss_mb objects")
	table(w, rows, "Live heap with all objects known", "heap_bytes_per_object")
	for _, t := range cacheTables {
		table(w, withRatios(rows), t[0], t[1])
	}
	table(w, rows, "Initial events of the embedded API server", "initial_events_per_s"+costs)
	table(w, verdicts(rows), "Targets", "wanted measured verdict")
	for _, r := range rows {
		if r["error"] != nil {
			err = errors.Join(err, fmt.Errorf("%s failed: %s", r["name"], r["error"]))
		}
	}
	return err
}

// table prints the rows that have the first of the columns, as Markdown.
func table(w io.Writer, rows []row, title, columns string) {
	names := strings.Fields(columns)
	t := tabwriter.NewWriter(w, 0, 0, 1, ' ', 0)
	head := fmt.Sprintf("\n%s:\n\n|\t| %s\t|\n|---\t%s|\n", title, strings.Join(names, "\t| "),
		strings.Repeat("|---:\t", len(names)))
	for _, r := range rows {
		if r[names[0]] == nil {
			continue
		}
		fmt.Fprintf(t, "%s| %s", head, r["name"])
		head = ""
		for _, name := range names {
			cell := r[name]
			if v, ok := cell.(float64); ok {
				cell = number(v)
			} else if cell == nil {
				cell = "" // not every cache has a reader
			}
			fmt.Fprintf(t, "\t| %v", cell)
		}
		fmt.Fprintln(t, "\t|")
	}
	t.Flush()
}

// number formats v with at least three digits, and at most four decimals.
func number(v float64) string {
	decimals := 2 - int(math.Log10(max(v, 1e-9)))
	return strconv.FormatFloat(v, 'f', min(max(decimals, 0), 4), 64)
}

const (
	speed, cpu     = "events_per_s", "cpu_us_per_event"
	p99, perObject = "latency_p99_us_", "heap_bytes_per_object"
)

// target is a bound of the ratio of a figure of two rows, or of the figure if there is one row. It is an upper bound if
// it is negative.
type target struct {
	what, figure, of, to string
	bound                float64
}

var targets = append([]target{
	{"full objects, to dynamic", speed, "ours", "dynamic", 9.8},
	{"full objects of 11 KB", speed, "ours-11k", "dynamic-11k", 8},
	{"full objects at GOGC=400, to dynamic at 100", speed, "ours-gogc400", "dynamic", 11.5},
	{"full objects, both at GOGC=400", speed, "ours-gogc400", "dynamic-gogc400", 11.5},
	{"raw, to dynamic", speed, "ours-raw", "dynamic", 40},
	{"metadata, to dynamic", speed, "ours-metadata", "dynamic", 40},
	{"metadata, to the metadata informer", speed, "ours-metadata", "metadata-informer", 1.5},
	{"Select 10 %, to dynamic", speed, "ours-select10", "dynamic", 40},
	{"Select none, to dynamic", speed, "ours-select0", "dynamic", 120},
	{"informer on NewClient, to dynamicinformer", speed, "informer-on-ours", "dynamicinformer", 8.5},
	{"informer door, to dynamicinformer", speed, "ours-informer", "dynamicinformer", 7},
	{"Mux of eight, to a Stream", speed, "ours-mux8", "ours", 0.9},
	{"Mux of eight, raw", speed, "ours-mux8-raw", "ours-raw", 0.9},
	{"Mux of eight, metadata", speed, "ours-mux8-metadata", "ours-metadata", 0.9},
	{"Mux of eight, Select 10 %", speed, "ours-mux8-select10", "ours-select10", 0.9},
	{"checkpoint, to a Stream without", speed, "ours-checkpoint", "ours", 0.85},
	{"first snapshot: List, to a streaming list", "first_snapshot_ms", "dynamic-list", "ours-watchlist", 8},
	{"first snapshot: List, to pages", "first_snapshot_ms", "dynamic-list", "ours-pages", 8},
	{"its memory: List, to a streaming list", "peak_rss_mb", "dynamic-list", "ours-watchlist", 20},
	{"its memory: List, to pages", "peak_rss_mb", "dynamic-list", "ours-pages", 20},
	{"heap: dynamicinformer, to a Store", perObject, "dynamicinformer", "ours-store", 5},
	{"heap: dynamicinformer, to a Store with Compress", perObject, "dynamicinformer", "ours-store-compressed", 12},
	{"p99 at 1,000/s, us", p99 + "1000", "ours", "", -400},
	{"p99 at 4,000/s: dynamic, to ours", p99 + "4000", "dynamic", "ours", 10},
}, cacheTargets()...)

// verdicts returns which targets are met, or by how much they are missed.
func verdicts(rows []row) (all []row) {
	for _, g := range targets {
		v, side, verdict := figure(rows, g.of, g.figure), "at least", "met"
		if g.to != "" {
			v /= figure(rows, g.to, g.figure)
		}
		missed := 1 - v/g.bound
		if g.bound < 0 {
			side, missed = "at most", v/-g.bound-1
		}
		if missed > 0 {
			verdict = fmt.Sprintf("missed by %.0f %%", math.Ceil(missed*100))
		}
		if !math.IsNaN(v) {
			wanted := side + " " + number(math.Abs(g.bound))
			all = append(all, row{"name": g.what, "wanted": wanted, "measured": v, "verdict": verdict})
		}
	}
	return all
}

// chart returns a bar chart of the ratios to client-go's dynamic Watch, as SVG. Its colors follow those of the reader's
// system.
func chart(rows []row) []byte {
	const left, most = 330, 400
	shown, longest := []row{}, 0.0
	for _, r := range rows {
		if r[speed] != nil && r["ratio"] != nil && r["base"] == "dynamic" {
			shown, longest = append(shown, r), max(longest, r["ratio"].(float64))
		}
	}
	slices.SortStableFunc(shown, func(a, b row) int { return cmp.Compare(a["ratio"].(float64), b["ratio"].(float64)) })
	svg := fmt.Appendf(nil, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif">
<style>
text { fill: #24292f; font-size: 13px } .theirs { fill: #8c959f } .ours { fill: #0969da }
@media (prefers-color-scheme: dark) { text { fill: #e6edf3 } .theirs { fill: #6e7681 } .ours { fill: #58a6ff } }
</style>
<text x="10" y="20">Events per second, as a multiple of client-go's dynamic Watch (Pods of 2.8 KB)</text>
`, left+most+60, 24*len(shown)+40)
	for i, r := range shown {
		y, class, ratio := 34+24*i, "theirs", r["ratio"].(float64)
		if strings.Contains(r["name"].(string), "ours") {
			class = "ours"
		}
		bar := ratio / longest * most
		svg = fmt.Appendf(svg, `<text x="%d" y="%d" text-anchor="end">%s</text>`, left-8, y+13, r["what"])
		svg = fmt.Appendf(svg, `<rect class="%s" x="%d" y="%d" width="%.1f" height="18"/>`, class, left, y, bar)
		svg = fmt.Appendf(svg, `<text x="%.1f" y="%d">%s</text>`+"\n", left+bar+6, y+13, number(ratio))
	}
	return append(svg, "</svg>\n"...)
}
