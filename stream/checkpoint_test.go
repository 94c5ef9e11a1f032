package stream_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/stream"
)

// kept is what is in a store of the widgets, as text.
func kept(t *testing.T, store checkpoint.Store) string {
	t.Helper()
	c, err := store.Load(t.Context(), "widgets.example.com")
	if err != nil {
		t.Fatal(err)
	}
	if c == nil {
		return "nothing"
	}
	words := []string{"at " + c.Position.ResourceVersions[""]}
	if c.Position.Rewound {
		words[0] = "rewound, " + words[0]
	}
	for _, o := range c.Position.Objects {
		word := o.Name + "@" + o.ResourceVersion
		if o.ResourceVersion == "" {
			word = o.Name + "?"
		}
		words = append(words, word)
	}
	slices.Sort(words[1:])
	return strings.Join(words, " ")
}

func newTracker(t *testing.T, store checkpoint.Store, o checkpoint.Options) *checkpoint.Tracker {
	t.Helper()
	o.Cluster.UID = "test"
	tracker, err := checkpoint.NewTracker(store, &o)
	if err != nil {
		t.Fatal(err)
	}
	return tracker
}

// life is one run of a program that acks all but what leave names.
type life struct {
	exchanges []exchange
	options   stream.Options
	tracker   checkpoint.Options
	leave     string
	told      []string
	kept      string
	why       string
}

