package metrics

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/gvrwatch/gvrwatch/stream"
)

// counters are what callbacks and sequences count.
type counters struct {
	requests, ended, events, gaps *prometheus.CounterVec
	lastGap                       *prometheus.GaugeVec

	// client-go has these, too.
	lists, watches, shortWatches *prometheus.CounterVec
	listDuration, itemsPerList   *prometheus.HistogramVec
	watchDuration, itemsPerWatch *prometheus.HistogramVec
}

func newCounters() counters {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help},
			append([]string{"resource"}, labels...))
	}
	histogram := func(name, help string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: name, Help: help,
			// A native histogram: with buckets of the classic kind there would be a dozen series for each resource.
			NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 100,
			NativeHistogramMinResetDuration: time.Hour,
		}, []string{"resource"})
	}
	return counters{
		requests: counter("gvrwatch_requests_total", "Requests that were answered or have failed.", "verb", "outcome"),
		ended:    counter("gvrwatch_watches_ended_total", "Watches that have ended, by the error if any.", "outcome"),
		events:   counter("gvrwatch_events_total", "Events that the loop has received.", "type"),
		gaps:     counter("gvrwatch_gaps_total", "Losses of events.", "reason", "history_lost"),
		lastGap: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "gvrwatch_last_gap_timestamp_seconds", Help: "When the loop received the last GAP.",
		}, []string{"resource", "reason", "history_lost"}),
		lists:   counter("reflector_lists_total", "Lists whose first page was answered or has failed."),
		watches: counter("reflector_watches_total", "Watches whose request was answered or has failed."),
		shortWatches: counter("reflector_short_watches_total",
			"Watches that ended within a second, without an event."),
		listDuration:  histogram("reflector_list_duration_seconds", "How long the pages of a complete list took."),
		itemsPerList:  histogram("reflector_items_per_list", "Objects in a complete list."),
		watchDuration: histogram("reflector_watch_duration_seconds", "How long watches were open."),
		itemsPerWatch: histogram("reflector_items_per_watch", "Events and bookmarks of a watch."),
	}
}

func (c *counters) collectors() []prometheus.Collector {
	return []prometheus.Collector{
		c.requests, c.ended, c.events, c.gaps, c.lastGap, c.lists, c.listDuration, c.itemsPerList, c.watches,
		c.shortWatches, c.watchDuration, c.itemsPerWatch,
	}
}

// Trace returns callbacks that count requests and watches under a value of the label resource. Instrument uses them.
// Call Trace where the name of the resource is not the right value: for a source that has a key of its own in a Mux.
//
// FrameReceived is not set: with stream.Options.Select, a Stream is faster without it.
func (m *Metrics) Trace(resource string) *stream.Trace {
	l, c := m.label(resource), m.counters
	t := &tracer{
		lists: c.lists.WithLabelValues(l), listDuration: c.listDuration.WithLabelValues(l),
		itemsPerList: c.itemsPerList.WithLabelValues(l), listed: map[string]listing{},
	}
	requests := c.requests.MustCurryWith(prometheus.Labels{"resource": l})
	ended := c.ended.MustCurryWith(prometheus.Labels{"resource": l})
	watches, short := c.watches.WithLabelValues(l), c.shortWatches.WithLabelValues(l)
	duration, items := c.watchDuration.WithLabelValues(l), c.itemsPerWatch.WithLabelValues(l)
	return &stream.Trace{
		RequestDone: func(r stream.Request) {
			requests.WithLabelValues(r.Verb, outcome(r.Err)).Inc()
			if r.Verb == "watch" {
				watches.Inc()
			}
			t.page(r)
		},
		WatchClosed: func(w stream.Request) {
			ended.WithLabelValues(outcome(w.Err)).Inc()
			duration.Observe(w.Duration.Seconds())
			items.Observe(float64(w.Objects))
			if w.Err == nil && w.Objects == 0 && w.Duration < time.Second {
				short.Inc()
			}
		},
	}
}

// tracer adds up the pages of a list, because client-go's metrics are about whole lists.
type tracer struct {
	lists                      prometheus.Counter
	listDuration, itemsPerList prometheus.Observer

	mu     sync.Mutex
	listed map[string]listing // by namespace
}

// listing is the list that a namespace has begun.
type listing struct {
	took    time.Duration
	objects int
	failed  bool // the last page
}

// page notes a page. The request after the last page, for a watch, shows that the list is complete.
func (t *tracer) page(r stream.Request) {
	t.mu.Lock()
	defer t.mu.Unlock()
	l, ok := t.listed[r.Namespace]
	if r.Verb != "list" {
		if ok && !l.failed {
			t.listDuration.Observe(l.took.Seconds())
			t.itemsPerList.Observe(float64(l.objects))
		}
		delete(t.listed, r.Namespace)
		return
	}
	if !r.Continued {
		t.lists.Inc()
		l = listing{}
	}
	l.took, l.objects, l.failed = l.took+r.Duration, l.objects+r.Objects, r.Err != nil
	t.listed[r.Namespace] = l
}

// outcome returns one of the few values of the label of that name.
func outcome(err error) string {
	var answer apierrors.APIStatus
	switch {
	case err == nil:
		return "success"
	case errors.As(err, &answer):
		switch code := answer.Status().Code; {
		case code == http.StatusUnauthorized:
			return "unauthorized"
		case code == http.StatusForbidden:
			return "forbidden"
		case code == http.StatusNotFound:
			return "not_found"
		case code == http.StatusGone:
			return "expired"
		case code == http.StatusTooManyRequests:
			return "throttled"
		case code >= http.StatusInternalServerError:
			return "server_error"
		}
		return "refused"
	case errors.Is(err, context.Canceled):
		return "canceled"
	}
	return "failed" // there was no answer, or none that can be used
}

// chain returns a Trace that calls the callbacks of both. first may be nil, and may have callbacks that then lacks.
func chain(first, then *stream.Trace) *stream.Trace {
	if first == nil {
		return then
	}
	both := *first
	both.RequestDone = inTurn(first.RequestDone, then.RequestDone)
	both.WatchClosed = inTurn(first.WatchClosed, then.WatchClosed)
	return &both
}

func inTurn[T any](first, then func(T)) func(T) {
	if first == nil {
		return then
	}
	return func(v T) {
		first(v)
		then(v)
	}
}
