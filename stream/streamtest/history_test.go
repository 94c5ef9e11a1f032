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

	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

func historyTexts(h streamtest.History) []string {
	var out []string
	for _, c := range h.Changes {
		out = append(out, fmt.Sprintf("%d %s %s/%s@%s", c.Epoch, c.Type, c.Object.GetNamespace(), c.Object.GetName(), c.ResourceVersion))
	}
	return out
}

func TestHistory(t *testing.T) {
	tests := []struct {
		why   string
		scope streamtest.Scope
		want  []string
	}{
		{"everything", streamtest.Scope{},
			[]string{"0 ADDED x/a@2", "0 ADDED x/b@3", "0 ADDED x/c@4", "0 MODIFIED x/c@5", "0 ADDED y/d@6", "0 DELETED x/b@8"}},
		{"one namespace", streamtest.Scope{Namespaces: []string{"y"}}, []string{"0 ADDED y/d@6"}},
		{"two", streamtest.Scope{Namespaces: []string{"y", "x"}, LabelSelector: "app"},
			[]string{"0 ADDED x/a@2", "0 ADDED x/c@5"}},
		{"entering and leaving", streamtest.Scope{LabelSelector: "!app"},
			[]string{"0 ADDED x/b@3", "0 ADDED x/c@4", "0 DELETED x/c@5", "0 ADDED y/d@6", "0 DELETED x/b@8"}},
		{"fields", streamtest.Scope{FieldSelector: "metadata.name=a"}, []string{"0 ADDED x/a@2"}},
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
					t.Errorf("%s: %s has %s %s", tc.why, c.ResourceVersion, c.Object.GetKind(), c.Object.GetResourceVersion())
				}
			}
		})
	}
}

func TestHistoryOfRewinds(t *testing.T) {
	bubble(t, func(t *testing.T, srv *streamtest.Server) {
		fourWidgets(srv)
		apply(t, srv, "at 1m: rewind 3\nat 2m: rewind 1")
		began := time.Now()
		time.Sleep(time.Minute)
		srv.Put(widgets, "x", "e")
		srv.Put(widgets, "x", "b", "spec.size=7")
		time.Sleep(time.Minute)
		srv.Put(widgets, "x", "f")
		h := srv.History(widgets, streamtest.Scope{})
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
			{0, "1", nil}, {0, "4", []string{"x/a@2", "x/b@3", "x/c@4"}}, {0, "6", []string{"x/a@2", "x/b@3", "x/c@5", "y/d@6"}},
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

// The history tells what a watch tells, whatever happens: random changes, seen
// through random selectors.
func TestHistoryIsWhatAWatchTells(t *testing.T) {
	for seed := range uint64(200) {
		bubble(t, func(t *testing.T, srv *streamtest.Server) {
			random := rand.New(rand.NewPCG(seed, 0))
			o := metav1.ListOptions{
				ResourceVersion: "1",
				LabelSelector:   []string{"", "app=web", "app!=web", "app"}[random.IntN(4)],
				FieldSelector:   []string{"", "spec.n=1", "metadata.namespace=x"}[random.IntN(3)],
			}
			w, err := srv.Client().Resource(widgets.GroupVersionResource).Watch(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			defer w.Stop()
			for range 30 {
				namespace, name := []string{"x", "y"}[random.IntN(2)], []string{"a", "b", "c"}[random.IntN(3)]
				switch random.IntN(6) {
				case 0:
					_, _ = srv.Delete(widgets, namespace, name)
				case 1:
					srv.Put(globes, "", name, fmt.Sprintf("spec.n=%d", random.IntN(3)))
				case 2:
					synctest.Wait()
				default:
					srv.Put(widgets, namespace, name, "labels.app="+[]string{"web", "db"}[random.IntN(2)], fmt.Sprintf("spec.n=%d", random.IntN(3)))
				}
			}
			var want []string
			for _, c := range srv.History(widgets, streamtest.Scope{LabelSelector: o.LabelSelector, FieldSelector: o.FieldSelector}).Changes {
				want = append(want, eventText(watch.Event{Type: c.Type, Object: c.Object}))
			}
			if diff := cmp.Diff(want, collect(w, time.Second)); diff != "" {
				t.Errorf("seed %d (-history +watch):\n%s", seed, diff)
			}
		})
	}
}

func TestRequests(t *testing.T) {
	bubble(t, func(t *testing.T, srv *streamtest.Server) {
		apply(t, srv, "watch 2: refuse")
		began := time.Now()
		_, _ = list(t, srv, "x", metav1.ListOptions{Limit: 1, LabelSelector: "a=b"})
		time.Sleep(time.Second)
		_ = watchFor(t, srv, initial(), 0)
		_ = watchFor(t, srv, from("0"), 0)
		_ = watchFor(t, srv, from("x"), 0)
		_ = watchFor(t, srv, from("7"), 0)
		_, _ = srv.Client().Resource(namespaces.GroupVersionResource).Get(t.Context(), "x", metav1.GetOptions{})
		path := "/apis/example.com/v1/widgets"
		want := []streamtest.Request{
			{Verb: "list", Path: "/apis/example.com/v1/namespaces/x/widgets", Namespace: "x", Limit: 1, LabelSelector: "a=b", Code: 200},
			{Verb: "watch", Path: path, SendInitialEvents: true, ResourceVersionMatch: "NotOlderThan", Bookmarks: true, Code: 200},
			{Verb: "watch", Path: path, ResourceVersion: "0", Code: 200},
			{Verb: "watch", Path: path, ResourceVersion: "x"},
			{Verb: "watch", Path: path, ResourceVersion: "7", Code: 200},
			{Verb: "get", Path: "/api/v1/namespaces/x", Resource: "namespaces.v1", Name: "x", Code: 404},
		}
		for i := range want {
			if want[i].Resource == "" {
				want[i].Resource = "widgets.v1.example.com"
			}
			if want[i].At = began; i > 0 {
				want[i].At = began.Add(time.Second)
			}
		}
		if diff := cmp.Diff(want, srv.Requests()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if got := srv.History(widgets, streamtest.Scope{}).Requests; len(got) != 5 {
			t.Errorf("the history of widgets has %d requests, want 5", len(got))
		}
	})
}

// Rights for one namespace are not those for all of them.
func TestRightsByNamespace(t *testing.T) {
	bubble(t, func(t *testing.T, srv *streamtest.Server) {
		fourWidgets(srv)
		do(t, srv, "forbid all", "allow all in x")
		got := map[string]string{}
		for _, namespace := range []string{"", "x", "y"} {
			got[namespace] = listText(list(t, srv, namespace, metav1.ListOptions{}))
		}
		if diff := cmp.Diff(map[string]string{"": "403 Forbidden", "x": "@6: a@2 b@3 c@5", "y": "403 Forbidden"}, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		do(t, srv, "allow")
		if got := listText(list(t, srv, "y", metav1.ListOptions{})); got != "@6: d@6" {
			t.Errorf("with everything allowed: %s", got)
		}
	})
}
