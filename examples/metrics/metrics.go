package metrics

import (
	"cmp"
	"context"
	"iter"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/mux"
	"github.com/gvrwatch/gvrwatch/mux/follow"
	"github.com/gvrwatch/gvrwatch/stream"
)

// Metrics is a prometheus.Collector. Make it with New. Its methods may be called from any goroutine.
type Metrics struct {
	counters counters
	began    time.Time

	mu        sync.Mutex
	watched   map[*Source]struct{}       // the keys differ even if a Source is watched twice
	loops     map[*atomic.Int64]struct{} // since of each loop of Count
	resources map[string]struct{}        // the values of the label resource
}

var _ prometheus.Collector = (*Metrics)(nil)

// New returns Metrics without any source. Register it as the collector that it is.
func New() *Metrics {
	return &Metrics{
		counters: newCounters(), began: time.Now(),
		watched: map[*Source]struct{}{}, loops: map[*atomic.Int64]struct{}{}, resources: map[string]struct{}{},
	}
}

// Source is what has a Status: a *stream.Stream, a *stream.Sequence, a *mux.Mux, a *follow.Mux, or a type that embeds
// one of them. Any other type is never ready.
type Source interface {
	// Events is what all of them have. Package metrics does not call it.
	Events(ctx context.Context) iter.Seq2[stream.Event, error]
}

// Instrument returns a copy of opts, which may be nil, with a Trace that counts the requests and watches of a resource.
// A Trace that opts already has is called as well, first.
func (m *Metrics) Instrument(r gvr.Resource, opts *stream.Options) *stream.Options {
	var o stream.Options
	if opts != nil {
		o = *opts
	}
	o.Trace = chain(o.Trace, m.Trace(r.GroupResource().String()))
	return &o
}

// Watch makes the Status of a source part of each scrape, and of Healthz and Readyz, until the caller calls remove. The
// sources of a Mux come and go without the caller. A nil source is never ready.
func (m *Metrics) Watch(s Source) (remove func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.watched[&s] = struct{}{}
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.watched, &s)
	}
}

const (
	// maxResources limits the values of the label resource. A cluster may define any number of types.
	maxResources = 2000
	// maxName is longer than any resource with its group.
	maxName = 320
	// other is the value of a label for everything beyond its limits.
	other = "other"
)

// label returns the value of the label resource for a resource, or for the key of a source.
func (m *Metrics) label(key string) string {
	for _, suffix := range []string{" in ", " where "} { // of stream.Stream.Key
		key, _, _ = strings.Cut(key, suffix)
	}
	key = strings.ToValidUTF8(key[:min(len(key), maxName)], "")
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, known := m.resources[key]; !known {
		if len(m.resources) >= maxResources {
			return other
		}
		m.resources[strings.Clone(key)] = struct{}{}
	}
	return key
}

// source is a source with its Status. For a Stream, the fields about a Mux are zero.
type source struct {
	mux.SourceStatus // as a Mux reports it
	inMux            bool
	retried          bool // the Stream has ended, and the Mux will start it again
}

// sourceOfMux returns a source as a Mux reports it. While the Stream waits to be started again, its state is that of a
// Stream that waits after the same error.
func sourceOfMux(s mux.SourceStatus) source {
	one := source{SourceStatus: s, inMux: true, retried: !s.NextTry.IsZero()}
	if one.retried {
		one.State = waiting(s.Err)
	}
	return one
}

// waiting returns the state of a Stream that waits after an error.
func waiting(err error) stream.State {
	switch outcome(err) {
	case "unauthorized":
		return stream.Unauthorized
	case "forbidden":
		return stream.Forbidden
	case "not_found":
		return stream.Gone
	}
	return stream.Backoff
}

// followedSource returns a source as a follow.Mux reports it. The Mux in it does not know why its Stream has ended, and
// when it is started again.
func followedSource(s mux.SourceStatus, followed map[string]follow.ResourceStatus) source {
	one := sourceOfMux(s)
	r, ok := followed[s.Key]
	if !ok || one.retried || s.State != stream.Backoff || s.Stream == nil || s.Stream.State != stream.Stopped {
		return one
	}
	one.retried, one.Attempt = true, 1
	switch r.State {
	case follow.Forbidden:
		one.State = stream.Forbidden
	case follow.Gone:
		one.State = stream.Gone
	default:
		one.State = waiting(r.Cause)
	}
	return one
}

// status is what the watched sources report at one moment.
type status struct {
	sources   []source
	followed  []follow.ResourceStatus
	follows   bool  // there is a follow.Mux
	discovery error // of the last follow.Mux that has one
	unsynced  bool  // a source is not synced, or there is none
}

func (m *Metrics) status() status {
	m.mu.Lock()
	var all []Source
	for s := range m.watched {
		all = append(all, *s)
	}
	m.mu.Unlock()
	st := status{unsynced: len(all) == 0}
	for _, s := range all {
		st.add(s)
	}
	return st
}

func (st *status) add(s Source) {
	if v := reflect.ValueOf(s); s == nil || v.Kind() == reflect.Pointer && v.IsNil() {
		st.unsynced = true
		st.sources = append(st.sources, source{SourceStatus: mux.SourceStatus{Key: "nil"}})
		return
	}
	switch s := s.(type) {
	case interface {
		Status() stream.Status
		Resource() gvr.Resource
	}:
		now := s.Status()
		st.unsynced = st.unsynced || !now.Synced
		one := mux.SourceStatus{
			Key: s.Resource().GroupResource().String(), State: now.State, Stream: &now, Synced: now.Synced,
		}
		if now.State == stream.Stopped {
			one.Err = now.Cause
		}
		st.sources = append(st.sources, source{SourceStatus: one})
	case interface{ Status() mux.Status }:
		now := s.Status()
		st.unsynced = st.unsynced || !now.AllSynced
		for _, one := range now.Sources {
			st.sources = append(st.sources, sourceOfMux(one))
		}
	case interface{ Status() follow.Status }:
		now := s.Status()
		st.unsynced = st.unsynced || !now.AllSynced
		followed := map[string]follow.ResourceStatus{}
		for _, r := range now.Resources {
			followed[followedName(r)] = r
		}
		for _, one := range now.Sources {
			st.sources = append(st.sources, followedSource(one, followed))
		}
		st.followed = append(st.followed, now.Resources...)
		st.follows, st.discovery = true, cmp.Or(now.Discovery, st.discovery)
	default:
		st.unsynced = true
		st.sources = append(st.sources, source{SourceStatus: mux.SourceStatus{Key: reflect.TypeOf(s).String()}})
	}
}

// followedName returns the name of a resource, or the one that does not stand for a resource yet.
func followedName(r follow.ResourceStatus) string {
	if r.Resource.Resource == "" {
		return r.Ref.String()
	}
	return r.Resource.GroupResource().String()
}
