package configmap

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gvrwatch/gvrwatch/checkpoint"
)

func TestStoreRoundTrip(t *testing.T) {
	odd := delta("odd", "5")
	odd.Put = []checkpoint.Object{
		{Namespace: "b", Name: "x", UID: "not a UUID", ResourceVersion: "opaque:1"},
		{Namespace: "a", Name: "y", UID: uid("y"), ResourceVersion: "007", Hidden: true},
		{},
	}
	empty := checkpoint.Delta{Key: "empty", Identity: checkpoint.Identity{Resource: "pods"}, ResourceVersions: map[string]string{}, Partial: true}
	within := delta("within", "5", "a", "b")
	within.ResourceVersions = map[string]string{"b": `"<&>` + "\u2028é"}
	more := delta("usual", "6", "b", "d")
	more.Gone = []types.NamespacedName{{Namespace: "ns", Name: "a"}, {Namespace: "ns", Name: "never there"}}
	reset := delta("odd", "7", "z")
	reset.Reset = true
	commits := [][]checkpoint.Delta{
		{delta("usual", "5", "c", "a", "b"), odd, empty, within},
		{more},
		{reset, delta("usual", "8")},
		{delta("usual", "9", "e"), delta("usual", "10", "e", "f")},
		{{Key: "usual", Identity: identity, Reset: true, Unclean: true}},
	}
	srv, want := newServer(t), checkpoint.NewMemory()
	s := open(t, srv.Client(), "a")
	for i, deltas := range commits {
		commit(t, s, deltas...)
		if err := want.Commit(t.Context(), deltas); err != nil {
			t.Fatal(err)
		}
		again := open(t, srv.Client(), "a") // from here on it is the owner
		for _, key := range append(want.Keys(), "other") {
			sameAs(t, want, s, key)
			sameAs(t, want, again, key)
			if a, b := load(t, s, key), load(t, again, key); a != nil && !a.Committed.Equal(b.Committed) {
				t.Errorf("commit %d, key %q: committed %v, and read again %v", i, key, a.Committed, b.Committed)
			}
		}
		if t.Failed() {
			t.Fatalf("after commit %d", i)
		}
		s = again
	}
}

// TestStoreKeys: no key is another's, or the store's own.
func TestStoreKeys(t *testing.T) {
	keys := []string{
		"a", "a.index", "index.a", "checkpoint.a", "index.", "checkpoint.", "index.index.a", "format", "owner", "A", "-", "_",
		strings.Repeat("k", 200), strings.Repeat("k", 199),
	}
	srv, want := newServer(t), checkpoint.NewMemory()
	s := open(t, srv.Client(), "a")
	for i, key := range keys {
		d := delta(key, "5", key, strings.Repeat("n", i))
		commit(t, s, d)
		if err := want.Commit(t.Context(), []checkpoint.Delta{d}); err != nil {
			t.Fatal(err)
		}
	}
	for name := range stored(t, srv).Object["binaryData"].(map[string]any) {
		if len(name) > 253 {
			t.Errorf("a ConfigMap allows no key as long as %q", name)
		}
	}
	for _, deleted := range append(slices.Clone(keys), "never there") {
		s = open(t, srv.Client(), "a")
		for _, key := range keys {
			sameAs(t, want, s, key)
		}
		if err := s.Delete(t.Context(), deleted); err != nil {
			t.Fatal(err)
		}
		if err := want.Delete(t.Context(), deleted); err != nil {
			t.Fatal(err)
		}
	}
	c := valuesOf(t, stored(t, srv))
	if len(c.data) != 2 || len(c.binary) != 0 {
		t.Errorf("left behind: %v", c)
	}
}