func TestGoesOn(t *testing.T) {
	first := life{
		exchanges: []exchange{{"list", list("5", "", "a@2", "b@3")}, {"watch 5", watch("MODIFIED a@6", "open")}},
		told:      []string{"ADDED a@2", "ADDED b@3", "SYNCED 5", "MODIFIED a@6"},
		kept:      "at 6 a@6 b@3",
		why:       "it begins with what there is",
	}
	gone := life{
		exchanges: []exchange{{"list", list("5", "", "a@2")}, {"watch 5", watch("ADDED b@6", "open")}},
		leave:     "ADDED b@6",
		told:      []string{"ADDED a@2", "SYNCED 5", "ADDED b@6"},
		kept:      "at 5 a@2 b?",
		why:       "b may be known, though nobody said so",
	}
	tests := []struct {
		name  string
		lives []life
	}{
		{"where it was left", []life{first, {
			exchanges: []exchange{{"watch 6", watch("DELETED a@7", "open")}},
			told:      []string{"SYNCED 6", "DELETED a@7"}, kept: "at 7 b@3",
			why: "nothing comes again, and the index is what it was",
		}}},
		{"past the history", []life{first, {
			exchanges: []exchange{{"watch 6", status(410, metav1.StatusReasonExpired)}, {"list", list("9", "", "b@8", "c@9")}, {"watch 9", watch("open")}},
			told:      []string{"GAP expired from 6 to 9", "MODIFIED b@8 inferred", "ADDED c@9 inferred", "DELETED a@6 inferred", "SYNCED 9"}, kept: "at 9 b@8 c@9",
			why: "only what is different, the end of a too",
		}}},
		{"where nothing happens", []life{first, {
			options:   stream.Options{Bookmarks: true},
			exchanges: []exchange{{"watch 6", watch("BOOKMARK @20", "open")}},
			told:      []string{"SYNCED 6", "BOOKMARK 20"}, kept: "at 20 a@6 b@3",
			why: "a bookmark moves it",
		}, {
			exchanges: []exchange{{"watch 20", watch("BOOKMARK @30", "open")}},
			told:      []string{"SYNCED 20"}, kept: "at 30 a@6 b@3",
			why: "one that is not told as well",
		}}},
		{"behind an event that was not acked", []life{{
			exchanges: []exchange{{"list", list("5", "", "a@2")}, {"watch 5", watch("MODIFIED a@6", "MODIFIED a@7", "BOOKMARK @8", "open")}},
			leave:     "MODIFIED a@6",
			told:      []string{"ADDED a@2", "SYNCED 5", "MODIFIED a@6", "MODIFIED a@7"}, kept: "at 5 a@2",
			why: "nothing after it counts",
		}, {
			exchanges: []exchange{{"watch 5", watch("MODIFIED a@6", "MODIFIED a@7", "open")}},
			told:      []string{"SYNCED 5", "MODIFIED a@6", "MODIFIED a@7"}, kept: "at 7 a@7",
			why: "it comes again, and what followed it",
		}}},
		{"within a snapshot", []life{{
			exchanges: []exchange{{"list", list("5", "p", "a@2", "b@3", "c@4")}, {"list continue=p", hang}},
			leave:     "ADDED b@3",
			told:      []string{"ADDED a@2", "ADDED b@3", "ADDED c@4"}, kept: "at  a@2 b? c@4",
			why: "c counts, though b does not",
		}, {
			exchanges: []exchange{{"list", list("9", "", "b@3", "c@4", "d@8")}, {"watch 9", watch("open")}},
			told:      []string{"ADDED b@3", "ADDED d@8", "DELETED a@2 inferred", "SYNCED 9"}, kept: "at 9 b@3 c@4 d@8",
			why: "the rest, and what is gone",
		}}},
		{"an object that was told, not acked, and is gone", []life{gone, {
			exchanges: []exchange{{"watch 5", status(410, metav1.StatusReasonExpired)}, {"list", list("9", "", "a@2")}, {"watch 9", watch("open")}},
			told:      []string{"GAP expired from 5 to 9", "DELETED b@ inferred", "SYNCED 9"}, kept: "at 9 a@2",
			why: "its end is told",
		}}},
		{"... and is there", []life{gone, {
			exchanges: []exchange{{"watch 5", status(410, metav1.StatusReasonExpired)}, {"list", list("9", "", "a@2", "b@6")}, {"watch 9", watch("open")}},
			told:      []string{"GAP expired from 5 to 9", "ADDED b@6 inferred", "SYNCED 9"}, kept: "at 9 a@2 b@6",
			why: "it comes again",
		}}},
		{"... and is another one", []life{gone, {
			exchanges: []exchange{{"watch 5", status(410, metav1.StatusReasonExpired)}, {"list", list("9", "", "a@2", "b/other@8")}, {"watch 9", watch("open")}},
			leave:     "ADDED b/other@8",
			told:      []string{"GAP expired from 5 to 9", "DELETED b@ inferred", "ADDED b/other@8 inferred", "SYNCED 9"}, kept: "at  a@2 b?",
			why: "the end of the first comes first",
		}}},
		{"... and comes from the watch", []life{gone, {
			exchanges: []exchange{{"watch 5", watch("ADDED b@6", "DELETED b@7", "open")}},
			told:      []string{"SYNCED 5", "ADDED b@6", "DELETED b@7"}, kept: "at 7 a@2",
			why: "as if it had never been told",
		}}},
		{"told before the store knows", []life{{
			exchanges: gone.exchanges, leave: gone.leave, told: gone.told, kept: "at 5 a@2", tracker: checkpoint.Options{NoWriteAhead: true},
			why: "nothing is written ahead",
		}, {
			exchanges: []exchange{{"watch 5", status(410, metav1.StatusReasonExpired)}, {"list", list("9", "", "a@2")}, {"watch 9", watch("open")}},
			told:      []string{"GAP expired from 5 to 9 history lost", "SYNCED 9"}, kept: "at 9 a@2", tracker: checkpoint.Options{NoWriteAhead: true},
			why: "whose end is not told can't be known, and it says so",
		}, {
			exchanges: []exchange{{"watch 9", status(410, metav1.StatusReasonExpired)}, {"list", list("12", "")}, {"watch 12", watch("open")}},
			told:      []string{"GAP expired from 9 to 12", "DELETED a@2 inferred", "SYNCED 12"}, kept: "at 12",
			why: "the run before ended well, with everything acked",
		}}},
		{"within a snapshot, told before the store knows", []life{{
			exchanges: []exchange{{"list", list("5", "p", "a@2", "b@3")}, {"list continue=p", hang}},
			leave:     "ADDED b@3", tracker: checkpoint.Options{NoWriteAhead: true},
			told: []string{"ADDED a@2", "ADDED b@3"}, kept: "at  a@2",
			why: "b may have been handled",
		}, {
			exchanges: []exchange{{"list", list("9", "", "a@2")}, {"watch 9", watch("open")}},
			told:      []string{"GAP restarted from 2 to 9 history lost", "SYNCED 9"}, kept: "at 9 a@2",
			why: "if b was told and is gone nobody says so but this",
		}}},
		{"the server has gone back in time", []life{first, {
			exchanges: []exchange{{"probe", list("4", "")}, {"probe", list("4", "")}, {"list", list("4", "", "a@2", "b@3")}, {"watch 4", watch("open")}},
			told:      []string{"GAP rewound from 6 to 4", "MODIFIED a@2 inferred", "MODIFIED b@3 inferred", "SYNCED 4"}, kept: "at 4 a@2 b@3",
			why: "b as well: what else was told of times that are no more is not known",
		}}},
		{"it has, and nobody has acked that", []life{first, {
			exchanges: []exchange{{"probe", list("4", "")}, {"probe", list("4", "")}, {"list", list("4", "", "a@2", "b@3")}, {"watch 4", watch("open")}},
			leave:     "GAP rewound from 6 to 4",
			told:      []string{"GAP rewound from 6 to 4", "MODIFIED a@2 inferred", "MODIFIED b@3 inferred", "SYNCED 4"}, kept: "rewound, at 6 a@6 b@3",
			why: "nothing has moved, but there is no going on from there",
		}, {
			exchanges: []exchange{{"list", list("20", "", "a@2", "c@18")}, {"watch 20", watch("MODIFIED c@21", "open")}},
			told:      []string{"GAP rewound from 6 to 20", "MODIFIED a@2 inferred", "ADDED c@18 inferred", "DELETED b@3 inferred", "SYNCED 20", "MODIFIED c@21"}, kept: "at 21 a@2 c@21",
			why: "though the server is past the version again",
		}}},
		{"it has, and it was not told to the end", []life{first, {
			exchanges: []exchange{{"probe", list("4", "")}, {"probe", list("4", "")}, {"list", list("4", "p", "a@2")}, {"list continue=p", hang}},
			told:      []string{"GAP rewound from 6 to 4", "MODIFIED a@2 inferred"}, kept: "rewound, at  a@2 b@3",
			why: "b may be of times that are no more",
		}, {
			exchanges: []exchange{{"list", list("20", "", "a@2", "b@3")}, {"watch 20", watch("open")}},
			told:      []string{"GAP rewound from 3 to 20", "MODIFIED a@2 inferred", "MODIFIED b@3 inferred", "SYNCED 20"}, kept: "at 20 a@2 b@3",
			why: "so it is told all over",
		}}},
		{"it has, and that is the end", []life{first, {
			options:   stream.Options{OnExpired: stream.Fail},
			exchanges: []exchange{{"probe", list("4", "")}, {"probe", list("4", "")}},
			told:      []string{"error: what happened since resourceVersion 6 can't be told (rewound): the server answered with an older resourceVersion than before"}, kept: "rewound, at 6 a@6 b@3",
			why: "somebody wants to know",
		}, {
			exchanges: []exchange{{"list", list("20", "", "a@2", "b@3")}, {"watch 20", watch("open")}},
			told:      []string{"GAP rewound from 6 to 20", "MODIFIED a@2 inferred", "MODIFIED b@3 inferred", "SYNCED 20"}, kept: "at 20 a@2 b@3",
			why: "the next one is told",
		}}},
		{"it has, without an index", []life{{
			options:   stream.Options{Index: stream.IndexNone},
			exchanges: []exchange{{"list", list("5", "", "a@2")}, {"watch 5", watch()}, {"probe", list("4", "")}, {"probe", list("4", "")}, {"list", list("4", "", "a@2")}, {"watch 4", watch("open")}},
			leave:     "GAP rewound from 5 to 4 history lost",
			told:      []string{"ADDED a@2", "SYNCED 5", "GAP rewound from 5 to 4 history lost", "ADDED a@2", "SYNCED 4"}, kept: "rewound, at 5",
			why: "likewise",
		}, {
			options:   stream.Options{Index: stream.IndexNone},
			exchanges: []exchange{{"list", list("9", "", "a@2")}, {"watch 9", watch("open")}},
			told:      []string{"GAP rewound from 5 to 9 history lost", "ADDED a@2", "SYNCED 9"}, kept: "at 9",
			why: "likewise",
		}}},
		{"now", []life{{
			options:   stream.Options{Start: stream.Now()},
			exchanges: []exchange{{"list", list("5", "", "a@2")}, {"watch 5", hang}},
			told:      nil, kept: "nothing",
			why: "it has not begun",
		}, {
			options:   stream.Options{Start: stream.Now()},
			exchanges: []exchange{{"list", list("6", "", "a@2", "b@6")}, {"watch 6", watch("open")}},
			told:      []string{"SYNCED 6"}, kept: "at 6 a@2 b@6",
			why: "and begins now",
		}, {
			options:   stream.Options{Start: stream.Now()},
			exchanges: []exchange{{"watch 6", status(410, metav1.StatusReasonExpired)}, {"list", list("9", "")}, {"watch 9", watch("open")}},
			told:      []string{"GAP expired from 6 to 9", "DELETED a@2 inferred", "DELETED b@6 inferred", "SYNCED 9"}, kept: "at 9",
			why: "now was then",
		}}},
		{"after a version", []life{{
			options:   stream.Options{Start: stream.After("5")},
			exchanges: []exchange{{"watch 5", watch("MODIFIED a@6", "open")}},
			told:      []string{"SYNCED 5", "MODIFIED a@6"}, kept: "at 6 a@6",
			why: "it begins there",
		}, {
			options:   stream.Options{Start: stream.After("5")},
			exchanges: []exchange{{"watch 6", status(410, metav1.StatusReasonExpired)}, {"list", list("9", "", "b@3")}, {"watch 9", watch("open")}},
			told:      []string{"GAP expired from 6 to 9 history lost", "DELETED a@6 inferred", "SYNCED 9"}, kept: "at 9 b@3",
			why: "what there was before 5 is still not known",
		}}},
		{"after a version, the end of what was there before", []life{{
			options:   stream.Options{Start: stream.After("5")},
			exchanges: []exchange{{"watch 5", watch("DELETED c@7", "open")}},
			told:      []string{"SYNCED 5", "DELETED c@7"}, kept: "at 7",
			why: "an end is nothing to be written ahead: it would be told once more",
		}}},
		{"what the watch says once more", []life{{
			exchanges: []exchange{{"list", list("5", "", "a@2")}, {"watch 5", watch("ADDED b@3", "MODIFIED a@6", "open")}},
			told:      []string{"ADDED a@2", "SYNCED 5", "MODIFIED a@6"}, kept: "at 6 a@6",
			why: "b is not told, so its end must not be",
		}}},
		{"without an index", []life{{
			options:   stream.Options{Index: stream.IndexNone},
			exchanges: []exchange{{"list", list("5", "", "a@2")}, {"watch 5", watch("MODIFIED a@6", "open")}},
			told:      []string{"ADDED a@2", "SYNCED 5", "MODIFIED a@6"}, kept: "at 6",
			why: "the position is all there is",
		}, {
			options:   stream.Options{Index: stream.IndexNone},
			exchanges: []exchange{{"watch 6", status(410, metav1.StatusReasonExpired)}, {"list", list("9", "", "a@6")}, {"watch 9", watch("open")}},
			told:      []string{"GAP expired from 6 to 9 history lost", "ADDED a@6", "SYNCED 9"}, kept: "at 9",
			why: "so all comes again",
		}}},
		{"until it is synced", []life{first, {
			options:   stream.Options{End: stream.WhenSynced},
			exchanges: []exchange{{"list", list("9", "", "b@8")}, {"watch 9", watch("open")}},
			told:      []string{"MODIFIED b@8 inferred", "DELETED a@6 inferred", "SYNCED 9"}, kept: "at 9 b@8",
			why: "what is different now, and the end",
		}}},
		{"what is not wanted", []life{{
			options:   stream.Options{Select: func(m stream.Meta) bool { return m.GetName() != "b" }},
			exchanges: []exchange{{"list", list("5", "", "a@2", "b@3")}, {"watch 5", watch("MODIFIED b@6", "open")}},
			told:      []string{"ADDED a@2", "SYNCED 5"}, kept: "at 6 a@2",
			why: "it moves the position, though nobody acks it",
		}, {
			options:   stream.Options{Select: func(m stream.Meta) bool { return m.GetName() != "b" }},
			exchanges: []exchange{{"watch 6", watch("DELETED b@7", "open")}},
			told:      []string{"SYNCED 6"}, kept: "at 7 a@2",
			why: "of what is not wanted nothing is known, and its end is no event",
		}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := checkpoint.NewMemory()
				for i, l := range tt.lives {
					sc := &script{t: t, exchanges: l.exchanges}
					o, tracker := l.options, newTracker(t, store, l.tracker)
					o.Checkpoint = tracker
					s := newStream(t, sc.client(), &o)
					ctx, cancel := context.WithTimeoutCause(t.Context(), 10*time.Second, errTimeUp)
					var told []string
					for ev, err := range s.Events(ctx) {
						if err != nil {
							if !errors.Is(err, errTimeUp) {
								told = append(told, "error: "+err.Error())
							}
							break
						}
						told = append(told, text(ev))
						if text(ev) != strings.TrimSuffix(l.leave, " inferred") && text(ev) != l.leave+" inferred" {
							ev.Ack()
						}
					}
					cancel()
					noError(t, tracker.Close())
					if diff := cmp.Diff(l.told, told); diff != "" {
						t.Errorf("run %d: %s (-want +got):\n%s", i, l.why, diff)
					}
					if diff := cmp.Diff(l.kept, kept(t, store)); diff != "" {
						t.Errorf("what is kept of run %d: %s (-want +got):\n%s", i, l.why, diff)
					}
				}
			})
		})
	}
}

