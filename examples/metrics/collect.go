package metrics

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/stream"
)

// described are the metrics that are read from a Status at each scrape.
var described []*prometheus.Desc

func describe(name, help string, labels ...string) *prometheus.Desc {
	d := prometheus.NewDesc(name, help, labels, nil)
	described = append(described, d)
	return d
}

var (
	descState = describe("gvrwatch_state",
		"Watches in a state. Each namespace of a Stream counts as one.", "resource", "state")
	descSynced   = describe("gvrwatch_synced", "1 if everything that exists has been delivered.", "resource")
	descObjects  = describe("gvrwatch_objects", "Objects that were delivered and exist.", "resource")
	descFailures = describe("gvrwatch_consecutive_failures",
		"Failures in a row, of the watch with the most.", "resource")
	descVersion = describe("reflector_last_resource_version",
		"The resourceVersion up to which everything has been delivered; of several, the lowest.", "resource")

	descQueued      = describe("gvrwatch_queued_events", "Events in a Mux that wait for the loop.", "resource")
	descQueuedBytes = describe("gvrwatch_queued_bytes", "Memory of the events that wait for the loop.", "resource")
	descCoalesced   = describe("gvrwatch_coalesced_events",
		"Events that became part of a newer one in a Mux, in this run.", "resource")
	descVanished = describe("gvrwatch_vanished_events",
		"Events of objects that came and went before the loop received them, in this run.", "resource")

	descUnacked = describe("gvrwatch_checkpoint_unacked_events",
		"Delivered events that a checkpoint does not pass yet.",
		"resource")
	descOldest = describe("gvrwatch_checkpoint_oldest_unacked_seconds",
		"Age of the oldest of these events.", "resource")
	descCommit = describe("gvrwatch_checkpoint_last_commit_timestamp_seconds",
		"When the Tracker last committed, for any key.", "resource")
	descCommitFailures = describe("gvrwatch_checkpoint_consecutive_failures",
		"Commits that failed in a row.", "resource")

	descFollowed = describe("gvrwatch_followed",
		"Resources and names that are followed, by state.", "resource", "state")
	descUnknown = describe("gvrwatch_discovery_failing",
		"1 if an API can't be read, so that not everything that is served is known.")
	descBusy = describe("gvrwatch_loop_busy_seconds",
		"How long the body of the loop has been handling its event; of several loops, the longest.")
)

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(out chan<- *prometheus.Desc) {
	for _, d := range described {
		out <- d
	}
	for _, c := range m.counters.collectors() {
		c.Describe(out)
	}
}

// Collect implements prometheus.Collector. It takes time in proportion to the number of sources.
func (m *Metrics) Collect(out chan<- prometheus.Metric) {
	for _, c := range m.counters.collectors() {
		c.Collect(out)
	}
	emit := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	now := m.status()
	views := map[string]*view{}
	for _, s := range now.sources {
		l := m.label(s.Key)
		if views[l] == nil {
			views[l] = &view{states: map[stream.State]int{}, synced: true}
		}
		views[l].add(s)
	}
	for resource, v := range views {
		v.collect(resource, emit)
	}
	followed := map[[2]string]int{}
	for _, r := range now.followed {
		followed[[2]string{m.label(followedName(r)), string(r.State)}]++
	}
	for labels, n := range followed {
		emit(descFollowed, float64(n), labels[:]...)
	}
	if now.follows {
		emit(descUnknown, number(now.discovery != nil))
	}
	if busy, ok := m.busy(); ok {
		emit(descBusy, busy.Seconds())
	}
}

// view is what all sources with the same value of the label resource report, together.
type view struct {
	states            map[stream.State]int
	synced            bool
	objects, failures int
	version           uint64             // zero if none is known
	queue             *queue             // nil unless a source is in a Mux
	checkpoint        *checkpoint.Status // nil unless a source has one
}

// queue is what waits in a Mux.
type queue struct {
	events              int
	bytes               int64
	coalesced, vanished uint64
}

func (v *view) add(s source) {
	v.synced = v.synced && s.Synced
	if s.inMux {
		q := &queue{s.Queued, s.Bytes, s.Coalesced, s.Vanished}
		if v.queue != nil {
			q = &queue{
				q.events + v.queue.events, q.bytes + v.queue.bytes,
				q.coalesced + v.queue.coalesced, q.vanished + v.queue.vanished,
			}
		}
		v.queue = q
	}
	watches := []stream.Status{{State: s.State, Attempt: s.Attempt}}
	if s.Stream != nil {
		v.objects += s.Stream.Objects
		v.addCheckpoint(s.Stream.Checkpoint)
		switch {
		case s.retried:
		case len(s.Stream.Namespaces) > 0:
			watches = s.Stream.Namespaces
		default:
			watches = []stream.Status{*s.Stream}
		}
	}
	for _, w := range watches {
		v.failures = max(v.failures, w.Attempt)
		if rv, err := strconv.ParseUint(w.ResourceVersion, 10, 64); err == nil && (v.version == 0 || rv < v.version) {
			v.version = rv
		}
		if w.State != "" {
			v.states[w.State]++
		}
	}
}

// addCheckpoint keeps the sum of what is not acked, and otherwise the worst.
func (v *view) addCheckpoint(c checkpoint.Status) {
	switch {
	case c.Key == "":
	case v.checkpoint == nil:
		v.checkpoint = &c
	default:
		v.checkpoint.Unacked += c.Unacked
		v.checkpoint.OldestUnacked = max(v.checkpoint.OldestUnacked, c.OldestUnacked)
		v.checkpoint.Attempts = max(v.checkpoint.Attempts, c.Attempts)
		if c.LastCommit.Before(v.checkpoint.LastCommit) {
			v.checkpoint.LastCommit = c.LastCommit
		}
	}
}

// collect calls out for each metric of a resource.
func (v *view) collect(resource string, out func(d *prometheus.Desc, v float64, labels ...string)) {
	for state, n := range v.states {
		out(descState, float64(n), resource, string(state))
	}
	out(descSynced, number(v.synced), resource)
	out(descObjects, float64(v.objects), resource)
	out(descFailures, float64(v.failures), resource)
	if v.version > 0 {
		out(descVersion, float64(v.version), resource)
	}
	if q := v.queue; q != nil {
		out(descQueued, float64(q.events), resource)
		out(descQueuedBytes, float64(q.bytes), resource)
		out(descCoalesced, float64(q.coalesced), resource)
		out(descVanished, float64(q.vanished), resource)
	}
	if c := v.checkpoint; c != nil {
		out(descUnacked, float64(c.Unacked), resource)
		out(descOldest, c.OldestUnacked.Seconds(), resource)
		out(descCommitFailures, float64(c.Attempts), resource)
		if !c.LastCommit.IsZero() {
			out(descCommit, float64(c.LastCommit.UnixMilli())/1000, resource)
		}
	}
}

func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
