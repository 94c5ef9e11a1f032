package main

import (
	"bytes"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/gvrwatch/gvrwatch/examples/relay/engine"
	"github.com/gvrwatch/gvrwatch/examples/relay/message"
	"github.com/gvrwatch/gvrwatch/examples/relay/relay"
)

// metrics are those of one replica.
type metrics struct {
	registry                *prometheus.Registry
	events, gaps, truncated *prometheus.CounterVec
	commits, refused        prometheus.Counter
	bytes                   prometheus.Counter
	duration                prometheus.Histogram
	units                   unitMetrics
	status                  func() engine.Member
}

// newMetrics returns the metrics of what runs.
func newMetrics(cfg *relay.Config, now *running) *metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "gvrwatch_relay_" + name, Help: help})
	}
	m := &metrics{
		status:   now.status,
		units:    newUnitMetrics(cfg.Metrics.Namespaces),
		registry: prometheus.NewRegistry(),
		events: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "gvrwatch_relay_events_total", Help: "Messages in the log.",
		}, []string{"cluster", "resource", "type"}),
		gaps: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "gvrwatch_relay_gaps_total", Help: "Gaps in the watches.",
		}, []string{"cluster", "resource", "reason"}),
		truncated: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "gvrwatch_relay_truncated_total",
			Help: "Messages without the whole object, which was too large, or could not be redacted.",
		}, []string{"cluster", "resource", "reason"}),
		commits: counter("commits_total", "Batches that the engine has accepted."),
		refused: counter("refused_total", "Batches that were refused because another replica had taken the unit."),
		bytes:   counter("bytes_total", "Bytes of messages in the log."),
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "gvrwatch_relay_commit_duration_seconds", Help: "How long the engine took to accept a batch.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2, 14),
		}),
	}
	gauge := func(name, help string, value func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "gvrwatch_relay_" + name, Help: help}, value)
	}
	m.registry.MustRegister(m.events, m.gaps, m.truncated, m.commits, m.refused, m.bytes, m.duration, m,
		gauge("engine_connected", "1 if there is a connection to the engine.", func() float64 {
			return number(now.connected())
		}),
		gauge("ready", "1 if /readyz answers 200.", func() float64 { return number(now.ready() == nil) }),
		gauge("lease_seconds", "replica.lease of the configuration.", cfg.Replica.Lease.Seconds),
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func (m *metrics) observer() *relay.Observer {
	return &relay.Observer{
		Published: func(msg engine.Message) {
			resource := resourceOf(msg.Unit)
			m.events.WithLabelValues(msg.Unit.Cluster, resource, string(msg.Type)).Inc()
			if reason := truncation(msg.Data); reason != "" {
				m.truncated.WithLabelValues(msg.Unit.Cluster, resource, reason).Inc()
			}
			if msg.Type == engine.Gap {
				if ev, err := message.Decode(msg.Data); err == nil && ev.Gap != nil {
					m.gaps.WithLabelValues(msg.Unit.Cluster, resource, ev.Gap.Reason).Inc()
				}
			}
		},
		Committed: func(_, bytes int, took time.Duration) {
			m.commits.Inc()
			m.bytes.Add(float64(bytes))
			m.duration.Observe(took.Seconds())
		},
		Refused: func(engine.Unit) { m.refused.Inc() },
	}
}

func (m *metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}

// truncation says why an event has not the whole object. It is empty if it has. Attributes stand before data, and a
// quotation mark within a value is escaped.
func truncation(event []byte) string {
	attributes, _, _ := bytes.Cut(event, []byte(`,"data":`))
	switch {
	case bytes.Contains(attributes, []byte(`,"redactionfailed":true`)):
		return "redaction_failed"
	case bytes.Contains(attributes, []byte(`,"truncated":true`)):
		return "too_large"
	}
	return ""
}

func resourceOf(u engine.Unit) string {
	if u.Group == "" {
		return u.Resource
	}
	return u.Resource + "." + u.Group
}

var (
	owned    = prometheus.NewDesc("gvrwatch_relay_units_owned", "Units that this replica publishes.", nil, nil)
	waiting  = prometheus.NewDesc("gvrwatch_relay_units_waiting", "Units that this replica cannot take.", nil, nil)
	problems = prometheus.NewDesc("gvrwatch_relay_problems",
		"Problems that concern no unit. relay status has their text.", nil, nil)
)

// unitMetrics are those of the units of a resource together or, with namespaces, of each namespace of those that are
// split.
type unitMetrics struct {
	namespaces                               bool
	synced, pending, lag, objects, coalesced *prometheus.Desc
}

func newUnitMetrics(namespaces bool) unitMetrics {
	labels := []string{"cluster", "resource"}
	if namespaces {
		labels = append(labels, "namespace")
	}
	metric := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc("gvrwatch_relay_"+name, help, labels, nil)
	}
	return unitMetrics{
		namespaces: namespaces,
		synced:     metric("unit_synced", "1 if everything that exists has been received."),
		pending:    metric("unit_pending_events", "Events that are received and not in the log."),
		lag:        metric("unit_lag_seconds", "Age of the oldest event that is not in the log."),
		objects:    metric("unit_objects", "Objects that exist."),
		// With queue.overflow: latest.
		coalesced: metric("unit_coalesced_events",
			"Events that became part of a newer one since the unit was taken."),
	}
}

// merge returns what the metrics show of units: one for each combination of labels, sorted.
func (u unitMetrics) merge(units []engine.UnitStatus) []engine.UnitStatus {
	merged := map[engine.Unit]engine.UnitStatus{}
	for _, s := range units {
		if !u.namespaces {
			s.Unit = s.Unit.Whole()
		}
		if other, found := merged[s.Unit]; found {
			s.Synced = s.Synced && other.Synced
			s.Lag = max(s.Lag, other.Lag)
			s.Pending, s.Objects = s.Pending+other.Pending, s.Objects+other.Objects
			s.Coalesced += other.Coalesced
		}
		merged[s.Unit] = s
	}
	return slices.SortedFunc(maps.Values(merged), func(a, b engine.UnitStatus) int { return a.Unit.Compare(b.Unit) })
}

// Describe implements prometheus.Collector.
func (m *metrics) Describe(out chan<- *prometheus.Desc) {
	u := m.units
	for _, d := range []*prometheus.Desc{
		owned, waiting, problems, u.synced, u.pending, u.lag, u.objects, u.coalesced,
	} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (m *metrics) Collect(out chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	now := m.status()
	gauge(owned, float64(len(now.Units)))
	gauge(waiting, float64(len(now.Waiting)-held(now.Waiting)))
	refused := number(now.Refused != "") // the engine takes no messages
	gauge(problems, float64(len(now.Problems))+refused)
	for _, u := range m.units.merge(now.Units) {
		labels := []string{u.Unit.Cluster, resourceOf(u.Unit)}
		if m.units.namespaces {
			labels = append(labels, u.Unit.Namespace)
		}
		gauge(m.units.synced, number(u.Synced), labels...)
		gauge(m.units.pending, float64(u.Pending), labels...)
		gauge(m.units.lag, u.Lag.Seconds(), labels...)
		gauge(m.units.objects, float64(u.Objects), labels...)
		gauge(m.units.coalesced, float64(u.Coalesced), labels...)
	}
}

// held counts the units that another replica publishes, which is no fault.
func held(units []engine.UnitStatus) (n int) {
	for _, u := range units {
		if u.State == "Held" {
			n++
		}
	}
	return n
}
