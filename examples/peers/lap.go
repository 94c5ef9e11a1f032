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
	eventPhase    phase = "events"   // how fast a flood is taken, and at what cost
	latencyPhase  phase = "latency"  // how long an event takes, at a rate
	snapshotPhase phase = "snapshot" // how long it takes until all that exists is known
	heapPhase     phase = "held"     // how much is kept of what exists
)

// job is one measurement of a peer, in a process of its own.
type job struct {
	Peer     string
	Phase    phase
	Scenario scenario
	URL      string // of the server's run
	Profile  string // file for a CPU profile, or empty
}

// outcome is what came of a job.
type outcome struct {
	Err     string
	Events  int
	Seconds float64 // from the release of the events to the last, or until all was known
	usage
	HeapPerObject float64
	Latency       latency
}

// lap is a job under way. Its peer calls synced once it knows what exists, then
// event for each event until that says that it was the last.
type lap struct {
	job
	ctx    context.Context
	cancel context.CancelCauseFunc

	want     int    // events that are to come
	last     string // version of the last one; empty where it can't be known
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

// errMeasured ends a peer whose measurement is over when it is synced.
var errMeasured = errors.New("measured")

func newLap(ctx context.Context, j job) *lap {
	l := &lap{job: j, want: j.Scenario.Events, last: strconv.Itoa(j.Scenario.lastVersion()), done: make(chan struct{})}
	l.ctx, l.cancel = context.WithCancelCause(ctx)
	if j.Phase == latencyPhase {
		l.delays = make([]int64, 0, int(float64(j.Scenario.Rate)*j.Scenario.Length.Seconds())+1000)
	}
	return l
}

// config is where the peer finds its server. A limit on requests would measure
// itself.
func (l *lap) config() *rest.Config { return &rest.Config{Host: l.URL, QPS: -1} }

// ready is called when the process is, before the peer does anything.
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

// synced says that the peer knows what exists. The events come now; where none
// are to come errMeasured is returned.
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
	runtime.GC() // what the snapshot left is none of the events'
	l.begin()
	resp, err := http.Post(l.URL+"/start", "", bytes.NewReader(nil))
	if err != nil {
		return err
	}
	if resp.Body.Close(); resp.StatusCode != http.StatusOK {
		return fmt.Errorf("the server won't start: %s", resp.Status)
	}
	return nil
}

// event takes an event in, and says whether it was the last.
func (l *lap) event(o metav1.Object) bool {
	l.n++
	if l.Phase == latencyPhase {
		return l.recordDelay(o)
	}
	if l.n != l.want {
		return false
	}
	if version := o.GetResourceVersion(); l.last != "" && version != l.last {
		l.wrong = fmt.Errorf("event %d has the resourceVersion %s, and it should be %s", l.n, version, l.last)
	}
	l.finish()
	return true
}

// events takes in n events that nobody made objects of.
func (l *lap) events(n int) (last bool) {
	l.n += n
	if l.n < l.want {
		return false
	}
	l.finish()
	return true
}

// late takes the time of an event.
func (l *lap) recordDelay(o metav1.Object) bool {
	now := time.Now().UnixNano()
	sent, err := strconv.ParseInt(o.GetAnnotations()[sentAnnotation], 10, 64)
	if err != nil {
		l.wrong = fmt.Errorf("event %d does not say when it was sent: %w", l.n, err)
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

// failed ends the peer.
func (l *lap) fail(err error) { l.cancel(err) }

// wait waits until the measurement is over: for peers that are called back.
func (l *lap) wait() error {
	select {
	case <-l.done:
		return nil
	case <-l.ctx.Done():
		return context.Cause(l.ctx)
	}
}

// run has the peer do its job, and returns what came of it.
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
		l.result.Err = fmt.Sprintf("it ended after %d of %d events", l.n, l.want)
	case l.wrong != nil:
		l.result.Err = l.wrong.Error()
	case l.Phase == eventPhase && l.n != l.want:
		l.result.Err = fmt.Sprintf("it told %d events, and there were %d", l.n, l.want)
	}
	if l.Phase == latencyPhase {
		l.result.Latency = latencyOf(l.delays, l.result.Seconds)
	}
	return l.result
}

// liveHeap is what is still referred to.
func liveHeap() uint64 {
	runtime.GC()
	runtime.GC() // what had a finalizer
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
