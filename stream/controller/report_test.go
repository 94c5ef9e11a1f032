package controller_test

import (
	"bytes"
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/util/workqueue"

	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/controller"
)

// provider notes the names of the queues that have metrics.
type provider struct {
	mu    sync.Mutex
	names []string
}

type metric struct{}

func (metric) Inc()            {}
func (metric) Dec()            {}
func (metric) Set(float64)     {}
func (metric) Observe(float64) {}

func (p *provider) note(name string) metric {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.names = append(p.names, name)
	return metric{}
}

func (p *provider) NewDepthMetric(n string) workqueue.GaugeMetric            { return p.note(n) }
func (p *provider) NewAddsMetric(n string) workqueue.CounterMetric           { return p.note(n) }
func (p *provider) NewLatencyMetric(n string) workqueue.HistogramMetric      { return p.note(n) }
func (p *provider) NewWorkDurationMetric(n string) workqueue.HistogramMetric { return p.note(n) }
func (p *provider) NewRetriesMetric(n string) workqueue.CounterMetric        { return p.note(n) }

func (p *provider) NewUnfinishedWorkSecondsMetric(n string) workqueue.SettableGaugeMetric {
	return p.note(n)
}

func (p *provider) NewLongestRunningProcessorSecondsMetric(n string) workqueue.SettableGaugeMetric {
	return p.note(n)
}

// metrics is the provider of all tests, because only the first one counts.
var metrics = &provider{}

func TestQueueHasTheNameInItsMetrics(t *testing.T) {
	workqueue.SetProvider(metrics)
	synctest.Test(t, func(t *testing.T) {
		var j journal
		err := controller.Run(t.Context(), emit(nil, event(stream.Added, "a", "1")), j.reconcile,
			&controller.Options{Name: "widgets"})
		time.Sleep(time.Second) // a named queue of client-go 0.34 has a goroutine that ends within half a second
		metrics.mu.Lock()
		defer metrics.mu.Unlock()
		if err != nil || !slices.Contains(metrics.names, "widgets") {
			t.Errorf("error %v, metrics of %q", err, metrics.names)
		}
	})
}

// A failure is logged once for each try, and forgotten by the rate limiter after a success.
func TestFailuresAreLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text bytes.Buffer
		limiter := fast()
		gap := stream.Event{Type: stream.Gap, Gap: &stream.GapDetails{Reason: stream.GapExpired, HistoryLost: true}}
		err := controller.Run(t.Context(), emit(nil, gap, event(stream.Added, "a", "1")), func(
			context.Context, controller.Key, stream.Event,
		) (controller.Result, error) {
			if limiter.NumRequeues(key("a")) < 2 {
				return controller.Result{}, errFails
			}
			return controller.Result{}, nil
		}, &controller.Options{RateLimiter: limiter, Logger: slog.New(slog.NewTextHandler(&text, nil))})
		if err != nil || limiter.NumRequeues(key("a")) != 0 {
			t.Errorf("error %v, %d failures after a success", err, limiter.NumRequeues(key("a")))
		}
		for what, want := range map[string]int{
			"level=WARN": 3, "history lost": 2, `key="widgets.example.com lab/a" error="it fails"`: 2,
		} {
			if got := strings.Count(text.String(), what); got != want {
				t.Errorf("%d times %q, want %d:\n%s", got, what, want, text.String())
			}
		}
	})
}
