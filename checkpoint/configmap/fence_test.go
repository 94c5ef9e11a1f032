package configmap

import (
	"errors"
	"fmt"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gvrwatch/gvrwatch/checkpoint"
)

// isFenced fails unless s can't change anything any more, whatever it tries.
func isFenced(t *testing.T, s *Store, holder string, current func() *unstructured.Unstructured) {
	t.Helper()
	before := current()
	for range 2 {
		fencedBy(t, s.Commit(t.Context(), []checkpoint.Delta{delta("k", "666", "stale")}), holder)
		fencedBy(t, s.Commit(t.Context(), nil), holder)
		fencedBy(t, s.Delete(t.Context(), "k"), holder)
	}
	if d := cmp.Diff(before, current()); d != "" {
		t.Errorf("the stale owner has changed it: %s", d)
	}
}

// TestFence: whenever the earlier owner wakes up, the later one has it.
func TestFence(t *testing.T) {
	srv := newServer(t)
	current := func() *unstructured.Unstructured { return stored(t, srv) }
	stale := func() *Store {
		s := open(t, srv.Client(), "first")
		commit(t, s, delta("k", "5", "a"))
		return s
	}

	a := stale()
	b := open(t, srv.Client(), "second")
	isFenced(t, a, "second", current) // between claim and first commit
	commit(t, b, delta("k", "6", "b"))

	a = stale() // takes it over in turn
	isFenced(t, b, "first", current)
	b = open(t, srv.Client(), "second")
	commit(t, b, delta("k", "7", "c"))
	isFenced(t, a, "second", current) // after the first commit
	isFenced(t, a, "second", current) // and still
	commit(t, b, delta("k", "8", "d"))

	a = stale()
	open(t, srv.Client(), "second")
	open(t, srv.Client(), "third")
	isFenced(t, a, "third", current) // the last one counts

	a = stale()
	b = open(t, srv.Client(), "first")
	isFenced(t, a, "first", current) // a holder's name is not who it is
	commit(t, b, delta("k", "9", "e"))

	a = open(t, srv.Client(), "first")
	open(t, srv.Client(), "second")
	isFenced(t, a, "second", current) // without any commit
}

// TestFenceOnTheWay: the claim comes while the earlier owner's commit is under way.
func TestFenceOnTheWay(t *testing.T) {
	for _, method := range []string{http.MethodPut, http.MethodGet} {
		srv := newServer(t)
		var b *Store
		armed := false
		a := open(t, clientOf(t, srv, func(r *http.Request, next http.RoundTripper) (*http.Response, error) {
			if armed && r.Method == method {
				armed = false
				b = open(t, srv.Client(), "second")
			}
			return next.RoundTrip(r)
		}), "first")
		commit(t, a, delta("k", "5", "a"))
		label(t, srv, "so", "that-it-reads")
		armed = true
		fencedBy(t, a.Commit(t.Context(), []checkpoint.Delta{delta("k", "6", "b")}), "second")
		if got := load(t, b, "k").Position.ResourceVersions["a"]; got != "5" {
			t.Errorf("%s: the second owner has read version %s, want 5", method, got)
		}
		sameAs(t, b, open(t, srv.Client(), "third"), "k")
	}
}

// TestFenceLate: a commit arrives when its owner has long given up on it.
func TestFenceLate(t *testing.T) {
	srv := newServer(t)
	var late func()
	a := open(t, clientOf(t, srv, func(r *http.Request, next http.RoundTripper) (*http.Response, error) {
		if r.Method == http.MethodPut && late == nil {
			body, err := r.GetBody()
			if err != nil {
				t.Fatal(err)
			}
			again := r.Clone(t.Context())
			again.Body = body
			late = func() {
				resp, err := next.RoundTrip(again)
				if err != nil {
					t.Fatal(err)
				}
				_ = resp.Body.Close()
				if resp.StatusCode != http.StatusConflict {
					t.Errorf("the late commit has got %s", resp.Status)
				}
			}
			return nil, errCut
		}
		return next.RoundTrip(r)
	}), "first")
	if err := a.Commit(t.Context(), []checkpoint.Delta{delta("k", "5", "a")}); err == nil {
		t.Fatal("committed")
	}
	b := open(t, srv.Client(), "second")
	late()
	if c := load(t, b, "k"); c != nil {
		t.Errorf("loaded %v", c)
	}
	commit(t, b, delta("k", "6", "b"))
	sameAs(t, b, open(t, srv.Client(), "third"), "k")
}

