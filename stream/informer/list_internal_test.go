package informer

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/stream"
)

// A list has what the snapshot ends with.
func TestCollect(t *testing.T) {
	refused := errors.New("refused")
	type event struct {
		kind      stream.Type
		name, uid string
		spec      any // that the transform makes of the object
	}
	for _, tt := range []struct {
		why    string
		last   map[string]string // names by uid
		events []event
		want   []any
		added  []string // by the watch that follows
		calls  int      // of the transform
		err    error
	}{
		{why: "an empty snapshot", last: map[string]string{"u": "a"}},
		{why: "by name", events: []event{{stream.Added, "b", "u", 1}, {stream.Added, "a", "v", 2}}, want: []any{2, 1},
			calls: 2},
		{why: "the last state of an object",
			events: []event{{stream.Added, "a", "u", 1}, {stream.Modified, "a", "u", 2}, {stream.Added, "a", "u", 3}},
			want:   []any{3}, calls: 3},
		{why: "deleted", events: []event{{stream.Added, "a", "u", 1}, {stream.Deleted, "a", "u", 2}}, calls: 1},
		{why: "deleted and recreated",
			events: []event{{stream.Added, "a", "u", 1}, {stream.Deleted, "a", "u", 2}, {stream.Added, "a", "v", 3}},
			want:   []any{3}, calls: 2},
		{why: "a deletion of an unknown object", events: []event{{stream.Deleted, "a", "u", 1}}},
		{why: "known", last: map[string]string{"u": "a"},
			events: []event{{stream.Added, "a", "u", 1}}, want: []any{1}, calls: 1},
		{why: "known with another uid", last: map[string]string{"u": "a", "w": "b"},
			events: []event{{stream.Added, "b", "w", 1}, {stream.Added, "a", "v", 2}},
			want:   []any{1}, added: []string{"a"}, calls: 1},
		{why: "known, deleted and recreated", last: map[string]string{"u": "a"},
			events: []event{{stream.Added, "a", "u", 1}, {stream.Deleted, "a", "u", 2}, {stream.Added, "a", "v", 3}},
			added:  []string{"a"}, calls: 1},
		{why: "recreated, then deleted", last: map[string]string{"u": "a"},
			events: []event{{stream.Added, "a", "v", 1}, {stream.Deleted, "a", "v", 2}}},
		{why: "refused", events: []event{{stream.Added, "a", "u", 1}, {stream.Added, "b", "v", refused}}, err: refused,
			calls: 2},
		{why: "refused, then changed",
			events: []event{{stream.Added, "a", "u", refused}, {stream.Modified, "a", "u", 2}},
			want:   []any{2}, calls: 2},
		{why: "refused, then deleted",
			events: []event{{stream.Added, "a", "u", refused}, {stream.Deleted, "a", "u", 2}}, calls: 1},
		{why: "without uids", last: map[string]string{"": "a"},
			events: []event{{stream.Added, "a", "", 1}, {stream.Added, "b", "", 2}}, want: []any{1, 2}, calls: 2},
	} {
		calls, made := 0, map[*unstructured.Unstructured]any{}
		s := &states{objects: map[identity]any{}, transform: func(obj any) (any, error) {
			calls++
			if err, ok := made[obj.(*unstructured.Unstructured)].(error); ok {
				return nil, err
			}
			return &state{obj.(*unstructured.Unstructured), made[obj.(*unstructured.Unstructured)]}, nil
		}}
		for uid, name := range tt.last {
			o := object(name, uid)
			s.objects[identityOf(o)] = o
		}
		before := len(s.objects)
		l := newList(gvr.Resource{}, s)
		for _, ev := range tt.events {
			o := object(ev.name, ev.uid)
			made[o] = ev.spec
			l.collect(ev.kind, o)
		}
		if calls != tt.calls {
			t.Errorf("%s: %d calls of the transform, want %d", tt.why, calls, tt.calls)
		}
		if err := l.complete("7"); !errors.Is(err, tt.err) {
			t.Errorf("%s: error %v, want %v", tt.why, err, tt.err)
		}
		if tt.err != nil {
			if len(s.objects) != before {
				t.Errorf("%s: %d last states, want %d as before", tt.why, len(s.objects), before)
			}
			continue
		}
		items, err := meta.ExtractListWithAlloc(l.items)
		if err != nil {
			t.Fatal(err)
		}
		var got []any
		for _, i := range items {
			if key, err := cache.MetaNamespaceKeyFunc(i); err != nil || key != "shop/"+i.(*item).name.Name {
				t.Errorf("%s: key %q, error %v", tt.why, key, err)
			}
			entered, err := s.transformed(i)
			if err != nil {
				t.Errorf("%s: %v", tt.why, err)
			}
			got = append(got, entered.(*state).spec)
			if s.objects[identityOf(entered.(*state))] != entered {
				t.Errorf("%s: %v is not the last state", tt.why, entered)
			}
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.why, diff)
		}
		var added []string
		for _, o := range l.retained {
			added = append(added, o.GetName())
		}
		if diff := cmp.Diff(tt.added, added); diff != "" {
			t.Errorf("%s: added by the watch (-want +got):\n%s", tt.why, diff)
		}
		if len(s.objects) != len(got) {
			t.Errorf("%s: %d last states, want %d", tt.why, len(s.objects), len(got))
		}
	}
}

// state is what a transform makes.
type state struct {
	*unstructured.Unstructured
	spec any
}

func object(name, uid string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{}}
	o.SetNamespace("shop")
	o.SetName(name)
	o.SetUID(types.UID(uid))
	return o
}
