package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/gvrwatch/gvrwatch/examples/relay/engine"
	"github.com/gvrwatch/gvrwatch/examples/relay/message"
	"github.com/gvrwatch/gvrwatch/examples/relay/relay"
	"github.com/gvrwatch/gvrwatch/stream"
)

// gather returns the series of a relay that has units of Pods in two namespaces, and has published messages of all
// kinds, as "name{label=value,...} value".
func gather(t *testing.T, cfg relay.Config) []string {
	t.Helper()
	m := newMetrics(&cfg, &running{})
	pods := engine.Unit{Cluster: "main", Resource: "pods"}
	split := func(ns string, s engine.UnitStatus) engine.UnitStatus {
		s.Unit = pods
		s.Unit.Namespace = ns
		return s
	}
	m.status = func() engine.Member {
		return engine.Member{
			Units: []engine.UnitStatus{
				split("a", engine.UnitStatus{Synced: true, Objects: 3, Pending: 1, Lag: time.Second, Coalesced: 5}),
				split("b", engine.UnitStatus{Objects: 4, Pending: 2, Lag: 2 * time.Second, Coalesced: 6}),
				{Unit: engine.Unit{Cluster: "main", Group: "apps", Resource: "deployments"}, Synced: true, Objects: 1},
			},
			Waiting: []engine.UnitStatus{
				split("c", engine.UnitStatus{State: "Held"}), split("d", engine.UnitStatus{State: "Waiting"}),
			},
			Problems: []string{"one"},
		}
	}
	limit := 0
	encoder := message.NewEncoder(message.EncoderOptions{Cluster: "main", Limit: func() int { return limit }})
	o := m.observer()
	publish := func(ev stream.Event, r *message.Redaction) {
		t.Helper()
		msg, err := encoder.Encode(pods, ev, 1, r)
		if err != nil {
			t.Fatal(err)
		}
		o.Published(msg)
	}
	const whole = `{"metadata":{"name":"p","namespace":"a","uid":"u"},"redactionfailed":true,"truncated":true}`
	object := func(typ stream.Type, text string) stream.Event {
		return stream.Event{Type: typ, JSON: json.RawMessage(text), ResourceVersion: "1"}
	}
	redaction, err := message.ParseRedaction([]string{"$.spec"})
	if err != nil {
		t.Fatal(err)
	}
	limit = 1 << 20
	publish(object(stream.Added, whole), nil) // what looks like attributes is in the object
	publish(object(stream.Deleted, whole[:len(whole)-1]), redaction)
	limit = 1
	publish(object(stream.Modified, whole), nil)
	publish(stream.Event{Type: stream.Gap, Gap: &stream.GapDetails{Reason: stream.GapExpired}}, nil)
	publish(stream.Event{Type: stream.Synced, ResourceVersion: "4"}, nil)
	o.Published(encoder.EncodeSkipped(pods, object(stream.Added, whole), 1, engine.ErrTooLarge))
	o.Committed(5, 100, 3*time.Millisecond)
	o.Refused(pods)
	families, err := m.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, f := range families {
		if !strings.HasPrefix(f.GetName(), "gvrwatch_") {
			continue
		}
		for _, series := range f.GetMetric() {
			var labels []string
			for _, l := range series.GetLabel() {
				labels = append(labels, l.GetName()+"="+l.GetValue())
			}
			value := series.GetGauge().GetValue() + series.GetCounter().GetValue() +
				series.GetHistogram().GetSampleSum() // two of them are zero
			all = append(all, fmt.Sprintf("%s{%s} %g", f.GetName(), strings.Join(labels, ","), value))
		}
	}
	return all
}

