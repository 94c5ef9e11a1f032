package main

import (
	"net/http"
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
	registry         *prometheus.Registry
	events, gaps     *prometheus.CounterVec
	commits, refused prometheus.Counter
	bytes            prometheus.Counter
	duration         prometheus.Histogram
	status           func() engine.Member
}

func newMetrics(connected func() bool, status func() engine.Member) *metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "gvrwatch_relay_" + name, Help: help})
	}
	m := &metrics{
		status:   status,
		registry: prometheus.NewRegistry(),
		events: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "gvrwatch_relay_events_total", Help: "Messages in the log.",
		}, []string{"cluster", "resource", "type"}),
		gaps: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "gvrwatch_relay_gaps_total", Help: "Gaps in the watches.",
		}, []string{"cluster", "resource", "reason"}),
		commits: counter("commits_total", "Batches that the engine has accepted."),
		refused: counter("refused_total", "Batches that were refused because another replica had taken the unit."),
		bytes:   counter("bytes_total", "Bytes of messages in the log."),
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "gvrwatch_relay_commit_duration_seconds", Help: "How long the engine took to accept a batch.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2, 14),
		}),
	}
	m.registry.MustRegister(m.events, m.gaps, m.commits, m.refused, m.bytes, m.duration, m,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "gvrwatch_relay_engine_connected", Help: "1 if there is a connection to the engine.",
		}, func() float64 { return number(connected()) }),
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
			resource := msg.Unit.Resource
			if msg.Unit.Group != "" {
				resource += "." + msg.Unit.Group
			}
			m.events.WithLabelValues(msg.Unit.Cluster, resource, string(msg.Type)).Inc()
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

var (
	owned = prometheus.NewDesc("gvrwatch_relay_units_owned", "Units that this replica publishes.", nil, nil)
	// The labels of a unit are cluster, resource and namespace.
	synced  = unitMetric("unit_synced", "1 if everything that exists has been received.")
	pending = unitMetric("unit_pending_events", "Events that are received and not in the log.")
	lag     = unitMetric("unit_lag_seconds", "Age of the oldest event that is not in the log.")
	objects = unitMetric("unit_objects", "Objects that exist.")
	// With queue.overflow: latest.
	coalesced = unitMetric("unit_coalesced_events", "Events that became part of a newer one since the unit was taken.")
)

func unitMetric(name, help string) *prometheus.Desc {
	return prometheus.NewDesc("gvrwatch_relay_"+name, help, []string{"cluster", "resource", "namespace"}, nil)
}

// Describe implements prometheus.Collector.
func (m *metrics) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{owned, synced, pending, lag, objects, coalesced} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (m *metrics) Collect(out chan<- prometheus.Metric) {
	units := m.status().Units
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	gauge(owned, float64(len(units)))
	for _, u := range units {
		resource := u.Unit.Resource
		if u.Unit.Group != "" {
			resource += "." + u.Unit.Group
		}
		labels := []string{u.Unit.Cluster, resource, u.Unit.Namespace}
		gauge(synced, number(u.Synced), labels...)
		gauge(pending, float64(u.Pending), labels...)
		gauge(lag, u.Lag.Seconds(), labels...)
		gauge(objects, float64(u.Objects), labels...)
		gauge(coalesced, float64(u.Coalesced), labels...)
	}
}