func TestFenceGone(t *testing.T) {
	srv := newServer(t)
	nothing := func() *unstructured.Unstructured {
		if o, err := srv.Client().Resource(configMaps).Namespace("ns").Get(t.Context(), "cp", metav1.GetOptions{}); err == nil {
			return o
		}
		return nil
	}
	tests := []struct {
		happens func(s *Store)
		holder  string
		why     string
	}{
		{func(*Store) { remove(t, srv) }, "", "deleted"},
		{func(*Store) { remove(t, srv); open(t, srv.Client(), "second") }, "second", "deleted, and created by the next owner"},
		{func(*Store) {
			o := stored(t, srv)
			remove(t, srv)
			o.SetResourceVersion("")
			o.SetUID("")
			if _, err := srv.Create(configMapResource, o); err != nil {
				t.Fatal(err)
			}
		}, "", "put back from a copy, which may be older than what this owner has told"},
		{func(*Store) {
			edit(t, srv, func(o *unstructured.Unstructured) { delete(o.Object, "data") })
		}, "an unknown owner", "emptied by somebody, who wants to begin anew"},
		{func(*Store) {
			edit(t, srv, func(o *unstructured.Unstructured) { o.Object["data"] = map[string]any{ownerKey: "{"} })
		}, "an unknown owner", "an owner that can't be read is another one"},
	}
	for _, tt := range tests {
		if nothing() != nil {
			remove(t, srv)
		}
		s := open(t, srv.Client(), "first")
		commit(t, s, delta("k", "5", "a"))
		tt.happens(s)
		isFenced(t, s, tt.holder, nothing)
		if t.Failed() {
			t.Fatal(tt.why)
		}
	}
}

// TestNotFenced: the owner is still the same, whatever happens.
func TestNotFenced(t *testing.T) {
	type around = func(r *http.Request, next http.RoundTripper) (*http.Response, error)
	var srv = newServer(t)
	once := func(method string, do around) around {
		return func(r *http.Request, next http.RoundTripper) (*http.Response, error) {
			if r.Method != method {
				return next.RoundTrip(r)
			}
			method = ""
			return do(r, next)
		}
	}
	tests := []struct {
		around around
		fails  int // commits before one that does not
		why    string
	}{
		{once(http.MethodPut, func(r *http.Request, next http.RoundTripper) (*http.Response, error) {
			label(t, srv, "l", "1")
			return next.RoundTrip(r)
		}), 0, "somebody labels it"},
		{once(http.MethodPut, unanswered), 1, "it got through, but not the answer"},
		{once(http.MethodPut, func(r *http.Request, next http.RoundTripper) (*http.Response, error) {
			return replayed(t, r, next)
		}), 0, "it was sent twice"},
		{once(http.MethodPut, func(*http.Request, http.RoundTripper) (*http.Response, error) { return nil, errCut }), 1, "it did not get through"},
	}
	for _, tt := range tests {
		var now around
		s := open(t, clientOf(t, srv, func(r *http.Request, next http.RoundTripper) (*http.Response, error) {
			if now == nil {
				return next.RoundTrip(r)
			}
			return now(r, next)
		}), "me")
		want := checkpoint.NewMemory()
		ok := func(d checkpoint.Delta) {
			t.Helper()
			commit(t, s, d)
			if err := want.Commit(t.Context(), []checkpoint.Delta{d}); err != nil {
				t.Fatal(err)
			}
		}
		first := delta("k", "5", "a")
		first.Reset = true
		ok(first)
		now = tt.around
		next := delta("k", "6", "b")
		for range tt.fails {
			if err := s.Commit(t.Context(), []checkpoint.Delta{next}); err == nil {
				t.Errorf("%s: committed", tt.why)
			}
			sameAs(t, want, s, "k")
			next = delta("k", "7", "b", "c")
		}
		ok(next)
		ok(delta("k", "8", "d"))
		sameAs(t, want, s, "k")
		sameAs(t, want, open(t, srv.Client(), "other"), "k")
		if t.Failed() {
			t.Fatal(tt.why)
		}
	}
}

