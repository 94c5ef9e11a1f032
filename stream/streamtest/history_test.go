package streamtest_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
		rewinds := []streamtest.Change{
			{ResourceVersion: "3", At: began.Add(time.Minute)}, {ResourceVersion: "4", At: began.Add(2 * time.Minute)},
		}
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

func TestRequestsReturnsEveryRequest(t *testing.T) {
	bubble(t, func(t *testing.T, srv *streamtest.Server) {
		apply(t, srv, "watch 2: refuse")
		began, client := time.Now(), srv.Client().Resource(widgets.GroupVersionResource)
		_, _ = client.Namespace("x").List(t.Context(), metav1.ListOptions{Limit: 1, LabelSelector: "a=b"})
		time.Sleep(time.Second)
		for _, o := range []metav1.ListOptions{
			initial(), {ResourceVersion: "0"}, {ResourceVersion: "x"}, {ResourceVersion: "7"},
		} {
			watchFor(t, srv, o, 0)
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

// Writers, lists, watches and faults run at once, for the race detector.
func TestServerAllowsConcurrentCalls(t *testing.T) {
	bubble(t, func(t *testing.T, srv *streamtest.Server) {
		apply(t, srv, "watch 3-*: close\nlist 5-10: 500\nat 2ms: compact\nat 3ms: rewind 2\nat 4ms: silence\n"+
			"at 5ms: restart\nchange 9: garbage\nany 30-40: slow 1ms")
		client := srv.Client().Resource(widgets.GroupVersionResource)
		var wg sync.WaitGroup
		for i := range 4 {
			wg.Go(func() {
				for n := range 20 {
					srv.Put(widgets, "x", string(rune('a'+n%5)), "spec.n="+string(rune('0'+i)))
					time.Sleep(time.Millisecond)
				}
			})
			wg.Go(func() {
				for range 10 {
					watchFor(t, srv, initial(), 2*time.Millisecond)
					_, _ = client.List(t.Context(), metav1.ListOptions{Limit: 2})
				}
			})
			wg.Go(func() {
				for range 10 {
					_ = srv.History(widgets, nil)
					_ = srv.Requests()
					_ = srv.Do("globes delete crd")
					_ = srv.Do("create crd")
					time.Sleep(time.Millisecond)
				}
			})
		}
		wg.Wait()
		if err := srv.Do("heal"); err != nil {
			t.Fatal(err)
		}
		now := map[string]string{}
		h := srv.History(widgets, nil)
		for name, o := range h.At(len(h.Rewinds), srv.ResourceVersion()) {
			now[name.Name] = o.GetResourceVersion()
		}
		l, err := client.List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		listed := map[string]string{}
		for _, o := range l.Items {
			listed[o.GetName()] = o.GetResourceVersion()
		}
		if diff := cmp.Diff(now, listed); diff != "" || len(now) == 0 {
			t.Errorf("the history's end and the list differ (-history +list):\n%s", diff)
		}
	})
}
