package configmap

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic/fake"

	"github.com/gvrwatch/gvrwatch/checkpoint"
)

// Both the Store that committed and the next one load the commit.
func TestLastCommitIsLoaded(t *testing.T) {
	began := time.Now()
	flags, within, odd := delta("k", "7"), delta("k", "8"), delta("l", "9")
	flags.Identity.Shard, flags.Rewound, flags.Unclean, flags.Reset = "s", true, true, true
	within.ResourceVersions = map[string]string{"a": "", "b": "8"}
	odd.ResourceVersions, odd.Partial = map[string]string{"": `"<&>` + "\u2028é"}, true
	tests := []struct {
		deltas []checkpoint.Delta
		why    string
	}{
		{[]checkpoint.Delta{delta("k", "5"), delta("l", "5")}, "two keys"},
		{[]checkpoint.Delta{delta("k", "6")}, "one, and the other is kept"},
		{[]checkpoint.Delta{flags}, "all flags"},
		{[]checkpoint.Delta{within}, "a namespace within a snapshot, flags cleared"},
		{[]checkpoint.Delta{odd}, "characters that JSON escapes"},
		{[]checkpoint.Delta{{Key: "m", Identity: checkpoint.Identity{Resource: "pods"}}}, "no versions at all"},
		{[]checkpoint.Delta{delta("k", "9"), delta("k", "10")}, "twice the same key"},
	}
	srv, want := newServer(t), model{}
	s := open(t, srv.Client(), "a")
	for _, tt := range tests {
		commit(t, s, tt.deltas...)
		want.commit(tt.deltas...)
		next := open(t, srv.Client(), "a")
		want.check(t, s, "k", "l", "m", "never there")
		want.check(t, next, "k", "l", "m", "never there")
		a, b := load(t, s, "k").Committed, load(t, next, "k").Committed
		if !a.Equal(b) || a.Before(began) || a.After(time.Now()) {
			t.Errorf("committed at %v, and read again %v", a, b)
		}
		if t.Failed() {
			t.Fatal(tt.why)
		}
		s = next
	}
	load(t, s, "k").Position.ResourceVersions["a"] = "the caller's"
	want.check(t, s, "k")
}

// A key does not collide with the Store's own keys either.
func TestKeysDoNotCollide(t *testing.T) {
	keys := []string{
		"a", "checkpoint.a", "checkpoint.", "format", "owner", "A", strings.Repeat("k", 200), strings.Repeat("k", 199),
	}
	srv, want := newServer(t), model{}
	s := open(t, srv.Client(), "a")
	for i, key := range keys {
		commit(t, s, delta(key, fmt.Sprint(i)))
		want.commit(delta(key, fmt.Sprint(i)))
	}
	s = open(t, srv.Client(), "a")
	want.check(t, s, keys...)
	for _, key := range keys {
		noError(t, s.Delete(t.Context(), key))
		delete(want, key)
		want.check(t, s, keys...)
	}
	if data := values(t, stored(t, srv)); len(data) != 2 {
		t.Errorf("left behind: %v", data)
	}
}

