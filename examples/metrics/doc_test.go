package metrics_test

import (
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/yaml"

	"github.com/gvrwatch/gvrwatch/examples/metrics"
	"github.com/gvrwatch/gvrwatch/mux/follow"
	"github.com/gvrwatch/gvrwatch/stream"
)

func read(t *testing.T, file string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

var described = regexp.MustCompile(`fqName: "([^"]+)".*variableLabels: \{([^}]*)\}`)

// names returns all metrics with their labels, as "name{label,label}".
func names(t *testing.T) []string {
	t.Helper()
	descs := make(chan *prometheus.Desc, 100)
	metrics.New().Describe(descs)
	close(descs)
	var all []string
	for d := range descs {
		found := described.FindStringSubmatch(d.String())
		if found == nil {
			t.Fatalf("unknown form of %s", d)
		}
		name := found[1]
		if found[2] != "" {
			name += "{" + found[2] + "}"
		}
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}

// TestMetricsAreDocumented: doc.go and docs/operations.md list each metric with its labels and type, and no other.
func TestMetricsAreDocumented(t *testing.T) {
	want := map[string]bool{}
	for _, name := range names(t) {
		want[name] = true
	}
	types := map[string]string{}
	typed := regexp.MustCompile(`# TYPE (\S+) (\S+)`)
	for _, f := range typed.FindAllStringSubmatch(read(t, "testdata/metrics.txt"), -1) {
		types[f[1]] = f[2]
	}
	for file, row := range map[string]*regexp.Regexp{
		"doc.go":                   regexp.MustCompile(`(?m)^//   - ((?:gvrwatch|reflector)_\S+?), a (\w+):`),
		"../../docs/operations.md": regexp.MustCompile("(?m)^\\| `((?:gvrwatch|reflector)_\\S+)` \\| (\\w+) \\|"),
	} {
		got := map[string]bool{}
		for _, found := range row.FindAllStringSubmatch(read(t, file), -1) {
			got[found[1]] = true
			name, _, _ := strings.Cut(found[1], "{")
			if types[name] != found[2] {
				t.Errorf("%s: %s is a %s in testdata/metrics.txt, a %s here", file, name, types[name], found[2])
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-exported +documented):\n%s", file, diff)
		}
	}
}

// rules is the file of Prometheus' alert rules.
type rules struct {
	Groups []struct {
		Name  string `json:"name"`
		Rules []struct {
			Alert       string            `json:"alert"`
			Expr        string            `json:"expr"`
			For         string            `json:"for"`
			Labels      map[string]string `json:"labels"`
			Annotations map[string]string `json:"annotations"`
		} `json:"rules"`
	} `json:"groups"`
}

var (
	metricName = regexp.MustCompile(`\b(?:gvrwatch|reflector)_\w+`)
	selector   = regexp.MustCompile(`(\w+)\{([^}]*)\}`)
	matcher    = regexp.MustCompile(`(\w+)(?:=~|!~|!=|=)"([^"]*)"`)
	duration   = regexp.MustCompile(`^\d+[smhd]$`)
)

// values are those of labels in alert rules.
var values = map[string][]string{
	"state": {
		string(stream.Listing), string(stream.Backoff), string(stream.Stalled), string(stream.Unauthorized),
		string(stream.Forbidden), string(stream.Gone), string(stream.Stopped), string(follow.Failing),
		string(follow.Dropped), string(follow.Unserved),
	},
	"history_lost": {"true", "false"},
	"reason":       {string(stream.GapExpired), string(stream.GapRewound), string(stream.GapPoison)},
}

// labelsOf returns the labels of each metric, separated by commas.
func labelsOf(t *testing.T) map[string]string {
	t.Helper()
	labels := map[string]string{}
	for _, name := range names(t) {
		name, l, _ := strings.Cut(name, "{")
		labels[name] = strings.TrimSuffix(l, "}")
	}
	return labels
}

// checkNames fails if an expression has no metric, or one that does not exist.
func checkNames(t *testing.T, labels map[string]string, where, expr string) {
	t.Helper()
	used := metricName.FindAllString(expr, -1)
	if len(used) == 0 {
		t.Errorf("%s uses no metric", where)
	}
	for _, name := range used {
		if _, ok := labels[name]; !ok {
			t.Errorf("%s: there is no metric %s", where, name)
		}
	}
}

var (
	grouping = regexp.MustCompile(`\b(?:by|without) \(([^)]*)\)`)
	shown    = regexp.MustCompile(`\{\{(\w+)\}\}`)
)

// TestDashboardUsesExistingMetrics: the panels of docs/dashboard.json have no metric or label that does not exist.
func TestDashboardUsesExistingMetrics(t *testing.T) {
	var dashboard struct {
		Panels []struct {
			Title, Description, Type string
			Targets                  []struct{ Expr, LegendFormat string }
		}
		Templating struct {
			List []struct{ Name, Query string }
		}
	}
	if err := json.Unmarshal([]byte(read(t, "../../docs/dashboard.json")), &dashboard); err != nil {
		t.Fatal(err)
	}
	labels := labelsOf(t)
	check := func(where, expr, legend string) {
		checkNames(t, labels, where, expr)
		known := []string{"job", "instance"} // that scraping adds
		for _, name := range metricName.FindAllString(expr, -1) {
			known = append(known, strings.Split(labels[name], ",")...)
		}
		var used []string
		for _, g := range grouping.FindAllStringSubmatch(expr, -1) {
			used = append(used, strings.Split(g[1], ", ")...)
		}
		for _, s := range selector.FindAllStringSubmatch(expr, -1) {
			for _, m := range matcher.FindAllStringSubmatch(s[2], -1) {
				used = append(used, m[1])
			}
		}
		for _, l := range shown.FindAllStringSubmatch(legend, -1) {
			used = append(used, l[1])
		}
		for _, label := range used {
			if !slices.Contains(known, label) {
				t.Errorf("%s: no metric has the label %s", where, label)
			}
		}
	}
	for _, p := range dashboard.Panels {
		if p.Title == "" || p.Description == "" || p.Type == "" || len(p.Targets) == 0 {
			t.Errorf("a panel lacks a field: %+v", p)
		}
		for _, target := range p.Targets {
			check(p.Title, target.Expr, target.LegendFormat)
		}
	}
	for _, v := range dashboard.Templating.List {
		if metric, found := strings.CutPrefix(v.Query, "label_values("); found {
			check(v.Name, metric, "")
		}
	}
	if len(dashboard.Panels) < 8 {
		t.Errorf("found only %d panels", len(dashboard.Panels))
	}
}

// TestAlertsUseExistingMetrics: each rule has the fields that an alert needs, its expression has no metric, label or
// label value that does not exist, and docs/operations.md says what to do.
func TestAlertsUseExistingMetrics(t *testing.T) {
	var file rules
	if err := yaml.UnmarshalStrict([]byte(read(t, "../../docs/alerts.yaml")), &file); err != nil {
		t.Fatal(err)
	}
	labels := labelsOf(t)
	page := read(t, "../../docs/operations.md")
	alerts := map[string]bool{}
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			alerts[r.Alert] = true
			if r.Alert == "" || r.Expr == "" || !duration.MatchString(r.For) || r.Labels["severity"] == "" ||
				r.Annotations["summary"] == "" || r.Annotations["description"] == "" {
				t.Errorf("%s lacks a field: %+v", r.Alert, r)
			}
			if !strings.Contains(page, "| `"+r.Alert+"` |") {
				t.Errorf("docs/operations.md does not say what to do about %s", r.Alert)
			}
			checkNames(t, labels, r.Alert, r.Expr)
			for _, s := range selector.FindAllStringSubmatch(r.Expr, -1) {
				for _, m := range matcher.FindAllStringSubmatch(s[2], -1) {
					if !slices.Contains(strings.Split(labels[s[1]], ","), m[1]) {
						t.Errorf("%s: %s has no label %s", r.Alert, s[1], m[1])
					}
					for value := range strings.SplitSeq(m[2], "|") {
						if !slices.Contains(values[m[1]], value) {
							t.Errorf("%s: the label %s has no value %q", r.Alert, m[1], value)
						}
					}
				}
			}
		}
	}
	if len(alerts) < 8 {
		t.Errorf("found only the alerts %q", slices.Sorted(maps.Keys(alerts)))
	}
}

// TestAlertsFire runs the rules on series of their own, if Prometheus' promtool is installed.
func TestAlertsFire(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("needs promtool (Debian package prometheus)")
	}
	cmd := exec.CommandContext(t.Context(), promtool, "test", "rules", "alerts_test.yaml")
	cmd.Dir = "testdata"
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v:\n%s", err, out)
	}
}