// TestMetrics: units of a resource are added up, and nothing names a namespace, unless the configuration asks for it.
func TestMetrics(t *testing.T) {
	lease := relay.Replica{Lease: metav1.Duration{Duration: 15 * time.Second}}
	const apps = "cluster=main,resource=deployments.apps"
	want := []string{
		`gvrwatch_relay_bytes_total{} 100`,
		`gvrwatch_relay_commit_duration_seconds{} 0.003`,
		`gvrwatch_relay_commits_total{} 1`,
		`gvrwatch_relay_engine_connected{} 0`,
		`gvrwatch_relay_events_total{cluster=main,resource=pods,type=added} 1`,
		`gvrwatch_relay_events_total{cluster=main,resource=pods,type=deleted} 1`,
		`gvrwatch_relay_events_total{cluster=main,resource=pods,type=gap} 1`,
		`gvrwatch_relay_events_total{cluster=main,resource=pods,type=modified} 1`,
		`gvrwatch_relay_events_total{cluster=main,resource=pods,type=skipped} 1`,
		`gvrwatch_relay_events_total{cluster=main,resource=pods,type=synced} 1`,
		`gvrwatch_relay_gaps_total{cluster=main,reason=expired,resource=pods} 1`,
		`gvrwatch_relay_lease_seconds{} 15`,
		`gvrwatch_relay_problems{} 1`,
		`gvrwatch_relay_ready{} 0`,
		`gvrwatch_relay_refused_total{} 1`,
		`gvrwatch_relay_truncated_total{cluster=main,reason=redaction_failed,resource=pods} 1`,
		`gvrwatch_relay_truncated_total{cluster=main,reason=too_large,resource=pods} 1`,
		`gvrwatch_relay_unit_coalesced_events{` + apps + `} 0`,
		`gvrwatch_relay_unit_coalesced_events{cluster=main,resource=pods} 11`,
		`gvrwatch_relay_unit_lag_seconds{` + apps + `} 0`,
		`gvrwatch_relay_unit_lag_seconds{cluster=main,resource=pods} 2`,
		`gvrwatch_relay_unit_objects{` + apps + `} 1`,
		`gvrwatch_relay_unit_objects{cluster=main,resource=pods} 7`,
		`gvrwatch_relay_unit_pending_events{` + apps + `} 0`,
		`gvrwatch_relay_unit_pending_events{cluster=main,resource=pods} 3`,
		`gvrwatch_relay_unit_synced{` + apps + `} 1`,
		`gvrwatch_relay_unit_synced{cluster=main,resource=pods} 0`,
		`gvrwatch_relay_units_owned{} 3`,
		`gvrwatch_relay_units_waiting{} 1`,
	}
	if d := cmp.Diff(want, gather(t, relay.Config{Replica: lease})); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
	named := gather(t, relay.Config{Replica: lease, Metrics: relay.Metrics{Namespaces: true}})
	for _, want := range []string{
		`gvrwatch_relay_unit_objects{cluster=main,namespace=a,resource=pods} 3`,
		`gvrwatch_relay_unit_objects{cluster=main,namespace=b,resource=pods} 4`,
		`gvrwatch_relay_unit_objects{cluster=main,namespace=,resource=deployments.apps} 1`,
	} {
		if !slices.Contains(named, want) {
			t.Errorf("with metrics.namespaces there is no %s", want)
		}
	}
}

