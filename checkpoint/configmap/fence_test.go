package configmap

import (
	"errors"
	"fmt"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

// isFenced fails the test unless every write of s is refused.
func isFenced(t *testing.T, srv *streamtest.Server, s *store, holder string) {
	t.Helper()
	before := stored(t, srv)
	for range 2 {
		fencedBy(t, s.Commit(t.Context(), []checkpoint.Delta{delta("k", "666")}), holder)
		fencedBy(t, s.Commit(t.Context(), nil), holder)
		fencedBy(t, s.Delete(t.Context(), "k"), holder)
		_ = s.Close() // does not replace the error
	}
	if d := cmp.Diff(before, stored(t, srv)); d != "" {
		t.Errorf("the stale owner has changed it: %s", d)
	}
}

func TestEarlierOwnersCommitsFail(t *testing.T) {
	srv := newServer(t)
	again := func(holder string) { commit(t, open(t, srv.Client(), holder), delta("k", "6")) }
	change := func(do func(o *unstructured.Unstructured)) func() { return func() { edit(t, srv, do) } }
	tests := []struct {
		happens func()
		holder  string
		why     string
	}{
		{func() { open(t, srv.Client(), "second") }, "second", "it has not committed yet"},
		{func() { again("second") }, "second", "it has"},
		{func() { again("second"); open(t, srv.Client(), "third") }, "third", "the last one counts"},
		{func() { again("first") }, "first", "two processes may have the same holder"},
		{func() { remove(t, srv) }, "", "the ConfigMap was deleted"},
		{func() { remove(t, srv); again("second") }, "second", "deleted, and created by the next owner"},
		{func() {
			o := stored(t, srv)
			remove(t, srv)
			o.SetResourceVersion("")
			o.SetUID("")
			if _, err := srv.Create(configMapResource, o); err != nil {
				t.Fatal(err)
			}
		}, "", "put back from a copy, which may be older than what this owner has committed"},
		{change(func(o *unstructured.Unstructured) {
			delete(o.Object, "data")
		}), "an unknown owner", "emptied by hand"},
		{change(func(o *unstructured.Unstructured) {
			o.Object["data"] = map[string]any{ownerKey: "{"}
		}), "an unknown owner", "an owner that can't be read is another one"},
	}
	for _, tt := range tests {
		for _, commits := range []bool{true, false} {
			if stored(t, srv) != nil {
				remove(t, srv)
			}
			s := open(t, srv.Client(), "first")
			if commits {
				commit(t, s, delta("k", "5"))
			}
			tt.happens()
			isFenced(t, srv, s, tt.holder)
			if t.Failed() {
				t.Fatalf("%s (the first owner has committed: %t)", tt.why, commits)
			}
		}
	}
}

func TestClaimFencesACommitUnderWay(t *testing.T) {
	for _, method := range []string{http.MethodPut, http.MethodGet} {
		srv := newServer(t)
		var b *store
		armed := false
		a := open(t, clientOf(t, srv, func(r *http.Request, next http.RoundTripper) (*http.Response, error) {
			if armed && r.Method == method {
				armed = false
				b = open(t, srv.Client(), "second")
			}
			return next.RoundTrip(r)
		}), "first")
		commit(t, a, delta("k", "5"))
		label(t, srv, "so that it reads")
		armed = true
		fencedBy(t, a.Commit(t.Context(), []checkpoint.Delta{delta("k", "6")}), "second")
		if got := load(t, b, "k").Position.ResourceVersions["a"]; got != "5" {
			t.Errorf("%s: the second owner has read version %s, want 5", method, got)
		}
	}
}

// A commit reaches the server long after its owner has given up.
func TestLateCommitIsRefused(t *testing.T) {
	srv := newServer(t)
	var late func()
	a := open(t, clientOf(t, srv, func(r *http.Request, next http.RoundTripper) (*http.Response, error) {
		if r.Method != http.MethodPut || late != nil {
			return next.RoundTrip(r)
		}
		again := copyOf(t, r)
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
	}), "first")
	if err := a.Commit(t.Context(), []checkpoint.Delta{delta("k", "5")}); err == nil {
		t.Fatal("committed")
	}
	b := open(t, srv.Client(), "second")
	late()
	if c := load(t, b, "k"); c != nil {
		t.Errorf("loaded %v", c)
	}
	commit(t, b, delta("k", "6"))
}

// The server shows an earlier owner.
func TestLaggingServerFencesNoOwner(t *testing.T) {
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
		commit(t, open(t, srv.Client(), "first"), delta("k", "5"))
		s := open(t, srv.Client(), "second")
		commit(t, s, delta("k", "6"))
		label(t, srv, "1")
		noError(t, srv.Apply(fmt.Sprintf("configmaps get 1: stale %d", tt.back)))
		err := s.Commit(t.Context(), []checkpoint.Delta{delta("k", "7")})
		if (err != nil) != tt.fails || errors.As(err, new(*checkpoint.FencedError)) {
			t.Errorf("%s: %v", tt.why, err)
		}
		commit(t, s, delta("k", "8"))
	}
}

func TestOpenAndCommitGiveUpAfterConflicts(t *testing.T) {
	srv := newServer(t)
	busy, puts := false, 0
	client := clientOf(t, srv, func(r *http.Request, next http.RoundTripper) (*http.Response, error) {
		if busy && r.Method == http.MethodPut {
			puts++
			label(t, srv, fmt.Sprint(puts))
		}
		return next.RoundTrip(r)
	})
	s := open(t, client, "me")
	busy = true
	if err := s.Commit(t.Context(), []checkpoint.Delta{delta("k", "5")}); !errors.Is(err, errBusy) || puts != maxTries {
		t.Errorf("%v after %d attempts, want %v after %d", err, puts, errBusy, maxTries)
	}
	busy = false
	commit(t, s, delta("k", "5"))
	busy = true
	if _, err := Open(t.Context(), client, "ns", "cp", nil); !errors.Is(err, errBusy) || puts != 2*maxTries {
		t.Errorf("%v after %d attempts, want %v after %d", err, puts, errBusy, 2*maxTries)
	}
}
