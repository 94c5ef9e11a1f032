package stream_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/internal/host"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

func TestReplayedEventsAreDeliveredOnce(t *testing.T) {
	testConversations(t, []conversation{
		{"of an object that came back", setup{Options: stream.Options{LabelSelector: "in=yes"}},
			[]exchange{
				{"list", list("5", "", "a@2")},
				{"watch 5", watch("DELETED a@6", "ADDED a@7")},
				{"watch 7", watch("DELETED a@6", "ADDED a@7", "MODIFIED a@8", "open")},
			},
			[]string{"ADDED a@2", "SYNCED 5", "DELETED a@6", "ADDED a@7", "MODIFIED a@8"},
			"a replay of the deletion at 6 does not remove the object that came back at 7"},
		{"of changes before the list", setup{},
			[]exchange{
				{"list", list("5", "", "a@4")},
				{"watch 5", watch("DELETED a@3", "MODIFIED a@6", "open")},
			},
			[]string{"ADDED a@4", "SYNCED 5", "MODIFIED a@6"},
			"a deletion older than the listed object is ignored"},
		{"of initial events", setup{},
			[]exchange{{"watch initial",
				watch("ADDED a@3", "ADDED a@2", "ADDED a@3", "ADDED a@4", "ADDED a/other@5", "MARKER @6", "open")}},
			[]string{"ADDED a@3", "MODIFIED a@4 inferred", "ADDED a/other@5", "SYNCED 6"},
			"repeated initial events are delivered only if they are newer, and another uid is another object"},
	})
}

// With Bookmarks, those that advance the version are delivered.
func TestBookmarksAdvanceTheVersion(t *testing.T) {
	testConversations(t, []conversation{
		{"wanted", setup{Run: stream.Run{Bookmarks: true}},
			[]exchange{
				{"list", list("5", "", "a@2")},
				{"watch 5", watch("BOOKMARK @8", "ADDED b@9", "BOOKMARK @9", "BOOKMARK @7", "BOOKMARK @0",
					"BOOKMARK @12")},
				{"watch 12", watch("open")},
			},
			[]string{"ADDED a@2", "SYNCED 5", "BOOKMARK 8", "ADDED b@9", "BOOKMARK 12"},
			"bookmarks that do not advance the version are not delivered"},
		{"not wanted", setup{},
			[]exchange{{"list", list("5", "")}, {"watch 5", watch("BOOKMARK @8")}, {"watch 8", watch("open")}},
			[]string{"SYNCED 5"},
			"the watch resumes at a bookmark that is not delivered"},
	})
}

// A caller within the module can have the bookmarks of a run whatever Run.Bookmarks says. Status.Synced is true from
// SYNCED on.
func TestRunWithBookmarks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gadgets := gvr.Resource{GroupVersionResource: schema.GroupVersionResource{Group: "example.com", Version: "v1",
			Resource: "gadgets"}, Kind: "Gadget"}
		srv := streamtest.NewServer(widgets(), gadgets)
		s := streamOf(t, srv.Client(), widgets(), nil)
		var got []string
		for ev, err := range s.Host(t.Context(), host.Run{Bookmarks: true}) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, fmt.Sprint(ev.Type, " synced ", s.Status().Synced))
			switch ev.Type {
			case stream.Synced:
				srv.Put(gadgets, "", "other", "spec.size=1") // moves the server's version, not the Stream's
			case stream.Bookmark:
				s.Stop()
			}
		}
		if diff := cmp.Diff([]string{"SYNCED synced true", "BOOKMARK synced true"}, got); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
	})
}

// Such a caller also receives the bookmark of a version that an event has reached, which Select may have rejected.
func TestRunWithBookmarksOfAReachedVersion(t *testing.T) {
	for _, bookmarks := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			srv := streamtest.NewServer(widgets())
			s := streamOf(t, srv.Client(), widgets(),
				&setup{Options: stream.Options{Select: func(stream.Meta) bool { return false }},
					Run: stream.Run{Bookmarks: true}})
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
			defer cancel()
			var got []string
			for ev := range s.Host(ctx, host.Run{Bookmarks: bookmarks}) {
				switch ev.Type {
				case stream.Synced:
					want := srv.Put(widgets(), "a", "x").GetResourceVersion()
					got = append(got, "SYNCED, then "+want)
				case stream.Bookmark:
					got = append(got, "BOOKMARK "+ev.ResourceVersion)
					s.Stop()
				}
			}
			want := []string{"SYNCED, then 2"}
			if bookmarks {
				want = append(want, "BOOKMARK 2")
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("bookmarks %v (-want +got):\n%s", bookmarks, diff)
			}
		})
	}
}

// client-go's fake is not probed.
func TestFakeStartsNowAtAListsVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := oneWidget()
		s := newStream(t, c, &setup{Run: stream.Run{Start: stream.Now()}})
		if diff := cmp.Diff([]string{"SYNCED " + listVersion(t, c)}, record(t, s, time.Second)); diff != "" {
			t.Errorf("existing objects are not delivered (-want +got):\n%s", diff)
		}
	})
}
