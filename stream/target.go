package stream

import (
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"

	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/internal/client"
	"github.com/gvrwatch/gvrwatch/internal/host"
	"github.com/gvrwatch/gvrwatch/internal/protocol"
	"github.com/gvrwatch/gvrwatch/internal/sequence"
	"github.com/gvrwatch/gvrwatch/internal/wait"
)

// newTarget returns what a Stream watches, for package sequence.
func newTarget(c dynamic.Interface, r gvr.Resource, o Options) *sequence.Target {
	config := sequence.Config{
		Fake: client.IsFake(c), Resource: r,
		LabelSelector: o.LabelSelector, FieldSelector: o.FieldSelector,
		Objects:  client.Objects(o.Objects),
		Requests: sequence.Requests(o.Requests),
		Hooks:    hooksOf(o.Trace),
		Logger:   o.Logger,
		Between:  wait.Between,
		Errors: sequence.Errors{
			Request: func(verb, namespace string, err error) error {
				return &RequestError{Verb: verb, Resource: r, Namespace: namespace, Err: err}
			},
			End: errorAtEnd,
		},
	}
	if o.Select != nil {
		config.Select = func(m sequence.Meta) bool { return o.Select(m) }
	}
	if config.Fake {
		config.Matches = o.matcher()
	}
	return sequence.NewTarget(config)
}

func hooksOf(t *Trace) (h sequence.Hooks) {
	if t.StatusChanged != nil {
		h.StatusChanged = func(s sequence.Status) { t.StatusChanged(statusOf(s)) }
	}
	if t.RequestDone != nil {
		h.RequestDone = func(r sequence.Request) { t.RequestDone(Request(r)) }
	}
	if t.FrameReceived != nil {
		h.FrameReceived = func(namespace string, kind watch.EventType, resourceVersion string) {
			t.FrameReceived(Event{Namespace: namespace, Type: Type(kind), ResourceVersion: resourceVersion})
		}
	}
	if t.WatchClosed != nil {
		h.WatchClosed = func(r sequence.Request) { t.WatchClosed(Request(r)) }
	}
	return h
}

// errorAtEnd returns the error that the run yields last, or nil.
func errorAtEnd(s protocol.Stopped) error {
	switch {
	case s.Gap != protocol.Gap{}:
		return &GapError{Reason: GapReason(s.Gap.Reason), From: s.Gap.From, Err: s.Err}
	case s.GaveUp.After > 0:
		return &GaveUpError{After: s.GaveUp.After, Err: s.Err}
	}
	return s.Err
}

// eventOf returns the Event of one of a Worker.
func eventOf(s *sequence.Event, r gvr.Resource) Event {
	ev := Event{
		Type: Type(s.Kind), Resource: r, Namespace: s.Namespace, Object: s.Object, JSON: s.JSON,
		ResourceVersion: s.ResourceVersion, Inferred: s.Inferred, envelope: host.Envelope{Mark: s.Mark},
	}
	if g := s.Gap; g != nil {
		ev.Gap = &GapDetails{
			Reason: GapReason(g.Reason), From: g.From, To: g.To, Duration: g.Duration, HistoryLost: g.HistoryLost,
		}
	}
	return ev
}

func statusOf(s sequence.Status) Status {
	return Status{
		State: State(s.State), Namespace: s.Namespace, ResourceVersion: s.ResourceVersion, Since: s.Since,
		Cause: s.Cause, Attempt: s.Attempt, NextTry: s.NextTry, Objects: s.Objects, Synced: s.Synced,
	}
}
