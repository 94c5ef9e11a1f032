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

// requests notes what a Stream asked for.
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
		{false, []string{"watch initial"}, "one request: a kube-apiserver has streaming lists"},
		{true, []string{"list", "list continued", "list continued", "watch"}, "pages of two"},
	}
	for _, tt := range tests {
		var q requests
		rec := record(t, newStream(t, c.client, r, &stream.Options{
			Namespaces: []string{namespace}, PagedLists: tt.paged, PageSize: 2, Trace: q.trace(),
		}))
		got := rec.awaitSynced(1)
		checkRules(t, got)
		if len(got) != 6 {
			t.Errorf("%s: told %q", tt.why, texts(got))
		}
		if diff := cmp.Diff(tt.want, q.all()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.why, diff)
		}
	}
}

func TestMetadataOnly(t *testing.T) {
	c := newCluster(t, shared.Config())
	r := resolve(t, newResolver(shared.Config(), false), "widgets")
	client, err := stream.NewClient(shared.Config(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, paged := range []bool{false, true} {
		namespace := unique("metadata")
		c.create(widgets, namespace, "one")
		rec := record(t, newStream(t, client, r, &stream.Options{Namespaces: []string{namespace}, MetadataOnly: true, PagedLists: paged}))
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
			if o.GetKind() != "Widget" || o.GetAPIVersion() != "e2e.example.com/v1" || len(o.Object) != 3 || o.GetLabels()["test"] != c.label {
				t.Errorf("%v, %s: %v", paged, ev.Type, o.Object)
			}
		}
	}
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
	got := rec.await("both", func(events []stream.Event) bool { return len(events) >= 3 })
	if diff := cmp.Diff([]string{"ADDED " + one + "/a", "SYNCED", "ADDED " + two + "/a"}, texts(got)); diff != "" {
		t.Errorf("of two namespaces, and one name (-want +got):\n%s", diff)
	}
}

// A program that is away while objects go, and while the server forgets that they
// went, is told so when it is back.
func TestFromAPosition(t *testing.T) {
	t.Parallel()
	for _, away := range []string{"resumed", "expired"} {
		t.Run(away, func(t *testing.T) {
			t.Parallel()
			srv := startServer(t, &devserver.Options{DisableWatchCache: true})
			c := newCluster(t, srv.Config())
			if err := devserver.CreateCRDs(t.Context(), c.client, widgets); err != nil {
				t.Fatal(err)
			}
			r := resolve(t, newResolver(srv.Config(), false), "widgets")
			for _, name := range []string{"kept", "changed", "gone"} {
				c.create(widgets, "default", name)
			}
			first := newStream(t, c.client, r, nil)
			if _, err := stream.Until(first.Events(t.Context()), func(ev stream.Event) (bool, error) { return ev.Type == stream.Synced, nil }); err != nil {
				t.Fatal(err)
			}
			position := first.Position()

			c.delete(widgets, "default", "gone")
			c.touch(widgets, "default", "changed")
			c.create(widgets, "default", "new")
			want := []string{"SYNCED", "DELETED default/gone", "MODIFIED default/changed", "ADDED default/new"}
			if away == "expired" {
				ctx, cancel := context.WithTimeout(t.Context(), timeout)
				defer cancel()
				c.create(widgets, "default", "more") // a version expires once one of the next but one is compacted
				if err := srv.Compact(ctx); err != nil {
					t.Fatal(err)
				}
				// The server may say so when the watch is opened, or in it.
				want = []string{"GAP", "MODIFIED default/changed inferred", "ADDED default/more inferred", "ADDED default/new inferred", "DELETED default/gone inferred", "SYNCED"}
			}
			rec := record(t, newStream(t, c.client, r, &stream.Options{Start: stream.From(position)}))
			got := rec.await("the differences", func(events []stream.Event) bool { return len(texts(events)) >= len(want) })
			if away == "expired" && got[0].Type == stream.Synced {
				got = rec.awaitSynced(2)[1:]
			}
			if diff := cmp.Diff(want, texts(got)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