// TestStoreLoadCopies: what Load returned, or Commit was given, is the caller's.
func TestStoreLoadCopies(t *testing.T) {
	srv := newServer(t)
	s := open(t, srv.Client(), "a")
	d := delta("k", "5", "a", "b")
	d.Identity.Namespaces = slices.Clone(d.Identity.Namespaces)
	commit(t, s, d)
	want := checkpoint.NewMemory()
	if err := want.Commit(t.Context(), []checkpoint.Delta{delta("k", "5", "a", "b")}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []*checkpoint.Checkpoint{load(t, s, "k"), {Identity: d.Identity, Position: checkpoint.Position{ResourceVersions: d.ResourceVersions, Objects: d.Put}}} {
		c.Identity.Namespaces[0] = "x"
		c.Position.ResourceVersions["a"] = "x"
		c.Position.Objects[0].Name = "x"
	}
	sameAs(t, want, s, "k")
}

// TestStoreForeign: what others have in the ConfigMap is kept, also what they
// change while it is open.
func TestStoreForeign(t *testing.T) {
	srv := newServer(t)
	s := open(t, srv.Client(), "a")
	commit(t, s, delta("k", "5", "a"), delta("l", "5", "a"))
	edit(t, srv, func(o *unstructured.Unstructured) {
		o.SetLabels(map[string]string{"l": "1"})
		o.SetAnnotations(map[string]string{"a": "1"})
		o.SetFinalizers([]string{"example.com/f"})
		o.Object["immutable"] = false
		o.Object["spec"] = map[string]any{"fromTheFuture": []any{int64(1), "x"}}
		c := valuesOf(t, o)
		c.data["theirs"], c.data["index.html"] = "x", "<html>"
		c.binary["theirs.too"], c.binary["checkpoint.html"] = []byte("\x00\xff"), []byte{1}
		c.into(o)
	})
	want := stored(t, srv)
	commit(t, s, delta("k", "6", "a"))
	if err := s.Delete(t.Context(), "l"); err != nil {
		t.Fatal(err)
	}
	commit(t, open(t, srv.Client(), "b"), delta("k", "7", "a"))
	got := stored(t, srv)
	for _, o := range []*unstructured.Unstructured{want, got} {
		c := valuesOf(t, o)
		for _, key := range []string{"k", "l"} {
			c.forget(key)
		}
		delete(c.data, ownerKey)
		c.into(o)
		o.SetResourceVersion("")
		o.SetGeneration(0)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestStoreClose(t *testing.T) {
	srv := newServer(t)
	s := open(t, srv.Client(), "a")
	commit(t, s, delta("k", "5", "a"))
	before := stored(t, srv)
	for range 2 {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := s.Commit(t.Context(), []checkpoint.Delta{delta("k", "6")}); !errors.Is(err, os.ErrClosed) {
		t.Errorf("Commit after Close: %v", err)
	}
	if err := s.Delete(t.Context(), "k"); !errors.Is(err, os.ErrClosed) {
		t.Errorf("Delete after Close: %v", err)
	}
	if c := load(t, s, "k"); c == nil || c.Position.ResourceVersions["a"] != "5" {
		t.Errorf("Load after Close: %v", c)
	}
	if d := cmp.Diff(before, stored(t, srv)); d != "" {
		t.Errorf("changed after Close: %s", d)
	}
}

// TestStoreErrors: an error of the server changes nothing and can be tried again.
func TestStoreErrors(t *testing.T) {
	for _, fault := range []string{"413", "422", "403", "401", "500", "404 plain", "503 plain", "429", "refuse", "reset", "garbage"} {
		srv := newServer(t)
		s := open(t, srv.Client(), "a")
		commit(t, s, delta("k", "5", "a"))
		if err := srv.Apply("configmaps write 1-2: " + fault); err != nil {
			t.Fatal(err)
		}
		before := load(t, s, "k")
		err := s.Commit(t.Context(), []checkpoint.Delta{delta("k", "6", "b")})
		if err == nil || errors.As(err, new(*checkpoint.FencedError)) || errors.Is(err, os.ErrClosed) {
			t.Errorf("%s: %v, want an error that is not final", fault, err)
		}
		if err := s.Delete(t.Context(), "k"); err == nil {
			t.Errorf("%s: deleted", fault)
		}
		if d := cmp.Diff(before, load(t, s, "k")); d != "" {
			t.Errorf("%s: %s", fault, d)
		}
		commit(t, s, delta("k", "6", "b"))
		if c := load(t, s, "k"); len(c.Position.Objects) != 2 || c.Position.ResourceVersions["a"] != "6" {
			t.Errorf("%s: then %v", fault, c.Position)
		}
	}
}

func TestStoreContext(t *testing.T) {
	srv := newServer(t)
	s := open(t, srv.Client(), "a")
	why := errors.New("this is why")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	s.turn <- struct{}{} // somebody else commits
	if err := s.Commit(ctx, []checkpoint.Delta{delta("k", "5")}); err != why {
		t.Errorf("%v, want %v", err, why)
	}
	<-s.turn
	commit(t, s, delta("k", "5"))
}

func TestStoreConcurrent(t *testing.T) {
	srv := newServer(t)
	s := open(t, srv.Client(), "a")
	var all sync.WaitGroup
	for _, key := range []string{"a", "b", "c", "d"} {
		all.Go(func() {
			for i, version := range []string{"5", "6", "7"} {
				if err := s.Commit(t.Context(), []checkpoint.Delta{delta(key, version, version)}); err != nil {
					t.Error(err)
				}
				if c, err := s.Load(t.Context(), key); err != nil || len(c.Position.Objects) != i+1 {
					t.Errorf("%v %v", c, err)
				}
				_ = s.LeftOut()
			}
		})
	}
	all.Wait()
	again := open(t, srv.Client(), "b")
	for _, key := range []string{"a", "b", "c", "d"} {
		if c := load(t, again, key); len(c.Position.Objects) != 3 {
			t.Errorf("%s: %v", key, c)
		}
	}
	_ = s.Close()
}

// TestStoreRequests: a commit is one request, and nothing is none.
func TestStoreRequests(t *testing.T) {
	srv := newServer(t)
	s := open(t, srv.Client(), "a")
	tests := []struct {
		do   func() error
		want []string
		why  string
	}{
		{func() error { return s.Commit(t.Context(), []checkpoint.Delta{delta("k", "5", "a")}) }, []string{"update"}, "the first"},
		{func() error { return s.Commit(t.Context(), []checkpoint.Delta{delta("k", "6"), delta("l", "6")}) }, []string{"update"}, "the next"},
		{func() error { return s.Commit(t.Context(), nil) }, nil, "of nothing"},
		{func() error { _, err := s.Load(t.Context(), "k"); return err }, nil, "all is in memory"},
		{func() error { return s.Delete(t.Context(), "never there") }, nil, "nothing is deleted"},
		{func() error { return s.Delete(t.Context(), "k") }, []string{"update"}, "something is deleted"},
		{func() error { return s.Delete(t.Context(), "k") }, nil, "and again"},
		{s.Close, nil, "the claim stays"},
	}
	for _, tt := range tests {
		before := len(srv.Requests())
		if err := tt.do(); err != nil {
			t.Errorf("%s: %v", tt.why, err)
		}
		var got []string
		for _, r := range srv.Requests()[before:] {
			got = append(got, r.Verb)
		}
		if d := cmp.Diff(tt.want, got); d != "" {
			t.Errorf("%s: %s", tt.why, d)
		}
	}
}
