package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"strconv"

	"k8s.io/client-go/dynamic"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/checkpoint/file"
	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/mux"
	"github.com/gvrwatch/gvrwatch/stream"
)

var podResource = gvr.Resource{
	GroupVersionResource: pods, Kind: "Pod", Singular: "pod", Namespaced: true, Verbs: []string{"list", "watch"},
}

// streams returns the peers that use package stream.
func streams() []peer {
	return []peer{
		{name: "ours-stock", what: "a Stream on client-go's dynamic client", run: stockStream},
		{name: "ours", what: "a Stream on NewClient", run: fastStream(nil, nil), scale: 4},
		{name: "ours-2workers", what: "DecodeWorkers: 2",
			run: fastStream(&stream.ClientOptions{DecodeWorkers: 2}, nil), scale: 4},
		{name: "ours-nomanaged", what: "DropManagedFields",
			run: fastStream(&stream.ClientOptions{DropManagedFields: true}, nil), scale: 4},
		{name: "ours-select10", what: "Select passes one in ten",
			run: fastStream(nil, canaries), expect: expectCanaries, scale: 20},
		{name: "ours-select0", what: "Select passes none", run: selectNothing, scale: 20},
		{name: "ours-metadata", what: "Metadata", run: fastStream(nil, metadataOnly), scale: 4},
		{name: "ours-mux8", what: "eight Streams, one per namespace, in a Mux",
			run: mux8, expect: expectAll, scale: 4},
		{name: "ours-mux8-select10", what: "as ours-mux8, Select passes one in ten",
			run: mux8Canaries, expect: expectMux8Canaries, scale: 20},
		{name: "ours-checkpoint", what: "with a checkpoint in a file, each event acked",
			run: checkpointStream, scale: 4},
	}
}

func pages(o *stream.Options)        { o.PagedLists = true }
func metadataOnly(o *stream.Options) { o.Objects = stream.Metadata }

func canaries(o *stream.Options) {
	o.Select = func(m stream.Meta) bool { return m.GetLabels()["canary"] == "true" }
}

// expectCanaries counts the events of canaries (see [pod]).
func expectCanaries(s scenario) (events int, last string) {
	for i := range s.Events {
		if i%min(s.Objects, templates)%canaryEvery == 0 {
			events, last = events+1, strconv.Itoa(firstVersion+1+i)
		}
	}
	return events, last
}

func stockStream(l *lap) error {
	client, err := dynamic.NewForConfig(l.config())
	if err != nil {
		return err
	}
	return runStream(l, client, &stream.Options{})
}

// fastStream returns a run function with a Stream on NewClient. change adjusts the Stream's options; it may be nil.
func fastStream(of *stream.ClientOptions, change func(*stream.Options)) func(*lap) error {
	return func(l *lap) error {
		client, err := stream.NewClient(l.config(), of)
		if err != nil {
			return err
		}
		o := &stream.Options{}
		if change != nil {
			change(o)
		}
		return runStream(l, client, o)
	}
}

func runStream(l *lap, client dynamic.Interface, o *stream.Options) error {
	s, err := stream.New(client, podResource, o)
	if err != nil {
		return err
	}
	return consume(l, s.Events(l.ctx), func() bool { return true })
}

// consume counts the events of a sequence. At each SYNCED it calls synced, which reports whether all sources are
// synced.
func consume(l *lap, events iter.Seq2[stream.Event, error], synced func() bool) error {
	for ev, err := range events {
		if err != nil {
			return err
		}
		switch ev.Type {
		case stream.Modified:
			if l.event(ev.Object) {
				return nil
			}
		case stream.Added:
		case stream.Synced:
			if synced() {
				if err := l.synced(); err != nil {
					return err
				}
			}
		default:
			return fmt.Errorf("unexpected event of type %s", ev.Type)
		}
	}
	return errors.Join(errClosed, context.Cause(l.ctx))
}

