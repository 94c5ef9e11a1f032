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

// With the watch cache a change of a CRD expires all versions of its resource, so
// that the server itself makes a GAP necessary. Without it nothing expires, and
// nothing may be missing.
func withAndWithoutCache(t *testing.T, test func(t *testing.T, srv *devserver.Server, cache bool)) {
	for _, cache := range []bool{true, false} {
		t.Run(fmt.Sprintf("watchCache=%v", cache), func(t *testing.T) {
			t.Parallel()
			test(t, startServer(t, &devserver.Options{DisableWatchCache: !cache}), cache)
		})
	}
}

// workload is a CRD, a writer that writes, and who follows it.
type workload struct {
	*definitions
	crd       devserver.CRD
	writer    *writer
	historian *historian
	source    string
}

func startWorkload(t *testing.T, srv *devserver.Server, crd devserver.CRD, namespaces ...string) *workload {
	t.Helper()
	s := &workload{definitions: &definitions{t, dynamic.NewForConfigOrDie(srv.Config())}, crd: crd, source: sourceOf(crd)}
	s.create(crd)
	s.writer = newWriter(t, srv.Config(), crd, namespaces...)
	list, err := s.client.Resource(crd.Resource()).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s.historian = recordHistory(t, srv.Config(), list.GetResourceVersion(), s.writer.resources...)
	return s
}

// finish stops the writer, and holds what each follower told to what was written,
// in so many ways as there are.
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
			s.t.Errorf("%s was told %d GAPs, though nothing expired: %v", name, gaps, gapsIn(events))
		}
		r := events[0].Resource
		history := s.historian.history(s.t, r, len(writes))
		err := streamtest.Check(history, inVersion(events, r), &streamtest.CheckOptions{Settled: true})
		if err != nil {
			s.t.Errorf("%s: %v", name, err)
		}
	}
}

func gapsIn(events []stream.Event) (all []string) {
	for _, ev := range events {
		if ev.Type == stream.Gap {
			all = append(all, streamtest.Text(ev))
		}
	}
	return all
}

// awaitVersion waits until a source tells of something written from now on in a
// version of the API.
func (s *workload) awaitVersion(f *follower, version string) time.Duration {
	s.t.Helper()
	began := time.Now()
	skip := len(f.eventsOf(s.source))
	_, ev := f.awaitEvent(s.source, "something in "+version, skip, func(ev stream.Event) bool {
		return ev.Object != nil && ev.Resource.Version == version && ev.Object.GroupVersionKind().Version == version
	})
	return ev.at.Sub(began)
}

func TestFollowVersionSwitchedLive(t *testing.T) {
	t.Parallel()
	// What a pattern selects is watched in the best version, what is named with a
	// version in that one as long as it is served.
	for _, by := range []string{"pattern", "name"} {
		t.Run("by "+by, func(t *testing.T) {
			t.Parallel()
			withAndWithoutCache(t, func(t *testing.T, srv *devserver.Server, cache bool) { switchVersions(t, srv, cache, by) })
		})
	}
}

func switchVersions(t *testing.T, srv *devserver.Server, cache bool, by string) {
	crd := devserver.CRD{Group: unique("versions") + ".example.com", Kind: "Thing", Namespaced: true, Versions: []string{"v1", "v2"}}
	s := startWorkload(t, srv, crd, "a", "b", "c")
	sel, begins := follow.Selection{Resources: []string{"*." + crd.Group}}, "v2"
	if by == "name" {
		sel, begins = follow.Selection{Resources: []string{"things.v1." + crd.Group}}, "v1"
	}
	f := followOn(t, srv.Config(), sel, nil)
	f.awaitSynced(s.source, 0)
	s.writer.start(25)
	s.awaitVersion(f, begins)
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
		t.Logf("served %v: something in %s after %v", step.served, want, s.awaitVersion(f, want))
		s.writer.await(20)
	}
	s.finish(cache, map[string]*follower{by: f})
}

func TestFollowSchemaThatChanges(t *testing.T) {
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
				properties := version["schema"].(map[string]any)["openAPIV3Schema"].(map[string]any)["properties"].(map[string]any)
				properties[fmt.Sprint("more", i)] = map[string]any{"type": "string"}
			})
		}
		s.writer.await(17)
		s.finish(cache, map[string]*follower{"it": f})
		if got := f.awaitState(s.source, follow.Watching).Incarnation; got != 1 {
			t.Errorf("it is incarnation %d, want 1: it was served all the time", got)
		}
	})
}
