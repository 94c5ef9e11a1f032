package apiserver_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gvrwatch/gvrwatch/internal/testing/apiserver"
)

func seconds(n int64, o metav1.ListOptions) metav1.ListOptions {
	o.TimeoutSeconds = &n
	return o
}

func TestWatch(t *testing.T) {
	snapshot := []string{"ADDED a@2", "ADDED b@3", "ADDED c@5", "ADDED d@6"}
	history := []string{"ADDED a@2", "ADDED b@3", "ADDED c@4", "MODIFIED c@5", "ADDED d@6"}
	tests := []struct {
		why     string
		script  string
		options metav1.ListOptions
		period  time.Duration
		want    []string
	}{
		{"from a version: the changes after it", "", from("3"), time.Second, history[2:]},
		{"from the beginning", "", from("1"), time.Second, history},
		{"from the newest: nothing", "", from("6"), time.Second, nil},
		{"from no version: a snapshot, then changes", "", from(""), time.Second, snapshot},
		{"from any version: the same", "", from("0"), time.Second, snapshot},
		{"from the future: silence until then", "at 1s: compact", from("100"), time.Minute, nil},
		{"a label selector: c began to match at 5", "",
			metav1.ListOptions{ResourceVersion: "1", LabelSelector: "app=web"}, time.Second,
			[]string{"ADDED a@2", "ADDED c@5"}},
		{"a label selector: c matched until 5", "", metav1.ListOptions{ResourceVersion: "2", LabelSelector: "!app"},
			time.Second,
			[]string{"ADDED b@3", "ADDED c@4", "DELETED c@5", "ADDED d@6"}},
		{"a field selector", "", metav1.ListOptions{ResourceVersion: "1", FieldSelector: "metadata.name=b"},
			time.Second, []string{"ADDED b@3"}},
		{"a bookmark every minute", "", withBookmarks(from("6")), 150 * time.Second,
			[]string{"BOOKMARK @6", "BOOKMARK @6"}},
		{"no bookmarks unless requested", "", from("6"), 150 * time.Second, nil},
		{"a bookmark at the interval of the script", "at 0s: bookmarks every 10s", withBookmarks(from("6")),
			25 * time.Second, []string{"BOOKMARK @6", "BOOKMARK @6"}},
		{"no bookmarks", "at 0s: bookmarks never", withBookmarks(from("6")), 20 * time.Minute, nil},
		{"the timeout, after a last bookmark", "", seconds(10, withBookmarks(from("6"))), time.Hour,
			[]string{"BOOKMARK @6", "closed"}},
		{"the timeout", "", seconds(10, from("6")), time.Hour, []string{"closed"}},
		{"a timeout too short for a bookmark", "", seconds(2, withBookmarks(from("6"))), time.Hour, []string{"closed"}},
		{"the default timeout", "at 0s: bookmarks never", from("6"), time.Hour, []string{"closed"}},
		{"a streaming list", "", initial(), time.Second, append(snapshot[:4:4], "BOOKMARK @6 end")},
		{"a streaming list without bookmarks has no marker", "", func() metav1.ListOptions {
			o := initial()
			o.AllowWatchBookmarks = false
			return o
		}(), time.Second, snapshot},
		{"sendInitialEvents=false", "",
			metav1.ListOptions{SendInitialEvents: new(bool), ResourceVersionMatch: "NotOlderThan"}, time.Second, nil},
		{"the marker never comes", "initial 1: no marker", initial(), time.Second, snapshot},
		{"the marker has no annotation", "initial 1: plain marker", initial(), time.Second,
			append(snapshot[:4:4], "BOOKMARK @6")},
		{"an old server ignores sendInitialEvents", "initial 1: ignore initial", initial(), time.Second, snapshot},
		{"an old server rejects resourceVersionMatch", "initial 1: 422", initial(), time.Second,
			[]string{"422 Invalid"}},
		{"a lagging replica catches up", "initial 1: stale 2", initial(), time.Second,
			[]string{"ADDED a@2", "ADDED b@3", "ADDED c@4", "BOOKMARK @4 end", "MODIFIED c@5", "ADDED d@6"}},
		{"a streaming list that breaks", "initial 1 after 2 frames: reset", initial(), time.Second,
			append(snapshot[:2:2], "closed")},
		{"a poisoned change is not poisoned in snapshots", "change 3: garbage", initial(), time.Second,
			append(snapshot[:4:4], "BOOKMARK @6 end")},
		{"a poisoned change breaks each watch", "change 5: garbage", from("4"), time.Second,
			[]string{"ERROR undecodable", "closed"}},
		{"sendInitialEvents requires resourceVersionMatch", "", metav1.ListOptions{SendInitialEvents: new(bool)},
			time.Second, []string{"422 Invalid"}},
		{"resourceVersionMatch requires sendInitialEvents", "",
			metav1.ListOptions{ResourceVersionMatch: "NotOlderThan"}, time.Second, []string{"422 Invalid"}},
		{"an invalid version", "", from("newest"), time.Second, []string{"400 BadRequest"}},
		{"an invalid selector", "", metav1.ListOptions{LabelSelector: "a b"}, time.Second, []string{"400 BadRequest"}},
		{"expired, in the stream", "at 0s: compact", from("5"), time.Second, []string{"ERROR 410 Expired", "closed"}},
		{"expired, as an HTTP status", "at 0s: compact\nat 0s: 410 as status", from("5"), time.Second,
			[]string{"410 Expired"}},
		{"expired, as a clean close", "at 0s: compact\nat 0s: 410 as close", from("5"), time.Second,
			[]string{"closed"}},
		{"expired, in the stream again", "at 0s: compact\nat 0s: 410 as close\nat 0s: 410 in stream", from("5"),
			time.Second, []string{"ERROR 410 Expired", "closed"}},
		{"the newest has not expired", "at 0s: compact", from("6"), time.Second, nil},
		{"a restart makes versions expire", "at 0s: restart", from("5"), time.Second,
			[]string{"ERROR 410 Expired", "closed"}},
		{"a change of the schema makes versions expire", "at 0s: widgets expire", from("5"), time.Second,
			[]string{"ERROR 410 Expired", "closed"}},
		{"a change of the schema of another resource", "at 0s: globes expire", from("5"), time.Second, history[4:]},
		{"watch is forbidden", "at 0s: forbid watch", from("5"), time.Second, []string{"403 Forbidden"}},
		{"only changes that the rewind has kept", "at 0s: rewind 3", from("2"), time.Second, history[1:2]},
		{"a rewind undoes the expiry", "at 0s: expire\nat 0s: rewind 3", from("3"), time.Second, nil},
		{"a rewind undoes the compaction", "at 0s: compact\nat 0s: rewind 3", from("3"), time.Second, nil},
	}
	for _, tc := range tests {
		t.Run(tc.why, func(t *testing.T) {
			bubble(t, func(t *testing.T, srv *apiserver.Server) {
				fourWidgets(srv)
				apply(t, srv, tc.script)
				if diff := cmp.Diff(tc.want, watchFor(t, srv, tc.options, tc.period)); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestPoisonedChangeFailsEachTime(t *testing.T) {
	bubble(t, func(t *testing.T, srv *apiserver.Server) {
		fourWidgets(srv)
		apply(t, srv, "change 5: 1e400\nwatch 1 after 1 frame: garbage")
		want := []string{"ADDED c@4", "ERROR undecodable", "closed"}
		for i := range 2 {
			if diff := cmp.Diff(want, watchFor(t, srv, from("3"), time.Second)); diff != "" {
				t.Errorf("watch %d (-want +got):\n%s", i+1, diff)
			}
		}
		if diff := cmp.Diff([]string{"ADDED d@6"}, watchFor(t, srv, from("5"), time.Second)); diff != "" {
			t.Errorf("after it (-want +got):\n%s", diff)
		}
	})
}

func TestDeletedCarriesTheLastState(t *testing.T) {
	bubble(t, func(t *testing.T, srv *apiserver.Server) {
		w, err := srv.Client().Resource(widgets.GroupVersionResource).Namespace("x").Watch(t.Context(), from("1"))
		if err != nil {
			t.Fatal(err)
		}
		defer w.Stop()
		srv.Put(widgets, "x", "a", "spec.size=1")
		srv.Put(widgets, "y", "a", "spec.size=1")
		srv.Put(widgets, "x", "a", "spec.size=2")
		if _, err := srv.Delete(widgets, "x", "a"); err != nil {
			t.Fatal(err)
		}
		srv.Put(widgets, "x", "a")
		synctest.Wait()
		var got []string
		var objects []*unstructured.Unstructured
		for range 4 {
			ev := <-w.ResultChan()
			got = append(got, eventText(ev))
			objects = append(objects, ev.Object.(*unstructured.Unstructured))
		}
		if diff := cmp.Diff([]string{"ADDED a@2", "MODIFIED a@4", "DELETED a@5", "ADDED a@6"}, got); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
		deleted := objects[2]
		if size, _, _ := unstructured.NestedInt64(deleted.Object, "spec", "size"); size != 2 ||
			deleted.GetUID() != objects[0].GetUID() {
			t.Errorf("DELETED has size %d and uid %s, want the last state of the same object", size, deleted.GetUID())
		}
		if objects[3].GetUID() == deleted.GetUID() {
			t.Error("a new object has the uid of the deleted one of its name")
		}
		if gvk := deleted.GroupVersionKind(); gvk != widgets.GroupVersionKind() {
			t.Errorf("the deleted object is a %v", gvk)
		}
	})
}

// After a rewind a watch is silent until the store passes the old version, and then continues.
func TestRewoundWatchWaitsForTheOldVersion(t *testing.T) {
	bubble(t, func(t *testing.T, srv *apiserver.Server) {
		fourWidgets(srv)
		client := srv.Client().Resource(widgets.GroupVersionResource)
		w, err := client.Watch(t.Context(), withBookmarks(from("6")))
		if err != nil {
			t.Fatal(err)
		}
		defer w.Stop()
		synctest.Wait()
		before := listText(list(t, srv, "", metav1.ListOptions{}))
		do(t, srv, "rewind 2")
		if rv := srv.ResourceVersion(); rv != "4" {
			t.Fatalf("the server is at version %s, want 4", rv)
		}
		if got := listText(list(t, srv, "", metav1.ListOptions{})); got != "@4: a@2 b@3 c@4" {
			t.Errorf("got %s, want the state of 4", got)
		}
		if got := collect(w, 150*time.Second); got != nil {
			t.Errorf("the watch sent %v of a store that is behind it", got)
		}
		srv.Put(widgets, "x", "e")
		srv.Put(widgets, "x", "f")
		after := listText(list(t, srv, "", metav1.ListOptions{}))
		if before != "@6: a@2 b@3 c@5 d@6" || after != "@6: a@2 b@3 c@4 e@5 f@6" {
			t.Errorf("with as many revisions as before, the list was %s, and is %s", before, after)
		}
		srv.Put(widgets, "x", "g")
		if diff := cmp.Diff([]string{"ADDED g@7"}, collect(w, time.Second)); diff != "" {
			t.Errorf("after the old version (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{"ADDED e@5", "ADDED f@6", "ADDED g@7"},
			watchFor(t, srv, from("4"), time.Second)); diff != "" {
			t.Errorf("the same versions, other changes (-want +got):\n%s", diff)
		}
	})
}

func TestDeletedCRDEndsItsObjectsAndWatches(t *testing.T) {
	bubble(t, func(t *testing.T, srv *apiserver.Server) {
		fourWidgets(srv)
		srv.Put(globes, "", "earth")
		w, err := srv.Client().Resource(widgets.GroupVersionResource).Watch(t.Context(), from("7"))
		if err != nil {
			t.Fatal(err)
		}
		defer w.Stop()
		synctest.Wait()
		do(t, srv, "widgets delete crd")
		if got := watchFor(t, srv, from("7"), time.Second); !cmp.Equal(got, []string{"404 NotFound"}) {
			t.Errorf("a watch without the CRD: %v", got)
		}
		if _, err := srv.Client().Resource(globes.GroupVersionResource).Get(t.Context(), "earth",
			metav1.GetOptions{}); err != nil {
			t.Errorf("another resource was deleted, too: %v", err)
		}
		began := time.Now()
		want := []string{"DELETED a@8", "DELETED b@9", "DELETED c@10", "DELETED d@11", "closed"}
		if diff := cmp.Diff(want, collect(w, time.Minute)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if d := time.Since(began); d != time.Second {
			t.Errorf("the watch ended after %s, want 1s", d)
		}
		do(t, srv, "widgets create crd")
		expired := []string{"ERROR 410 Expired", "closed"}
		if diff := cmp.Diff(expired, watchFor(t, srv, from("11"), time.Second)); diff != "" {
			t.Errorf("a version from before (-want +got):\n%s", diff)
		}
		srv.Put(widgets, "x", "a")
		if got := listText(list(t, srv, "", metav1.ListOptions{})); got != "@14: a@14" {
			t.Errorf("the list after that is %s", got)
		}
	})
}

// "heal" cancels later lines of the script, but not the consequences of earlier ones.
func TestHealLeavesConsequences(t *testing.T) {
	bubble(t, func(t *testing.T, srv *apiserver.Server) {
		fourWidgets(srv)
		apply(t, srv, "at 1s: widgets delete crd\nat 1500ms: heal\nat 2s: create crd")
		want := []string{"DELETED a@7", "DELETED b@8", "DELETED c@9", "DELETED d@10", "closed"}
		if diff := cmp.Diff(want, watchFor(t, srv, from("6"), time.Minute)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if got := watchFor(t, srv, from("6"), time.Minute); !cmp.Equal(got, []string{"404 NotFound"}) {
			t.Errorf("later: %v, want the CRD still deleted", got)
		}
	})
}

// Unserve does not affect the objects either.
func TestUnserveAffectsNoOtherVersion(t *testing.T) {
	bubble(t, func(t *testing.T, srv *apiserver.Server) {
		v2 := widgets
		v2.Version = "v2"
		srv.Serve(v2)
		srv.Put(widgets, "x", "a")
		later := time.AfterFunc(time.Minute, func() { srv.Unserve(widgets) })
		defer later.Stop()
		if diff := cmp.Diff([]string{"ADDED a@2", "closed"}, watchFor(t, srv, from("1"), time.Hour)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		o, err := srv.Client().Resource(v2.GroupVersionResource).Namespace("x").Get(t.Context(), "a",
			metav1.GetOptions{})
		if err != nil || o.GetAPIVersion() != "example.com/v2" || o.GetResourceVersion() != "2" {
			t.Errorf("got %v, %v from v2", o, err)
		}
	})
}
