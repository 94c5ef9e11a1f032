package configmap

import (
	"errors"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

var configMapResource = gvr.Resource{
	GroupVersionResource: configMaps, Kind: "ConfigMap", Namespaced: true,
}

func newServer(t testing.TB) *streamtest.Server {
	srv := streamtest.NewServer(configMapResource)
	t.Cleanup(srv.Close)
	return srv
}

// do makes an http.RoundTripper of a function.
type do func(*http.Request) (*http.Response, error)

func (f do) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

type around func(r *http.Request, next http.RoundTripper) (*http.Response, error)

// clientOf returns a client whose requests go through around.
func clientOf(t testing.TB, srv *streamtest.Server, around around) dynamic.Interface {
	t.Helper()
	cfg := srv.Config()
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return do(func(r *http.Request) (*http.Response, error) { return around(r, next) })
	})
	c, err := dynamic.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

var errCut = errors.New("the connection was cut")

// unanswered sends a request and drops the answer.
func unanswered(r *http.Request, next http.RoundTripper) (*http.Response, error) {
	resp, err := next.RoundTrip(r)
	if err == nil {
		_, err = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
	}
	if err == nil {
		err = errCut
	}
	return nil, err
}

func open(t testing.TB, client dynamic.Interface, holder string) *store {
	t.Helper()
	s, err := Open(t.Context(), client, "ns", "cp", &Options{Holder: holder})
	if err != nil {
		t.Fatal(err)
	}
	return s.(*store)
}

func commit(t testing.TB, s *store, deltas ...checkpoint.Delta) {
	t.Helper()
	noError(t, s.Commit(t.Context(), deltas))
}

func load(t testing.TB, s checkpoint.Store, key string) *checkpoint.Checkpoint {
	t.Helper()
	c, err := s.Load(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// model is what a Store should hold.
type model map[string]*checkpoint.Checkpoint

func (m model) commit(deltas ...checkpoint.Delta) {
	for _, d := range deltas {
		m[d.Key] = &checkpoint.Checkpoint{Identity: d.Identity, Position: checkpoint.Position{
			ResourceVersions: d.ResourceVersions, Partial: true, Rewound: d.Rewound, Unclean: d.Unclean,
		}}
	}
}

// diff compares the checkpoints under some keys, without their times.
func (m model) diff(t testing.TB, s *store, keys ...string) string {
	t.Helper()
	got, want := model{}, model{}
	for _, key := range keys {
		want[key], got[key] = m[key], load(t, s, key)
		if got[key] != nil {
			got[key].Committed = time.Time{}
		}
	}
	return cmp.Diff(want, got)
}

// check fails the test unless s has the model's checkpoints under these keys.
func (m model) check(t testing.TB, s *store, keys ...string) {
	t.Helper()
	if d := m.diff(t, s, keys...); d != "" {
		t.Error(d)
	}
}

// stored returns the ConfigMap, or nil.
func stored(t testing.TB, srv *streamtest.Server) *unstructured.Unstructured {
	t.Helper()
	o, err := srv.Client().Resource(configMaps).Namespace("ns").Get(t.Context(), "cp", metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
	return o
}

// edit changes the ConfigMap behind the Store's back.
func edit(t testing.TB, srv *streamtest.Server, do func(o *unstructured.Unstructured)) {
	t.Helper()
	o := stored(t, srv)
	do(o)
	if _, err := srv.Update(configMapResource, o); err != nil {
		t.Fatal(err)
	}
}

func remove(t testing.TB, srv *streamtest.Server) {
	t.Helper()
	if _, err := srv.Delete(configMapResource, "ns", "cp"); err != nil {
		t.Fatal(err)
	}
}

func label(t testing.TB, srv *streamtest.Server, value string) {
	t.Helper()
	edit(t, srv, func(o *unstructured.Unstructured) { o.SetLabels(map[string]string{"l": value}) })
}

func values(t testing.TB, o *unstructured.Unstructured) map[string]string {
	t.Helper()
	data, err := dataOf(o)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

var identity = checkpoint.Identity{
	Cluster: checkpoint.Cluster{UID: "c1", Address: "https://x <&>"}, Group: "example.com", Resource: "widgets",
	StorageVersionHash: "h=", Namespaces: []string{"a", "b"}, LabelSelector: "a in (b,c)", FieldSelector: "x!=y",
}

// delta has a position at a version, and an object that is ignored.
func delta(key, version string) checkpoint.Delta {
	return checkpoint.Delta{
		Key: key, Identity: identity, ResourceVersions: map[string]string{"a": version, "b": version + "1"},
		Put: []checkpoint.Object{{Namespace: "ns", Name: "x", UID: "1", ResourceVersion: version}},
	}
}

func fencedBy(t testing.TB, err error, holder string) {
	t.Helper()
	want := &checkpoint.FencedError{Store: "ConfigMap ns/cp", Holder: holder}
	var got *checkpoint.FencedError
	if !errors.As(err, &got) {
		t.Errorf("%v, want %v", err, want)
		return
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func copyOf(t testing.TB, r *http.Request) *http.Request {
	t.Helper()
	body, err := r.GetBody()
	if err != nil {
		t.Fatal(err)
	}
	c := r.Clone(t.Context())
	c.Body = body
	return c
}

// replayed sends a request twice and returns the second answer, as net/http does when a connection breaks.
func replayed(t testing.TB, r *http.Request, next http.RoundTripper) (*http.Response, error) {
	t.Helper()
	again := copyOf(t, r)
	if _, err := unanswered(r, next); err != errCut {
		t.Fatal(err)
	}
	return next.RoundTrip(again)
}

// noError ends a test that can't go on.
func noError(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
