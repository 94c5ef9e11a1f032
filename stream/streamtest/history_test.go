package streamtest_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/gvrwatch/gvrwatch/internal/testing/seedtest"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

func historyTexts(h streamtest.History) []string {
	var out []string
	for _, c := range h.Changes {
		out = append(out,
			fmt.Sprintf("%d %s %s/%s@%s", c.Epoch, c.Type, c.Object.GetNamespace(), c.Object.GetName(),
				c.ResourceVersion))
	}
	return out
}

func TestHistory(t *testing.T) {
	tests := []struct {
		why   string
		scope *stream.Options
		want  []string
	}{
		{"everything", nil,
			[]string{"0 ADDED x/a@2", "0 ADDED x/b@3", "0 ADDED x/c@4", "0 MODIFIED x/c@5", "0 ADDED y/d@6",
				"0 DELETED x/b@8"}},
		{"one namespace", &stream.Options{Namespaces: []string{"y"}}, []string{"0 ADDED y/d@6"}},
		{"two", &stream.Options{Namespaces: []string{"y", "x"}, LabelSelector: "app"},
			[]string{"0 ADDED x/a@2", "0 ADDED x/c@5"}},
		{"entering and leaving", &stream.Options{LabelSelector: "!app"},
			[]string{"0 ADDED x/b@3", "0 ADDED x/c@4", "0 DELETED x/c@5", "0 ADDED y/d@6", "0 DELETED x/b@8"}},
		{"fields", &stream.Options{FieldSelector: "metadata.name=a"}, []string{"0 ADDED x/a@2"}},
		{"a name", &stream.Options{Name: "d"}, []string{"0 ADDED y/d@6"}},
	}
	for _, tc := range tests {
		bubble(t, func(t *testing.T, srv *streamtest.Server) {
			fourWidgets(srv)
			srv.Put(globes, "", "earth")
			if _, err := srv.Delete(widgets, "x", "b"); err != nil {
				t.Fatal(err)
			}
			h := srv.History(widgets, tc.scope)
			if diff := cmp.Diff(tc.want, historyTexts(h)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.why, diff)
			}
			for _, c := range h.Changes {
				if c.Object.GetResourceVersion() != c.ResourceVersion || c.Object.GetKind() != "Widget" {
					t.Errorf("%s: %s has %s %s", tc.why, c.ResourceVersion, c.Object.GetKind(),
						c.Object.GetResourceVersion())
				}
			}
		})
	}
}

func TestHistoryIncludesRewinds(t *testing.T) {
	bubble(t, func(t *testing.T, srv *streamtest.Server) {
		fourWidgets(srv)
		apply(t, srv, "at 1m: rewind 3\nat 2m: rewind 1")
		began := time.Now()
		time.Sleep(time.Minute)
		srv.Put(widgets, "x", "e")
		srv.Put(widgets, "x", "b", "spec.size=7")
		time.Sleep(time.Minute)
		srv.Put(widgets, "x", "f")
		h := srv.History(widgets, nil)
		want := []string{
			"0 ADDED x/a@2", "0 ADDED x/b@3", "0 ADDED x/c@4", "0 MODIFIED x/c@5", "0 ADDED y/d@6",
			"1 ADDED x/e@4", "1 MODIFIED x/b@5", "2 ADDED x/f@5",
		}
		if diff := cmp.Diff(want, historyTexts(h)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		rewinds := []streamtest.Rewind{{To: "3", At: began.Add(time.Minute)}, {To: "4", At: began.Add(2 * time.Minute)}}
		if diff := cmp.Diff(rewinds, h.Rewinds); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if at := h.Changes[5].At; !at.Equal(began.Add(time.Minute)) {
			t.Errorf("e was created at %s", at)
		}
		for _, tc := range []struct {
			epoch int
			rv    string
			want  []string
		}{
			{0, "1", nil}, {0, "4", []string{"x/a@2", "x/b@3", "x/c@4"}},
			{0, "6", []string{"x/a@2", "x/b@3", "x/c@5", "y/d@6"}},
			{1, "3", []string{"x/a@2", "x/b@3"}}, {1, "5", []string{"x/a@2", "x/b@5", "x/e@4"}},
			{2, "4", []string{"x/a@2", "x/b@3", "x/e@4"}}, {2, "5", []string{"x/a@2", "x/b@3", "x/e@4", "x/f@5"}},
			{2, "99", []string{"x/a@2", "x/b@3", "x/e@4", "x/f@5"}}, {0, "opaque", nil},
		} {
			var got []string
			for name, o := range h.At(tc.epoch, tc.rv) {
				got = append(got, name.String()+"@"+o.GetResourceVersion())
			}
			slices.Sort(got)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("epoch %d at %s (-want +got):\n%s", tc.epoch, tc.rv, diff)
			}
		}
	})
}

