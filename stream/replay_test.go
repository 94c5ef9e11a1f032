package stream_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gvrwatch/gvrwatch/stream"
)

func TestReplays(t *testing.T) {
	hold(t, []conversation{
		{"of one that came back", stream.Options{LabelSelector: "in=yes"},
			[]exchange{
				{"list", list("5", "", "a@2")},
				{"watch 5", watch("DELETED a@6", "ADDED a@7")},
				{"watch 7", watch("DELETED a@6", "ADDED a@7", "MODIFIED a@8", "open")},
			},
			[]string{"ADDED a@2", "SYNCED 5", "DELETED a@6", "ADDED a@7", "MODIFIED a@8"},
			"it left the selector at 6 and was back at 7: the replay must not remove it"},
		{"of the list's past", stream.Options{},
			[]exchange{
				{"list", list("5", "", "a@4")},
				{"watch 5", watch("DELETED a@3", "MODIFIED a@6", "open")},
			},
			[]string{"ADDED a@4", "SYNCED 5", "MODIFIED a@6"},
			"the list has it, at a later version"},
		{"without an index", stream.Options{Index: stream.IndexNone},
			[]exchange{
				{"list", list("5", "", "a@2")},
				{"watch 5", watch("ADDED b@6", "DELETED a@7")},
				{"watch 7", watch("ADDED b@6", "DELETED a@7", "MODIFIED b@8", "open")},
			},
			[]string{"ADDED a@2", "SYNCED 5", "ADDED b@6", "DELETED a@7", "MODIFIED b@8"},
			"the versions alone say that it has been told"},
		{"initial events that repeat themselves", stream.Options{InitialList: stream.ListStreamed},
			[]exchange{{"watch initial",
				watch("ADDED a@3", "ADDED a@2", "ADDED a@3", "ADDED a@4", "ADDED a/other@5", "MARKER @6", "open")}},
			[]string{"ADDED a@3", "MODIFIED a@4 inferred", "SYNCED 6"},
			"never back in time; what is newer is told"},
	})
}

func TestBookmarks(t *testing.T) {
	hold(t, []conversation{
		{"wanted", stream.Options{Bookmarks: true},
			[]exchange{
				{"list", list("5", "", "a@2")},
				{"watch 5", watch("BOOKMARK @8", "ADDED b@9", "BOOKMARK @9", "BOOKMARK @7", "BOOKMARK @0", "BOOKMARK @12")},
				{"watch 12", watch("open")},
			},
			[]string{"ADDED a@2", "SYNCED 5", "BOOKMARK 8", "ADDED b@9", "BOOKMARK 12"},
			"those that say something new"},
		{"not wanted", stream.Options{},
			[]exchange{{"list", list("5", "")}, {"watch 5", watch("BOOKMARK @8")}, {"watch 8", watch("open")}},
			[]string{"SYNCED 5"},
			"heeded all the same"},
	})
}

// A fake is not probed, so its list is where a start at now begins.
func TestFakeFromNow(t *testing.T) {
	for _, index := range []stream.Index{stream.IndexObjects, stream.IndexNone} {
		synctest.Test(t, func(t *testing.T) {
			s := newStream(t, fakeClient(widget("default", "a", "red")), &stream.Options{Start: stream.Now(), Index: index})
			if diff := cmp.Diff([]string{"SYNCED 2"}, record(t, s, time.Second)); diff != "" {
				t.Errorf("index %s: what exists is not told (-want +got):\n%s", index, diff)
			}
		})
	}
}
