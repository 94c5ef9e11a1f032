package metrics

import (
	"cmp"
	"iter"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gvrwatch/gvrwatch/mux"
	"github.com/gvrwatch/gvrwatch/stream"
)

// Count yields the values of seq, and counts its events and gaps. It also notes how long the loop body takes for each
// event, which Healthz needs. It adds nothing to what the values are or when they are acked. A nil seq yields an error.
func (m *Metrics) Count(seq iter.Seq2[stream.Event, error]) iter.Seq2[stream.Event, error] {
	if seq == nil {
		return func(yield func(stream.Event, error) bool) {
			yield(stream.Event{}, &stream.OptionsError{Field: "seq", Problem: "must not be nil"})
		}
	}
	return func(yield func(stream.Event, error) bool) {
		l := &loop{metrics: m, types: map[countKey]prometheus.Counter{}}
		m.mu.Lock()
		m.loops[&l.since] = struct{}{}
		m.mu.Unlock()
		defer func() {
			m.mu.Lock()
			defer m.mu.Unlock()
			delete(m.loops, &l.since)
		}()
		for ev, err := range seq {
			if err == nil {
				l.count(&ev)
			}
			l.since.Store(1 + int64(time.Since(m.began)))
			more := yield(ev, err)
			l.since.Store(0)
			if !more {
				return
			}
		}
	}
}

// loop is a loop over a sequence of Count.
type loop struct {
	metrics *Metrics
	// since is 1 plus the time.Duration from Metrics.began until the body received the event that it handles, or 0 if
	// the body does not run.
	since atomic.Int64
	types map[countKey]prometheus.Counter // used by the loop only
}

// countKey is what determines the labels of an event. A lookup by it takes no memory, unlike one by labels.
type countKey struct {
	source   string
	resource schema.GroupResource
	kind     stream.Type
}

func (l *loop) count(ev *stream.Event) {
	key := countKey{mux.SourceOf(*ev), ev.Resource.GroupResource(), ev.Type}
	c := l.types[key]
	if c == nil {
		c = l.metrics.counters.events.WithLabelValues(l.resource(key), known(string(ev.Type), eventTypes))
		l.types[key] = c
	}
	c.Inc()
	if g := ev.Gap; g != nil {
		reason, lost := known(string(g.Reason), gapReasons), strconv.FormatBool(g.HistoryLost)
		l.metrics.counters.gaps.WithLabelValues(l.resource(key), reason, lost).Inc()
		l.metrics.counters.lastGap.WithLabelValues(l.resource(key), reason, lost).SetToCurrentTime()
	}
}

func (l *loop) resource(key countKey) string {
	return l.metrics.label(cmp.Or(key.source, key.resource.String()))
}

var (
	eventTypes = []string{
		string(stream.Added), string(stream.Modified), string(stream.Deleted),
		string(stream.Bookmark), string(stream.Synced), string(stream.Gap),
	}
	gapReasons = []string{
		string(stream.GapExpired), string(stream.GapRewound), string(stream.GapPoison),
		string(stream.GapUnordered), string(stream.GapUnversioned), string(stream.GapRestarted),
		string(stream.GapScope),
		string(stream.GapFuture),
	}
)

// known returns value if it is one of those, so that no label has values without end.
func known(value string, those []string) string {
	if slices.Contains(those, value) {
		return value
	}
	return other
}

// busy returns for how long the slowest loop body has been handling its event, and whether there is a loop.
func (m *Metrics) busy() (longest time.Duration, loops bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for loop := range m.loops {
		if since := time.Duration(loop.Load()); since > 0 {
			longest = max(longest, time.Since(m.began)-(since-1))
		}
	}
	return longest, len(m.loops) > 0
}