// The history equals what a watch sends, for random changes and random selectors.
func TestHistoryIsWhatAWatchSends(t *testing.T) {
	for seed := range seedtest.Default(50).All(t) {
		bubble(t, func(t *testing.T, srv *streamtest.Server) {
			random := rand.New(rand.NewPCG(seed, 0))
			pick := func(of ...string) string { return of[random.IntN(len(of))] }
			label, field := pick("", "app=web", "app!=web", "app"), pick("", "spec.n=1", "metadata.namespace=x")
			o := metav1.ListOptions{ResourceVersion: "1", LabelSelector: label, FieldSelector: field}
			w, err := srv.Client().Resource(widgets.GroupVersionResource).Watch(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			defer w.Stop()
			for range 30 {
				namespace, name, n := pick("x", "y"), pick("a", "b", "c"), "spec.n="+pick("0", "1", "2")
				switch random.IntN(6) {
				case 0:
					_, _ = srv.Delete(widgets, namespace, name)
				case 1:
					srv.Put(globes, "", name, n)
				case 2:
					synctest.Wait()
				default:
					srv.Put(widgets, namespace, name, "labels.app="+pick("web", "db"), n)
				}
			}
			var want []string
			for _, c := range srv.History(widgets,
				&stream.Options{LabelSelector: label, FieldSelector: field}).Changes {
				want = append(want, eventText(watch.Event{Type: c.Type, Object: c.Object}))
			}
			if diff := cmp.Diff(want, collect(w, time.Second)); diff != "" {
				t.Errorf("seed %d (-history +watch):\n%s", seed, diff)
			}
		})
	}
}

func TestRequestsReturnsEveryRequest(t *testing.T) {
	bubble(t, func(t *testing.T, srv *streamtest.Server) {
		apply(t, srv, "watch 2: refuse")
		began := time.Now()
		_, _ = list(t, srv, "x", metav1.ListOptions{Limit: 1, LabelSelector: "a=b"})
		time.Sleep(time.Second)
		for _, o := range []metav1.ListOptions{initial(), from("0"), from("x"), from("7")} {
			_ = watchFor(t, srv, o, 0)
		}
		_, _ = srv.Client().Resource(namespaces.GroupVersionResource).Get(t.Context(), "x", metav1.GetOptions{})
		const path, name = "/apis/example.com/v1/widgets", "widgets.v1.example.com"
		later := began.Add(time.Second)
		want := []streamtest.Request{
			{At: began, Verb: "list", Resource: name, Path: "/apis/example.com/v1/namespaces/x/widgets", Namespace: "x",
				Limit: 1, LabelSelector: "a=b", Code: 200},
			{At: later, Verb: "watch", Resource: name, Path: path, SendInitialEvents: true,
				ResourceVersionMatch: "NotOlderThan", Bookmarks: true, Code: 200},
			{At: later, Verb: "watch", Resource: name, Path: path, ResourceVersion: "0", Code: 200},
			{At: later, Verb: "watch", Resource: name, Path: path, ResourceVersion: "x"},
			{At: later, Verb: "watch", Resource: name, Path: path, ResourceVersion: "7", Code: 200},
			{At: later, Verb: "get", Path: "/api/v1/namespaces/x", Resource: "namespaces.v1", Name: "x", Code: 404},
		}
		if diff := cmp.Diff(want, srv.Requests()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if got := srv.History(widgets, nil).Requests; len(got) != 5 {
			t.Errorf("the history of widgets has %d requests, want 5", len(got))
		}
	})
}