// expressions returns the PromQL in deploy, by where it stands, with the labels that texts beside it show.
func expressions(t *testing.T) map[string]expression {
	t.Helper()
	all := map[string]expression{}
	var rules struct {
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
	if err := yaml.UnmarshalStrict(contentOf(t, "deploy/alerts.yaml"), &rules); err != nil {
		t.Fatal(err)
	}
	for _, g := range rules.Groups {
		for _, r := range g.Rules {
			if r.For == "" || r.Labels["severity"] == "" || r.Annotations["summary"] == "" ||
				r.Annotations["description"] == "" {
				t.Errorf("%s lacks a field: %+v", r.Alert, r)
			}
			all["alert "+r.Alert] = expression{text: r.Expr, shows: fmt.Sprint(r.Annotations)}
		}
	}
	var dashboard struct {
		Panels []struct {
			Title, Description, Type string
			Targets                  []struct{ Expr, LegendFormat string }
		}
		Templating struct {
			List []struct{ Name, Query string }
		}
	}
	if err := json.Unmarshal(contentOf(t, "deploy/dashboard.json"), &dashboard); err != nil {
		t.Fatal(err)
	}
	for _, p := range dashboard.Panels {
		if p.Title == "" || p.Description == "" || p.Type == "" || len(p.Targets) == 0 {
			t.Errorf("a panel lacks a field: %+v", p)
		}
		for i, target := range p.Targets {
			e := expression{text: target.Expr, shows: target.LegendFormat}
			all[fmt.Sprintf("panel %s, target %d", p.Title, i)] = e
		}
	}
	for _, v := range dashboard.Templating.List {
		if metric, found := strings.CutPrefix(v.Query, "label_values("); found {
			all["variable "+v.Name] = expression{text: strings.TrimSuffix(metric, ", job)")}
		}
	}
	return all
}

type expression struct {
	text  string // PromQL
	shows string // labels, in {{ }}
}

func contentOf(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

var (
	metricName = regexp.MustCompile(`\bgvrwatch_\w+`)
	selection  = regexp.MustCompile(`(\w+)\{([^}]*)\}`)
	matcher    = regexp.MustCompile(`(\w+)(?:=~|!~|!=|=)"([^"]*)"`)
	grouping   = regexp.MustCompile(`\b(?:by|without|on|ignoring|group_left|group_right) \(([^)]*)\)`)
	shown      = regexp.MustCompile(`\{\{ *(?:\$labels\.)?(\w+) *\}\}`)
)

// TestExpressionsUseExistingMetrics: the alert rules and the dashboard have no metric, label or label value that the
// relay has not, and each metric is in one of them.
func TestExpressionsUseExistingMetrics(t *testing.T) {
	// The values of each label of each metric, and those that scraping adds.
	metrics := map[string]map[string][]string{}
	for _, series := range gather(t, relay.Config{}) {
		name, rest, _ := strings.Cut(series, "{")
		text, _, _ := strings.Cut(rest, "}")
		names := []string{name}
		if strings.HasSuffix(name, "_duration_seconds") {
			names = []string{name + "_bucket", name + "_sum", name + "_count"}
		}
		for _, name := range names {
			if metrics[name] == nil {
				metrics[name] = map[string][]string{"job": {"$job"}, "instance": nil}
			}
			if strings.HasSuffix(name, "_bucket") {
				metrics[name]["le"] = nil
			}
			for _, label := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' }) {
				key, value, _ := strings.Cut(label, "=")
				metrics[name][key] = append(metrics[name][key], value)
			}
		}
	}
	unused := maps.Clone(metrics)
	for where, e := range expressions(t) {
		labels := map[string]bool{"value": true}
		used := metricName.FindAllString(e.text, -1)
		if len(used) == 0 {
			t.Errorf("%s: no metric in %s", where, e.text)
		}
		for _, name := range used {
			delete(unused, name)
			if metrics[name] == nil {
				t.Errorf("%s: there is no metric %s", where, name)
			}
			for label := range metrics[name] {
				labels[label] = true
			}
		}
		for _, s := range selection.FindAllStringSubmatch(e.text, -1) {
			for _, m := range matcher.FindAllStringSubmatch(s[2], -1) {
				values, found := metrics[s[1]][m[1]]
				if !found || !slices.Contains(values, m[2]) {
					t.Errorf("%s: %s has no label %s with the value %q", where, s[1], m[1], m[2])
				}
			}
		}
		for _, g := range grouping.FindAllStringSubmatch(e.text, -1) {
			for label := range strings.FieldsFuncSeq(g[1], func(r rune) bool { return r == ',' || r == ' ' }) {
				if !labels[label] {
					t.Errorf("%s: no metric has the label %s", where, label)
				}
			}
		}
		for _, l := range shown.FindAllStringSubmatch(e.shows, -1) {
			if !labels[l[1]] {
				t.Errorf("%s shows the label %s, which no metric has", where, l[1])
			}
		}
	}
	for name := range unused {
		if !strings.HasSuffix(name, "_sum") && !strings.HasSuffix(name, "_count") {
			t.Errorf("neither a rule nor the dashboard uses %s", name)
		}
	}
}

// TestExpressionsAreValid runs the rules on series of their own, and parses what the dashboard has, if Prometheus'
// promtool is installed.
func TestExpressionsAreValid(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("needs promtool (Debian package prometheus)")
	}
	var records []map[string]string
	for where, e := range expressions(t) {
		text := strings.NewReplacer("$__rate_interval", "5m", "$job", ".*").Replace(e.text)
		records = append(records, map[string]string{
			"record": "r", "expr": text + " # " + strings.ReplaceAll(where, "\n", " "),
		})
	}
	rules, err := yaml.Marshal(map[string]any{"groups": []any{map[string]any{"name": "all", "rules": records}}})
	file := filepath.Join(t.TempDir(), "rules.yaml")
	if err == nil {
		err = os.WriteFile(file, rules, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"check", "rules", file}, {"test", "rules", "testdata/alerts_test.yaml"}} {
		if out, err := exec.CommandContext(t.Context(), promtool, args...).CombinedOutput(); err != nil {
			t.Errorf("%v:\n%s", err, out)
		}
	}
}