// The data may change while the Store is open.
func TestForeignDataIsPreserved(t *testing.T) {
	srv := newServer(t)
	s := open(t, srv.Client(), "a")
	commit(t, s, delta("k", "5"), delta("l", "5"))
	edit(t, srv, func(o *unstructured.Unstructured) {
		o.SetLabels(map[string]string{"l": "1"})
		o.SetAnnotations(map[string]string{"a": "1"})
		o.SetFinalizers([]string{"example.com/f"})
		o.Object["immutable"] = false
		o.Object["spec"] = map[string]any{"fromTheFuture": []any{int64(1), "x"}}
		o.Object["binaryData"] = map[string]any{"theirs.too": "AP8=", "checkpoint.html": "AQ=="}
		o.Object["data"].(map[string]any)["theirs"] = "x"
	})
	want := stored(t, srv)
	commit(t, s, delta("k", "6"))
	noError(t, s.Delete(t.Context(), "l"))
	commit(t, open(t, srv.Client(), "b"), delta("k", "7"))
	got := stored(t, srv)
	for _, o := range []*unstructured.Unstructured{want, got} {
		for _, name := range []string{"checkpoint.k", "checkpoint.l", ownerKey} {
			delete(o.Object["data"].(map[string]any), name)
		}
		o.SetResourceVersion("")
		o.SetGeneration(0)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// The key remains unchanged, and does not affect other keys.
func TestUnreadableKeyIsAnError(t *testing.T) {
	good, err := encode(delta("k", "5"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := decode(" " + good + "\n"); err != nil {
		t.Errorf("edited by hand, and still right: %v", err)
	}
	tests := []struct{ text, why string }{
		{"", "empty"},
		{"x" + good, "no JSON"},
		{good[:len(good)-1], "cut off"},
		{good + good, "twice"},
		{good + "}", "a brace too much"},
		{"null", "nothing"},
		{"[]", "a list"},
		{`{"identity":{},"resourceVersions":{},"committed":"2026-01-02T03:04:05Z"}`, "no resource"},
		{strings.Replace(good, "committed", "Commited", 1), "a name that is misspelt"},
		{strings.Replace(good, `"committed"`, `"objects":3,"committed"`, 1), "a field of another version"},
		{strings.Replace(good, `"a":"5"`, `"a":5`, 1), "a version that is no string"},
		{strings.Replace(good, `"uid"`, `"id"`, 1), "an identity with a field of another version"},
		{`{"identity":{"resource":"x"},"resourceVersions":{}}`, "no time"},
	}
	for _, tt := range tests {
		srv := newServer(t)
		commit(t, open(t, srv.Client(), "a"), delta("k", "5"), delta("l", "6"))
		edit(t, srv, func(o *unstructured.Unstructured) { o.Object["data"].(map[string]any)["checkpoint.k"] = tt.text })
		unreadable := func(err error) {
			t.Helper()
			if e := (*checkpoint.CorruptError)(nil); !errors.As(err, &e) || e.Store != `ConfigMap ns/cp (key "k")` {
				t.Errorf("%s: %v, want a CorruptError", tt.why, err)
			}
		}
		s, want := open(t, srv.Client(), "b"), model{}
		_, err := s.Load(t.Context(), "k")
		unreadable(err)
		unreadable(s.Commit(t.Context(), []checkpoint.Delta{delta("l", "7"), delta("k", "7")}))
		commit(t, s, delta("l", "8"))
		want.commit(delta("l", "8"))
		want.check(t, s, "l")
		if got := values(t, stored(t, srv))["checkpoint.k"]; got != tt.text {
			t.Errorf("%s: %q was changed to %q", tt.why, tt.text, got)
		}
		noError(t, srv.Apply("configmaps write 1: 500"))
		if err := s.Delete(t.Context(), "k"); err == nil {
			t.Errorf("%s: deleted, though the server failed", tt.why)
		}
		_, err = s.Load(t.Context(), "k")
		unreadable(err)
		if err := s.Delete(t.Context(), "k"); err != nil {
			t.Errorf("%s: %v", tt.why, err)
		}
		want.check(t, s, "k", "l")
		want.check(t, open(t, srv.Client(), "c"), "k", "l")
	}
}

func TestClosedStoreRefusesWrites(t *testing.T) {
	srv := newServer(t)
	s := open(t, srv.Client(), "a")
	commit(t, s, delta("k", "5"))
	before := stored(t, srv)
	for range 2 {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		for _, err := range []error{
			s.Commit(t.Context(), []checkpoint.Delta{delta("k", "6")}), s.Delete(t.Context(), "k"),
		} {
			if !errors.Is(err, os.ErrClosed) {
				t.Errorf("after Close: %v", err)
			}
		}
	}
	if c := load(t, s, "k"); c == nil || c.Position.ResourceVersions["a"] != "5" {
		t.Errorf("Load after Close: %v", c)
	}
	if d := cmp.Diff(before, stored(t, srv)); d != "" {
		t.Errorf("changed after Close: %s", d)
	}
}

// The write can be repeated.
func TestFailedWriteChangesNothing(t *testing.T) {
	for _, fault := range []string{
		"413", "422", "403", "401", "500", "404 plain", "503 plain", "429", "refuse", "reset", "garbage",
	} {
		srv, want := newServer(t), model{}
		s := open(t, srv.Client(), "a")
		commit(t, s, delta("k", "5"))
		want.commit(delta("k", "5"))
		noError(t, srv.Apply("configmaps write 1-2: "+fault))
		err := s.Commit(t.Context(), []checkpoint.Delta{delta("k", "6")})
		if err == nil || errors.As(err, new(*checkpoint.FencedError)) || errors.Is(err, os.ErrClosed) {
			t.Errorf("%s: %v, want an error that is not final", fault, err)
		}
		if err := s.Delete(t.Context(), "k"); err == nil {
			t.Errorf("%s: deleted", fault)
		}
		want.check(t, s, "k")
		commit(t, s, delta("k", "6"))
		want.commit(delta("k", "6"))
		want.check(t, s, "k")
	}
}

// A proxy answers an update with something else, or with too much. The next commit reads the ConfigMap again.
func TestUnexpectedAnswerForcesANewRead(t *testing.T) {
	const status = `{"kind":"Status","apiVersion":"v1","status":"Success"}`
	for _, change := range []func(body string) string{
		func(string) string { return status },
		func(body string) string { return `{"x":"` + strings.Repeat("x", maxSize) + `",` + body[1:] },
	} {
		srv, odd := newServer(t), false
		s := open(t, clientOf(t, srv, func(r *http.Request, next http.RoundTripper) (*http.Response, error) {
			resp, err := next.RoundTrip(r)
			if err == nil && odd {
				odd = false
				var body []byte
				body, err = io.ReadAll(resp.Body)
				_ = resp.Body.Close()
				resp.Body = io.NopCloser(strings.NewReader(change(string(body))))
				resp.ContentLength = -1
			}
			return resp, err
		}), "me")
		odd = true
		commit(t, s, delta("k", "5"))
		commit(t, s, delta("k", "6"))
	}
}

func TestCommitHonoursItsContext(t *testing.T) {
	s := open(t, newServer(t).Client(), "a")
	why := errors.New("this is why")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	s.turn <- struct{}{} // another commit is under way
	if err := s.Commit(ctx, []checkpoint.Delta{delta("k", "5")}); err != why {
		t.Errorf("%v, want %v", err, why)
	}
	<-s.turn
	commit(t, s, delta("k", "5"))
}

// For the race detector.
func TestStoreAllowsConcurrentCalls(t *testing.T) {
	srv, want := newServer(t), model{}
	s := open(t, srv.Client(), "a")
	keys := []string{"a", "b", "c", "d"}
	var all sync.WaitGroup
	for _, key := range keys {
		all.Go(func() {
			for _, version := range []string{"5", "6", "7"} {
				if err := s.Commit(t.Context(), []checkpoint.Delta{delta(key, version)}); err != nil {
					t.Error(err)
				}
				if c, err := s.Load(t.Context(), key); err != nil || c.Position.ResourceVersions["a"] != version {
					t.Errorf("%v %v", c, err)
				}
			}
		})
		want.commit(delta(key, "7"))
	}
	all.Wait()
	want.check(t, open(t, srv.Client(), "b"), keys...)
}

// A commit is a request also if nothing has changed, so that an owner that has lost the ConfigMap is fenced.
func TestCommitIsOneRequest(t *testing.T) {
	srv := newServer(t)
	s := open(t, srv.Client(), "a")
	enter := func(deltas ...checkpoint.Delta) func() error {
		return func() error { return s.Commit(t.Context(), deltas) }
	}
	tests := []struct {
		do   func() error
		want []string
		why  string
	}{
		{enter(delta("k", "5"), delta("l", "5")), []string{"update"}, "of two keys"},
		{enter(delta("k", "5")), []string{"update"}, "of the same once more"},
		{enter(), nil, "of nothing"},
		{func() error { _, err := s.Load(t.Context(), "k"); return err }, nil, "all is in memory"},
		{func() error { return s.Delete(t.Context(), "k") }, []string{"update"}, "something is deleted"},
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

// Programs are tested on the fake. It has no resourceVersions.
func TestStoreWorksOnClientGosFake(t *testing.T) {
	client, want := fake.NewSimpleDynamicClient(runtime.NewScheme()), model{}
	for _, version := range []string{"5", "6"} {
		s := open(t, client, "a")
		for _, key := range []string{"k", "l"} {
			commit(t, s, delta(key, version))
			want.commit(delta(key, version))
		}
		want.check(t, s, "k", "l")
		want.check(t, open(t, client, "b"), "k", "l")
	}
	s, own := open(t, client, "a"), client.Resource(configMaps).Namespace("ns")
	noError(t, own.Delete(t.Context(), "cp", metav1.DeleteOptions{}))
	fencedBy(t, s.Commit(t.Context(), []checkpoint.Delta{delta("k", "7")}), "")
}

// TestModel commits, deletes and reopens at random on a connection that breaks. After an error the ConfigMap is as
// before or after the write, and the Store as before.
func TestModel(t *testing.T) {
	keys := []string{"a", "b", "c"}
	for seed := range uint64(3) {
		r := rand.New(rand.NewPCG(seed, 4))
		srv := newServer(t)
		client := clientOf(t, srv, func(req *http.Request, next http.RoundTripper) (*http.Response, error) {
			if req.Method == http.MethodPut {
				switch r.IntN(8) {
				case 0:
					return nil, errCut
				case 1:
					return unanswered(req, next)
				case 2:
					return replayed(t, req, next)
				case 3:
					label(t, srv, fmt.Sprint(r.Uint64()))
				}
			}
			return next.RoundTrip(req)
		})
		s, want := open(t, srv.Client(), "a"), model{}
		possible := []model{want} // that the ConfigMap may hold
		for step := range 100 {
			next, err := maps.Clone(want), error(nil)
			switch key := keys[r.IntN(len(keys))]; r.IntN(8) {
			case 0:
				delete(next, key)
				err = s.Delete(t.Context(), key)
			case 1: // another process
				if opened, err := Open(t.Context(), client, "ns", "cp", nil); err == nil {
					s = opened.(*store)
				} else {
					s = open(t, srv.Client(), "a")
				}
				i := slices.IndexFunc(possible, func(m model) bool { return m.diff(t, s, keys...) == "" })
				if i < 0 {
					t.Fatalf("seed %d, step %d: it holds none of what was written", seed, step)
				}
				next, err = possible[i], nil
			default:
				d := delta(key, fmt.Sprint(step))
				next.commit(d)
				err = s.Commit(t.Context(), []checkpoint.Delta{d})
			}
			if err != nil {
				possible = append(possible, next)
			} else {
				want, possible = next, []model{next}
			}
			if d := want.diff(t, s, keys...); d != "" {
				t.Fatalf("seed %d, step %d: %s", seed, step, d)
			}
		}
	}
}