// selectNothing counts the calls of Select, since Select rejects every event. The bookmark after the last event ends
// the measurement.
func selectNothing(l *lap) error {
	client, err := stream.NewClient(l.config(), nil)
	if err != nil {
		return err
	}
	calls, last := 0, strconv.Itoa(l.Scenario.lastVersion()+1)
	s, err := stream.New(client, podResource, &stream.Options{
		Bookmarks: true,
		Select: func(m stream.Meta) bool {
			calls++
			return m.GetNamespace() == "kube-system"
		},
	})
	if err != nil {
		return err
	}
	for ev, err := range s.Events(l.ctx) {
		switch {
		case err != nil:
			return err
		case ev.Type == stream.Synced:
			if calls < l.Scenario.Objects {
				return fmt.Errorf("called Select for %d of %d objects", calls, l.Scenario.Objects)
			}
			calls = 0
			if err := l.synced(); err != nil {
				return err
			}
		case ev.Type == stream.Bookmark && ev.ResourceVersion == last:
			l.events(calls)
			return nil
		case ev.Type != stream.Bookmark:
			return fmt.Errorf("unexpected event of type %s", ev.Type)
		}
	}
	return errors.Join(errClosed, context.Cause(l.ctx))
}

// expectAll expects every event. Any may be the last, since the order between namespaces is random.
func expectAll(s scenario) (events int, last string) { return s.Events, "" }

// expectMux8Canaries counts the events of canaries when each namespace has its share of the events, and changes its
// objects in turn.
func expectMux8Canaries(s scenario) (events int, last string) {
	for namespace := range namespaces {
		objects := (min(s.Objects, templates) - namespace + namespaces - 1) / namespaces
		for i := range (s.Events - namespace + namespaces - 1) / namespaces {
			if (namespace+i%objects*namespaces)%canaryEvery == 0 {
				events++
			}
		}
	}
	return events, ""
}

// newMuxOf8 returns a Mux with one Stream for each namespace. change adjusts the Streams' options; it may be nil.
func newMuxOf8(l *lap, change func(*stream.Options)) (*mux.Mux, error) {
	client, err := stream.NewClient(l.config(), nil)
	if err != nil {
		return nil, err
	}
	var sources []mux.Source
	for i := range namespaces {
		o := &stream.Options{Namespaces: []string{namespaceOf(i)}}
		if change != nil {
			change(o)
		}
		s, err := stream.New(client, podResource, o)
		if err != nil {
			return nil, err
		}
		sources = append(sources, s)
	}
	return mux.New(nil, sources...)
}

func mux8(l *lap) error {
	m, err := newMuxOf8(l, nil)
	if err != nil {
		return err
	}
	return consume(l, m.Events(l.ctx), m.AllSynced)
}

// mux8Canaries counts the events of canaries in all namespaces. Some namespaces have no canary, so the bookmarks after
// the last events end the measurement.
func mux8Canaries(l *lap) error {
	m, err := newMuxOf8(l, func(o *stream.Options) { canaries(o); o.Bookmarks = true })
	if err != nil {
		return err
	}
	canaries, ended, started := 0, 0, false
	for ev, err := range m.Events(l.ctx) {
		switch {
		case err != nil:
			return err
		case ev.Type == stream.Modified:
			canaries++
		case ev.Type == stream.Synced && m.AllSynced() && !started:
			started = true
			if err := l.synced(); err != nil {
				return err
			}
		case ev.Type == stream.Bookmark:
			if ended++; ended == namespaces {
				l.events(canaries)
				return nil
			}
		case ev.Type != stream.Added && ev.Type != stream.Synced:
			return fmt.Errorf("unexpected event of type %s", ev.Type)
		}
	}
	return errors.Join(errClosed, context.Cause(l.ctx))
}

func checkpointStream(l *lap) (err error) {
	client, err := stream.NewClient(l.config(), nil)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "gvrwatch-peers-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	store, err := file.Open(filepath.Join(dir, "positions.db"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	tracker, err := checkpoint.NewTracker(store, &checkpoint.Options{Cluster: checkpoint.Cluster{UID: "peers"}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, tracker.Close()) }()
	s, err := stream.New(client, podResource, &stream.Options{Checkpoint: tracker})
	if err != nil {
		return err
	}
	return consume(l, stream.Acked(s.Events(l.ctx)), func() bool { return true })
}