// TestNewObjectsAreWrittenAhead looks into the store while an event is handled.
func TestNewObjectsAreWrittenAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, commits := checkpoint.NewMemory(), 0
		tracker := newTracker(t, store, checkpoint.Options{Committed: func(checkpoint.CommitInfo) { commits++ }})
		sc := &script{t: t, exchanges: []exchange{
			{"watch initial", watch("ADDED a@2", "ADDED b@3", "MARKER @5", "ADDED c@6", "MODIFIED c@7", "open")},
		}}
		s := newStream(t, sc.client(), &stream.Options{Checkpoint: tracker, InitialList: stream.ListStreamed})
		var got []string
		for ev, err := range s.Events(anHour(t)) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, fmt.Sprintf("%s: %s, %d commits", text(ev), kept(t, store), commits))
			if ev.ResourceVersion == "7" {
				break
			}
		}
		want := []string{
			"ADDED a@2: at  a? b?, 1 commits", // those of a snapshot come together
			"ADDED b@3: at  a? b?, 1 commits",
			"SYNCED 5: at  a? b?, 1 commits",
			"ADDED c@6: at  a? b? c?, 2 commits",
			"MODIFIED c@7: at  a? b? c?, 2 commits",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		noError(t, tracker.Close())
	})
}

func TestFakeGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := fakeClient(widget("default", "a", "red"), widget("default", "b", "red"))
		w := c.Resource(widgets().GroupVersionResource).Namespace("default")
		store := checkpoint.NewMemory()
		run := func() (told []string) {
			tracker := newTracker(t, store, checkpoint.Options{})
			s := newStream(t, c, &stream.Options{Checkpoint: tracker})
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			for ev, err := range stream.Acked(s.Events(ctx)) {
				if err == nil {
					told = append(told, text(ev))
				}
			}
			noError(t, tracker.Close())
			return told
		}
		if diff := cmp.Diff([]string{"ADDED a@", "ADDED b@", "SYNCED 3"}, run()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		must(t)(nil, w.Delete(t.Context(), "a", metav1.DeleteOptions{}))
		must(t)(w.Update(t.Context(), widget("default", "b", "blue"), metav1.UpdateOptions{}))
		if diff := cmp.Diff([]string{"MODIFIED b@ inferred", "DELETED a@ inferred", "SYNCED 4"}, run()); diff != "" {
			t.Errorf("what happened while nobody watched (-want +got):\n%s", diff)
		}
	})
}

// TestReadAhead lets events come while the one before them is handled.
func TestReadAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 150 // more than are read ahead
		commits := 0
		tracker := newTracker(t, checkpoint.NewMemory(), checkpoint.Options{
			Interval: time.Hour, Committed: func(checkpoint.CommitInfo) { commits++ },
		})
		frames := []string{}
		for i := range n {
			frames = append(frames, fmt.Sprintf("ADDED o%d@%d", i, 10+i))
		}
		sc := &script{t: t, exchanges: []exchange{
			{"list", list("5", "")}, {"watch 5", watch(append(frames, "open")...)},
		}}
		s := newStream(t, sc.client(), &stream.Options{Checkpoint: tracker})
		told := 0
		for ev, err := range s.Events(anHour(t)) {
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
			if ev.Type == stream.Added {
				told++
			}
			if told == n-1 { // with one that has come, and is not told
				break
			}
		}
		if commits > 4 {
			t.Errorf("%d new objects were written ahead in %d commits", n, commits)
		}
		noError(t, tracker.Close())
	})
}
