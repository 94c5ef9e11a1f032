package e2e

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gvrwatch/gvrwatch/examples/devserver"
	"github.com/gvrwatch/gvrwatch/stream"
)

// requests records the requests of a Stream.
type requests struct {
	mu   sync.Mutex
	done []string
}

func (r *requests) trace() *stream.Trace {
	return &stream.Trace{RequestDone: func(q stream.Request) {
		r.mu.Lock()
		defer r.mu.Unlock()
		text := q.Verb
		if q.InitialEvents {
			text += " initial"
		}
		if q.Continued {
			text += " continued"
		}
		if q.Err != nil {
			text += " failed"
		}
		r.done = append(r.done, text)
	}}
}

func (r *requests) all() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.done...)
}

func TestSnapshotsAreStreamedOrPaged(t *testing.T) {
	c := newCluster(t, shared.Config())
	r := resolve(t, newResolver(shared.Config(), false), "widgets")
	namespace := unique("snapshot")
	for i := range 5 {
		c.create(widgets, namespace, fmt.Sprint("w-", i))
	}
	tests := []struct {
		paged bool
		want  []string
		why   string
	}{
		{false, []string{"watch initial"}, "a streaming list takes one request"},
		{true, []string{"list", "list continued", "list continued", "watch"},
			"with PagedLists each page takes one request"},
	}
	for _, tt := range tests {
		var q requests
		rec := record(t, newStream(t, c.client, r, &stream.Options{
			Namespaces: []string{namespace}, Requests: stream.Requests{PagedLists: tt.paged, PageSize: 2},
			Trace: q.trace(),
		}))
		got := rec.awaitSynced(1)
		checkRules(t, got)
		if len(got) != 6 {
			t.Errorf("%s: delivered %q, want 5 ADDED and SYNCED", tt.why, texts(got))
		}
		if diff := cmp.Diff(tt.want, q.all()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.why, diff)
		}
	}
}

func TestMetadataObjects(t *testing.T) {
	c := newCluster(t, shared.Config())
	r := resolve(t, newResolver(shared.Config(), false), "widgets")
	cfg, types := countContentTypes(shared.Config())
	client, err := stream.NewClient(cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, paged := range []bool{false, true} {
		namespace := unique("metadata")
		c.create(widgets, namespace, "one")
		rec := record(t, newStream(t, client, r, &stream.Options{
			Namespaces: []string{namespace}, Objects: stream.Metadata, Requests: stream.Requests{PagedLists: paged},
		}))
		rec.awaitSynced(1)
		c.touch(widgets, namespace, "one")
		c.delete(widgets, namespace, "one")
		got := rec.awaitObject(stream.Deleted, "one")
		checkRules(t, got)
		for _, ev := range got {
			if ev.Object == nil {
				continue
			}
			o := ev.Object
			if o.GetKind() != "Widget" || o.GetAPIVersion() != "e2e.example.com/v1" || len(o.Object) != 3 ||
				o.GetLabels()["test"] != c.label {
				t.Errorf("paged %v: %s of %v, want the metadata of a Widget", paged, ev.Type, o.Object)
			}
		}
	}
	types.onlyProtobuf(t)
}

func TestSeveralNamespaces(t *testing.T) {
	c := newCluster(t, shared.Config())
	r := resolve(t, newResolver(shared.Config(), false), "widgets")
	one, two, other := unique("several"), unique("several"), unique("several")
	c.create(widgets, one, "a")
	c.create(widgets, two, "b")
	c.create(widgets, other, "c")
	rec := record(t, newStream(t, c.client, r, &stream.Options{Namespaces: []string{one, two}, Name: "a"}))
	rec.awaitSynced(1)
	c.create(widgets, two, "d")
	c.create(widgets, other, "a")
	c.create(widgets, two, "a")
	got := rec.await("both ADDED", func(events []stream.Event) bool { return len(events) >= 3 })
	if diff := cmp.Diff([]string{"ADDED " + one + "/a", "SYNCED", "ADDED " + two + "/a"}, texts(got)); diff != "" {
		t.Errorf("one name in two namespaces (-want +got):\n%s", diff)
	}
}

// TestStartFromPosition: a Stream that starts from a position reports the changes since then, and deletions even if the
// server's history has expired.
func TestStartFromPosition(t *testing.T) {
	t.Parallel()
	for _, position := range []string{"resumed", "expired"} {
		t.Run(position, func(t *testing.T) {
			t.Parallel()
			srv := startServer(t, &devserver.Options{DisableWatchCache: true})
			c := newCluster(t, srv.Config())
			if err := devserver.CreateCRDs(t.Context(), c.client, widgets); err != nil {
				t.Fatal(err)
			}
			r := resolve(t, newResolver(srv.Config(), false), "widgets")
			for _, name := range []string{"kept", "changed", "deleted"} {
				c.create(widgets, "default", name)
			}
			first := newStream(t, c.client, r, nil)
			synced := func(ev stream.Event) (bool, error) { return ev.Type == stream.Synced, nil }
			if _, err := stream.Until(first.Events(t.Context()), synced); err != nil {
				t.Fatal(err)
			}
			start := stream.From(first.Position())

			c.delete(widgets, "default", "deleted")
			c.touch(widgets, "default", "changed")
			c.create(widgets, "default", "new")
			want := []string{"SYNCED", "DELETED default/deleted", "MODIFIED default/changed", "ADDED default/new"}
			if position == "expired" {
				ctx, cancel := context.WithTimeout(t.Context(), timeout)
				defer cancel()
				c.create(widgets, "default", "more") // one more write, so that the compaction expires the position
				if err := srv.Compact(ctx); err != nil {
					t.Fatal(err)
				}
				want = []string{
					"GAP", "MODIFIED default/changed inferred", "ADDED default/more inferred",
					"ADDED default/new inferred", "DELETED default/deleted inferred", "SYNCED",
				}
			}
			rec := record(t, newStream(t, c.client, r, nil).With(stream.Run{Start: start}))
			got := rec.await("the differences", func(events []stream.Event) bool { return len(events) >= len(want) })
			// The server may report the expiry when the watch opens, or in the watch after a first SYNCED.
			if position == "expired" && got[0].Type == stream.Synced {
				got = rec.awaitSynced(2)[1:]
			}
			if diff := cmp.Diff(want, texts(got)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