// TestUnansweredThenDeleted: a key that may have got through is deleted, though no
// commit of it has ever succeeded.
func TestUnansweredThenDeleted(t *testing.T) {
	srv := newServer(t)
	cut := false
	s := open(t, clientOf(t, srv, func(r *http.Request, next http.RoundTripper) (*http.Response, error) {
		if cut && r.Method == http.MethodPut {
			cut = false
			return unanswered(r, next)
		}
		return next.RoundTrip(r)
	}), "me")
	cut = true
	if err := s.Commit(t.Context(), []checkpoint.Delta{delta("k", "5", "a")}); err == nil {
		t.Fatal("committed")
	}
	cut = true
	if err := s.Delete(t.Context(), "k"); err == nil {
		t.Fatal("deleted")
	}
	if err := s.Delete(t.Context(), "k"); err != nil {
		t.Fatal(err)
	}
	if c := load(t, open(t, srv.Client(), "other"), "k"); c != nil {
		t.Errorf("still there: %v", c)
	}
}

// TestCommitGivesUp: it does not try for ever.
func TestCommitGivesUp(t *testing.T) {
	srv := newServer(t)
	busy, puts := false, 0
	s := open(t, clientOf(t, srv, func(r *http.Request, next http.RoundTripper) (*http.Response, error) {
		if busy && r.Method == http.MethodPut {
			puts++
			label(t, srv, "n", string(rune('a'+puts)))
		}
		return next.RoundTrip(r)
	}), "me")
	busy = true
	if err := s.Commit(t.Context(), []checkpoint.Delta{delta("k", "5")}); err == nil || puts != maxTries {
		t.Errorf("%v after %d attempts, want an error after %d", err, puts, maxTries)
	}
	busy = false
	commit(t, s, delta("k", "5"))
}

// TestImmutable: somebody makes it so while it is open.
func TestImmutable(t *testing.T) {
	srv := newServer(t)
	s := open(t, srv.Client(), "me")
	commit(t, s, delta("k", "5", "a"))
	edit(t, srv, func(o *unstructured.Unstructured) { o.Object["immutable"] = true })
	before := stored(t, srv)
	for range 2 {
		if err := s.Commit(t.Context(), []checkpoint.Delta{delta("k", "6", "b")}); err == nil {
			t.Error("committed")
		}
	}
	if d := cmp.Diff(before, stored(t, srv)); d != "" {
		t.Error(d)
	}
}

// TestStale: a server that lags shows an owner from before; nobody has taken over.
func TestStale(t *testing.T) {
	tests := []struct {
		back  int // so many changes
		fails bool
		why   string
	}{
		{1, false, "to the last commit: it is read again"},
		{2, false, "to the claim: likewise"},
		{3, true, "to a commit of the first owner"},
		{4, true, "to the first owner's claim"},
	}
	for _, tt := range tests {
		srv := newServer(t)
		commit(t, open(t, srv.Client(), "first"), delta("k", "5", "a"))
		s := open(t, srv.Client(), "second")
		commit(t, s, delta("k", "6", "b"))
		label(t, srv, "l", "1")
		if err := srv.Apply(fmt.Sprintf("configmaps get 1: stale %d", tt.back)); err != nil {
			t.Fatal(err)
		}
		err := s.Commit(t.Context(), []checkpoint.Delta{delta("k", "7", "c")})
		if (err != nil) != tt.fails || errors.As(err, new(*checkpoint.FencedError)) {
			t.Errorf("%s: %v", tt.why, err)
		}
		commit(t, s, delta("k", "8", "d"))
	}
}
