package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// phase is what is measured.
type phase string

const (
	eventPhase    phase = "events"   // throughput, and the cost of an event
	latencyPhase  phase = "latency"  // of events that come at a rate
	snapshotPhase phase = "snapshot" // time until the peer knows all existing objects
	heapPhase     phase = "heap"     // live heap per existing object
)

// job is one measurement of a peer. Each job has a process of its own.
type job struct {
	Peer     string
	Phase    phase
	Scenario scenario
	URL      string // of the run on the server
	Profile  string // file for a CPU profile, or empty
}

// outcome is the result of a job.
type outcome struct {
	Err     string
	Events  int
	Seconds float64 // from the start of the events to the last one, or until the snapshot was complete
	usage
	HeapPerObject float64
	Latency       latency
}

// lap is a job in progress. Its peer calls [lap.synced] once it knows all existing objects, then [lap.event] for
// each event until that returns true for the last one. It has 14 fields because each belongs to one measurement in
// one process: nothing outlives it.
type lap struct {
	job
	ctx    context.Context
	cancel context.CancelCauseFunc

	want     int    // expected number of events
	last     string // resourceVersion of the last one; empty if it can't be known
	n        int
	delays   []int64
	wrong    error
	before   usage
	began    time.Time
	heap     uint64
	done     chan struct{} // closed when the measurement is over
	result   outcome
	profiler profiler
}

// errMeasured makes a peer return when its measurement needs no events.
var errMeasured = errors.New("measured")

func newLap(ctx context.Context, j job) *lap {
	l := &lap{job: j, want: j.Scenario.Events, last: strconv.Itoa(j.Scenario.lastVersion()), done: make(chan struct{})}
	l.ctx, l.cancel = context.WithCancelCause(ctx)
	if j.Phase == latencyPhase {
		l.delays = make([]int64, 0, int(float64(j.Scenario.Rate)*j.Scenario.Length.Seconds())+1000)
	}
	return l
}

// config returns the client configuration for the run on the server. It has no rate limit, which would distort
// the figures.
func (l *lap) config() *rest.Config { return &rest.Config{Host: l.URL, QPS: -1} }

// ready is called before the peer does anything.
func (l *lap) ready() {
	l.heap = liveHeap()
	if l.Phase == snapshotPhase {
		l.begin()
	}
}

func (l *lap) begin() {
	l.profiler.start(l.Profile)
	l.before = readUsage()
	l.began = time.Now()
}

// synced is called once the peer knows all existing objects. It makes the server send the events, or returns
// errMeasured if the measurement needs none.
func (l *lap) synced() error {
	switch l.Phase {
	case snapshotPhase:
		l.finish()
		return errMeasured
	case heapPhase:
		l.finish()
		l.result.HeapPerObject = (float64(liveHeap()) - float64(l.heap)) / float64(l.Scenario.Objects)
		return errMeasured
	}
	runtime.GC() // so that the events don't pay for the snapshot's garbage
	l.begin()
	resp, err := http.Post(l.URL+"/start", "", bytes.NewReader(nil))
	if err != nil {
		return err
	}
	if resp.Body.Close(); resp.StatusCode != http.StatusOK {
		return fmt.Errorf("starting the events: the server answered %s", resp.Status)
	}
	return nil
}

// event counts an event, and reports whether it was the last.
func (l *lap) event(o metav1.Object) bool {
	l.n++
	if l.Phase == latencyPhase {
		return l.recordDelay(o)
	}
	if l.n != l.want {
		return false
	}
	if version := o.GetResourceVersion(); l.last != "" && version != l.last {
		l.wrong = fmt.Errorf("event %d has resourceVersion %s, want %s", l.n, version, l.last)
	}
	l.finish()
	return true
}

// events counts n events that the peer did not decode.
func (l *lap) events(n int) (last bool) {
	l.n += n
	if l.n < l.want {
		return false
	}
	l.finish()
	return true
}

// recordDelay records how long ago the server sent o. It returns true at the first object without a send time,
// which ends the measurement.
func (l *lap) recordDelay(o metav1.Object) bool {
	now := time.Now().UnixNano()
	sent, err := strconv.ParseInt(o.GetAnnotations()[sentAnnotation], 10, 64)
	if err != nil {
		l.wrong = fmt.Errorf("event %d: invalid send time: %w", l.n, err)
	}
	if sent != 0 && err == nil {
		l.delays = append(l.delays, now-sent)
		return false
	}
	l.finish()
	return true
}

// finish ends the measurement.
func (l *lap) finish() {
	l.result.Seconds = time.Since(l.began).Seconds()
	l.result.usage = readUsage().since(l.before)
	l.profiler.stop()
	l.result.Events = l.n
	close(l.done)
}

// fail ends the peer with an error.
func (l *lap) fail(err error) { l.cancel(err) }

// wait waits until the measurement is over. It is for peers whose events arrive in callbacks.
func (l *lap) wait() error {
	select {
	case <-l.done:
		return nil
	case <-l.ctx.Done():
		return context.Cause(l.ctx)
	}
}

// run runs the peer and returns the outcome.
func (l *lap) run() outcome {
	p, err := peerNamed(l.Peer)
	if err != nil {
		return outcome{Err: err.Error()}
	}
	if p.expect != nil {
		l.want, l.last = p.expect(l.Scenario)
	}
	l.ready()
	err = p.run(l)
	l.cancel(nil)
	measured := false
	select {
	case <-l.done:
		measured = true
	default:
	}
	switch {
	case err != nil && !errors.Is(err, errMeasured):
		l.result.Err = err.Error()
	case !measured:
		l.result.Err = fmt.Sprintf("the peer ended after %d of %d events", l.n, l.want)
	case l.wrong != nil:
		l.result.Err = l.wrong.Error()
	case l.Phase == eventPhase && l.n != l.want:
		l.result.Err = fmt.Sprintf("the peer delivered %d events, want %d", l.n, l.want)
	}
	if l.Phase == latencyPhase {
		l.result.Latency = latencyOf(l.delays, l.result.Seconds)
	}
	return l.result
}

// liveHeap returns the bytes that are still reachable.
func liveHeap() uint64 {
	runtime.GC()
	runtime.GC() // frees objects that had finalizers
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
