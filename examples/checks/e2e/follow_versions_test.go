package e2e

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"

	"github.com/gvrwatch/gvrwatch/examples/devserver"
	"github.com/gvrwatch/gvrwatch/mux/follow"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

// withAndWithoutCache runs a test on a server with a watch cache and on one without. With the cache a change of a CRD
// expires all resourceVersions of its resource, which makes a GAP necessary. Without it no version expires, so a GAP is
// an error.
func withAndWithoutCache(t *testing.T, test func(t *testing.T, srv *devserver.Server, cache bool)) {
	for _, cache := range []bool{true, false} {
		t.Run(fmt.Sprintf("watchCache=%v", cache), func(t *testing.T) {
			t.Parallel()
			test(t, startServer(t, &devserver.Options{DisableWatchCache: !cache}), cache)
		})
	}
}

// workload is a CRD, a writer that changes its objects, and a historian that records the changes.
type workload struct {
	*definitions
	crd       devserver.CRD
	writer    *writer
	historian *historian
	source    string
}

func startWorkload(t *testing.T, srv *devserver.Server, crd devserver.CRD, namespaces ...string) *workload {
	t.Helper()
	d := &definitions{t, dynamic.NewForConfigOrDie(srv.Config())}
	s := &workload{definitions: d, crd: crd, source: sourceOf(crd)}
	s.create(crd)
	s.writer = newWriter(t, srv.Config(), crd, namespaces...)
	list, err := s.client.Resource(crd.Resource()).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s.historian = recordHistory(t, srv.Config(), list.GetResourceVersion(), s.writer.resources...)
	return s
}

// finish stops the writer, and compares the events of each follower with the writes, and without a cache also with the
// history.
func (s *workload) finish(cache bool, followers map[string]*follower) {
	s.t.Helper()
	s.writer.stop()
	writes := s.writer.written()
	for name, f := range followers {
		f.awaitOutcome(s.source, writes)
		events := f.eventsOf(s.source)
		gaps := checkDelivered(s.t, writes, events)
		s.t.Logf("%s: %d writes, %d events, %d GAPs", name, len(writes), len(events), gaps)
		if cache {
			continue
		}
		if gaps > 0 {
			s.t.Errorf("%s delivered %d GAPs, though no version expired: %v", name, gaps, gapsIn(events))
		}
		r := events[0].Resource
		history := s.historian.history(s.t, r, len(writes))
		err := streamtest.Check(history, inVersion(events, r), &streamtest.CheckOptions{Complete: true})
		if err != nil {
			s.t.Errorf("%s: %v", name, err)
		}
	}
}

func gapsIn(events []stream.Event) (all []string) {
	for _, ev := range events {
		if ev.Type == stream.Gap {
			all = append(all, ev.String())
		}
	}
	return all
}

// awaitVersion waits until a follower delivers an object in a version of the API, and returns how long that took.
func (s *workload) awaitVersion(f *follower, version string) time.Duration {
	s.t.Helper()
	began := time.Now()
	skip := len(f.eventsOf(s.source))
	_, ev := f.awaitEvent(s.source, "an object in "+version, skip, func(ev stream.Event) bool {
		return ev.Object != nil && ev.Resource.Version == version && ev.Object.GroupVersionKind().Version == version
	})
	return ev.at.Sub(began)
}

func TestFollowVersionChange(t *testing.T) {
	t.Parallel()
	// Follow watches the resources that a pattern selects in their preferred version, and a resource that is named with
	// a version in that version while it is served.
	for _, by := range []string{"pattern", "name"} {
		t.Run("by "+by, func(t *testing.T) {
			t.Parallel()
			withAndWithoutCache(t, func(t *testing.T, srv *devserver.Server, cache bool) {
				switchVersions(t, srv, cache, by)
			})
		})
	}
}

func switchVersions(t *testing.T, srv *devserver.Server, cache bool, by string) {
	crd := devserver.CRD{
		Group: unique("versions") + ".example.com", Kind: "Thing", Namespaced: true, Versions: []string{"v1", "v2"},
	}
	s := startWorkload(t, srv, crd, "a", "b", "c")
	sel, first := follow.Selection{Resources: []string{"*." + crd.Group}}, "v2"
	if by == "name" {
		sel, first = follow.Selection{Resources: []string{"things.v1." + crd.Group}}, "v1"
	}
	f := followOn(t, srv.Config(), sel, nil)
	f.awaitSynced(s.source, 0)
	s.writer.start(25)
	s.awaitVersion(f, first)
	for _, step := range []struct {
		served        []string
		name, pattern string
	}{
		{[]string{"v2"}, "v2", "v2"},
		{[]string{"v1", "v2"}, "v1", "v2"},
		{[]string{"v1"}, "v1", "v1"},
		{[]string{"v1", "v2"}, "v1", "v2"},
		{[]string{"v2"}, "v2", "v2"},
	} {
		s.serve(crd, step.served...)
		want := step.pattern
		if by == "name" {
			want = step.name
		}
		t.Logf("served %v: an object in %s after %v", step.served, want, s.awaitVersion(f, want))
		s.writer.await(20)
	}
	s.finish(cache, map[string]*follower{by: f})
}

func TestFollowSchemaChange(t *testing.T) {
	t.Parallel()
	withAndWithoutCache(t, func(t *testing.T, srv *devserver.Server, cache bool) {
		crd := devserver.CRD{Group: unique("schema") + ".example.com", Kind: "Thing", Namespaced: true}
		s := startWorkload(t, srv, crd, "a", "b", "c")
		f := followOn(t, srv.Config(), follow.Selection{Resources: []string{s.source}}, nil)
		f.awaitSynced(s.source, 0)
		s.writer.start(25)
		s.awaitVersion(f, "v1")
		for i := range 5 {
			s.writer.await(17)
			s.update(crd, func(spec map[string]any) {
				version := spec["versions"].([]any)[0].(map[string]any)
				schema := version["schema"].(map[string]any)["openAPIV3Schema"].(map[string]any)
				schema["properties"].(map[string]any)[fmt.Sprint("more", i)] = map[string]any{"type": "string"}
			})
		}
		s.writer.await(17)
		s.finish(cache, map[string]*follower{"Follow": f})
		if got := f.awaitState(s.source, follow.Watching).Incarnation; got != 1 {
			t.Errorf("incarnation %d, want 1: the resource was served all the time", got)
		}
	})
}
