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

// storedText writes the stored position of the widgets: "at VERSION" ("at " within a snapshot, or "not begun") and its
// objects, with "?" for an object that was never acked.
func storedText(t *testing.T, store checkpoint.Store) string {
	t.Helper()
	c, err := store.Load(t.Context(), "widgets.example.com")
	if err != nil {
		t.Fatal(err)
	}
	if c == nil {
		return "nothing"
	}
	rv, begun := c.Position.ResourceVersions[""]
	words := []string{"at " + rv}
	if !begun {
		words[0] = "not begun"
	}
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

// programRun is one run of a program that acks every event but one.
type programRun struct {
	exchanges []exchange
	options   setup
	tracker   checkpoint.Options
	unacked   string   // the event that is not acked, if any
	want      []string // events
	stored    string   // what storedText returns after the run
	why       string
}

func TestResumesFromCheckpoint(t *testing.T) {
	first := programRun{
		exchanges: []exchange{{"list", list("5", "", "a@2", "b@3")}, {"watch 5", watch("MODIFIED a@6", "open")}},
		want:      []string{"ADDED a@2", "ADDED b@3", "SYNCED 5", "MODIFIED a@6"},
		stored:    "at 6 a@6 b@3",
		why:       "without a checkpoint, the run starts with a snapshot",
	}
	unackedB := programRun{
		exchanges: []exchange{{"list", list("5", "", "a@2")}, {"watch 5", watch("ADDED b@6", "open")}},
		unacked:   "ADDED b@6",
		want:      []string{"ADDED a@2", "SYNCED 5", "ADDED b@6"},
		stored:    "at 5 a@2 b?",
		why:       "b was delivered, and not acked",
	}
	tests := []struct {
		name string
		runs []programRun
	}{
		{"resume at the stored version", []programRun{first, {
			exchanges: []exchange{{"watch 6", watch("DELETED a@7", "open")}},
			want:      []string{"SYNCED 6", "DELETED a@7"},
			stored:    "at 7 b@3",
			why:       "nothing is delivered again, and the index is restored",
		}}},
		{"resume at an expired version", []programRun{first, {
			exchanges: []exchange{
				{"watch 6", status(410, metav1.StatusReasonExpired)},
				{"list", list("9", "", "b@8", "c@9")},
				{"watch 9", watch("open")},
			},
			want: []string{"GAP expired from 6 to 9", "MODIFIED b@8 inferred", "ADDED c@9 inferred",
				"DELETED a@6 inferred", "SYNCED 9"},
			stored: "at 9 b@8 c@9",
			why:    "only the differences are delivered, the deletion of a among them",
		}}},
		{"bookmarks move the position", []programRun{first, {
			options:   setup{Run: stream.Run{Bookmarks: true}},
			exchanges: []exchange{{"watch 6", watch("BOOKMARK @20", "open")}},
			want:      []string{"SYNCED 6", "BOOKMARK 20"},
			stored:    "at 20 a@6 b@3",
			why:       "a bookmark that is delivered",
		}, {
			exchanges: []exchange{{"watch 20", watch("BOOKMARK @30", "open")}},
			want:      []string{"SYNCED 20"},
			stored:    "at 30 a@6 b@3",
			why:       "a bookmark that is not delivered",
		}}},
		{"an event is not acked", []programRun{{
			exchanges: []exchange{
				{"list", list("5", "", "a@2")},
				{"watch 5", watch("MODIFIED a@6", "MODIFIED a@7", "BOOKMARK @8", "open")},
			},
			unacked: "MODIFIED a@6",
			want:    []string{"ADDED a@2", "SYNCED 5", "MODIFIED a@6", "MODIFIED a@7"},
			stored:  "at 5 a@2",
			why:     "the position stays before it, whatever is acked after it",
		}, {
			exchanges: []exchange{{"watch 5", watch("MODIFIED a@6", "MODIFIED a@7", "open")}},
			want:      []string{"SYNCED 5", "MODIFIED a@6", "MODIFIED a@7"},
			stored:    "at 7 a@7",
			why:       "it is delivered again, and so are the events after it",
		}}},
		{"stopped within a snapshot", []programRun{{
			exchanges: []exchange{{"list", list("5", "p", "a@2", "b@3", "c@4")}, {"list continue=p", hang}},
			unacked:   "ADDED b@3",
			want:      []string{"ADDED a@2", "ADDED b@3", "ADDED c@4"},
			stored:    "at  a@2 b? c@4",
			why:       "c is stored as acked, though b is not acked",
		}, {
			exchanges: []exchange{{"list", list("9", "", "b@3", "c@4", "d@8")}, {"watch 9", watch("open")}},
			want: []string{"GAP restarted from  to 9", "ADDED b@3 inferred", "ADDED d@8 inferred",
				"DELETED a@2 inferred", "SYNCED 9"},
			stored: "at 9 b@3 c@4 d@8",
			why:    "a GAP says that changes are lost, then come the objects that were not acked, and the deletions",
		}}},
		{"an unacked object is gone after a gap", []programRun{unackedB, {
			exchanges: []exchange{
				{"watch 5", status(410, metav1.StatusReasonExpired)},
				{"list", list("9", "", "a@2")},
				{"watch 9", watch("open")},
			},
			want:   []string{"GAP expired from 5 to 9", "DELETED b@ inferred", "SYNCED 9"},
			stored: "at 9 a@2",
			why:    "its deletion is reported",
		}}},
		{"an unacked object exists after a gap", []programRun{unackedB, {
			exchanges: []exchange{
				{"watch 5", status(410, metav1.StatusReasonExpired)},
				{"list", list("9", "", "a@2", "b@6")},
				{"watch 9", watch("open")},
			},
			want:   []string{"GAP expired from 5 to 9", "ADDED b@6 inferred", "SYNCED 9"},
			stored: "at 9 a@2 b@6",
			why:    "it is delivered again",
		}}},
		{"an unacked object is replaced during a gap", []programRun{unackedB, {
			exchanges: []exchange{
				{"watch 5", status(410, metav1.StatusReasonExpired)},
				{"list", list("9", "", "a@2", "b/other@8")},
				{"watch 9", watch("open")},
			},
			unacked: "ADDED b/other@8",
			want: []string{"GAP expired from 5 to 9", "DELETED b@ inferred", "ADDED b/other@8 inferred",
				"SYNCED 9"},
			stored: "at  a@2 b?",
			why:    "the deletion of the old object comes first",
		}}},
		{"the watch sends an unacked object again", []programRun{unackedB, {
			exchanges: []exchange{{"watch 5", watch("ADDED b@6", "DELETED b@7", "open")}},
			want:      []string{"SYNCED 5", "ADDED b@6", "DELETED b@7"},
			stored:    "at 7 a@2",
			why:       "it is delivered as if for the first time",
		}}},
		{"without write-ahead", []programRun{{
			exchanges: unackedB.exchanges,
			unacked:   unackedB.unacked,
			want:      unackedB.want,
			tracker:   checkpoint.Options{NoWriteAhead: true},
			stored:    "at 5 a@2",
			why:       "b is delivered before it is stored",
		}, {
			exchanges: []exchange{
				{"watch 5", status(410, metav1.StatusReasonExpired)},
				{"list", list("9", "", "a@2")},
				{"watch 9", watch("open")},
			},
			tracker: checkpoint.Options{NoWriteAhead: true},
			want:    []string{"GAP expired from 5 to 9 history lost", "SYNCED 9"},
			stored:  "at 9 a@2",
			why:     "the store does not know b, so the GAP must say that deletions may be missing",
		}, {
			exchanges: []exchange{
				{"watch 9", status(410, metav1.StatusReasonExpired)},
				{"list", list("12", "")},
				{"watch 12", watch("open")},
			},
			want:   []string{"GAP expired from 9 to 12", "DELETED a@2 inferred", "SYNCED 12"},
			stored: "at 12",
			why:    "the run before ended in order with every event acked, so no history is lost",
		}}},
		{"without write-ahead, then with it", []programRun{{
			exchanges: unackedB.exchanges,
			unacked:   unackedB.unacked,
			want:      unackedB.want,
			tracker:   checkpoint.Options{NoWriteAhead: true},
			stored:    "at 5 a@2",
			why:       "b is delivered before it is stored",
		}, {
			exchanges: []exchange{{"watch 5", watch("MODIFIED a@7", "open")}},
			want:      []string{"SYNCED 5", "MODIFIED a@7"},
			stored:    "at 7 a@7",
			why:       "no snapshot is needed yet",
		}, {
			exchanges: []exchange{
				{"watch 7", status(410, metav1.StatusReasonExpired)},
				{"list", list("9", "", "a@7")},
				{"watch 9", watch("open")},
			},
			want:   []string{"GAP expired from 7 to 9 history lost", "SYNCED 9"},
			stored: "at 9 a@7",
			why:    "the store still does not know b, whatever the options of the runs since",
		}, {
			exchanges: []exchange{
				{"watch 9", status(410, metav1.StatusReasonExpired)},
				{"list", list("12", "")},
				{"watch 12", watch("open")},
			},
			want:   []string{"GAP expired from 9 to 12", "DELETED a@7 inferred", "SYNCED 12"},
			stored: "at 12",
			why:    "the last snapshot had everything that exists",
		}}},
		{"without write-ahead, stopped within a snapshot", []programRun{{
			exchanges: []exchange{{"list", list("5", "p", "a@2", "b@3")}, {"list continue=p", hang}},
			unacked:   "ADDED b@3",
			tracker:   checkpoint.Options{NoWriteAhead: true},
			want:      []string{"ADDED a@2", "ADDED b@3"},
			stored:    "at  a@2",
			why:       "b may have been handled, but is not stored",
		}, {
			exchanges: []exchange{{"list", list("9", "", "a@2")}, {"watch 9", watch("open")}},
			want:      []string{"GAP restarted from  to 9 history lost", "SYNCED 9"},
			stored:    "at 9 a@2",
			why:       "the store does not know b, so the GAP must say that deletions may be missing",
		}}},
		{"the server was rewound", []programRun{first, {
			exchanges: []exchange{
				{"probe", list("4", "")},
				{"probe", list("4", "")},
				{"list", list("4", "", "a@2", "b@3")},
				{"watch 4", watch("open")},
			},
			want:   []string{"GAP rewound from 6 to 4", "MODIFIED a@2 inferred", "MODIFIED b@3 inferred", "SYNCED 4"},
			stored: "at 4 a@2 b@3",
			why:    "b is delivered too: it is unknown which of the delivered states were undone",
		}}},
		{"the server was rewound, and the GAP is not acked", []programRun{first, {
			exchanges: []exchange{
				{"probe", list("4", "")},
				{"probe", list("4", "")},
				{"list", list("4", "", "a@2", "b@3")},
				{"watch 4", watch("open")},
			},
			unacked: "GAP rewound from 6 to 4",
			want:    []string{"GAP rewound from 6 to 4", "MODIFIED a@2 inferred", "MODIFIED b@3 inferred", "SYNCED 4"},
			stored:  "rewound, at 6 a@6 b@3",
			why:     "the position stays, marked as rewound, so that no run resumes from it",
		}, {
			exchanges: []exchange{
				{"list", list("20", "", "a@2", "c@18")},
				{"watch 20", watch("MODIFIED c@21", "open")},
			},
			want: []string{"GAP rewound from 6 to 20", "MODIFIED a@2 inferred", "ADDED c@18 inferred",
				"DELETED b@3 inferred", "SYNCED 20", "MODIFIED c@21"},
			stored: "at 21 a@2 c@21",
			why:    "the mark counts even after the server has passed that version again",
		}}},
		{"the server was rewound, and the run stops before SYNCED", []programRun{first, {
			exchanges: []exchange{
				{"probe", list("4", "")},
				{"probe", list("4", "")},
				{"list", list("4", "p", "a@2")},
				{"list continue=p", hang},
			},
			want:   []string{"GAP rewound from 6 to 4", "MODIFIED a@2 inferred"},
			stored: "rewound, at  a@2 b@3",
			why:    "the stored state of b may have been undone",
		}, {
			exchanges: []exchange{{"list", list("20", "", "a@2", "b@3")}, {"watch 20", watch("open")}},
			want: []string{"GAP rewound from 3 to 20", "MODIFIED a@2 inferred", "MODIFIED b@3 inferred",
				"SYNCED 20"},
			stored: "at 20 a@2 b@3",
			why:    "all objects are delivered again",
		}}},
		{"the server was rewound, with FailOnGap", []programRun{first, {
			options:   setup{Run: stream.Run{FailOnGap: true}},
			exchanges: []exchange{{"probe", list("4", "")}, {"probe", list("4", "")}},
			want: []string{"error: cannot know what happened since resourceVersion 6 (rewound): " +
				"the server answered with an older resourceVersion than before"},
			stored: "rewound, at 6 a@6 b@3",
			why:    "the run fails, and the position is marked as rewound",
		}, {
			exchanges: []exchange{{"list", list("20", "", "a@2", "b@3")}, {"watch 20", watch("open")}},
			want: []string{"GAP rewound from 6 to 20", "MODIFIED a@2 inferred", "MODIFIED b@3 inferred",
				"SYNCED 20"},
			stored: "at 20 a@2 b@3",
			why:    "the next run delivers the GAP",
		}}},
		{"the server was rewound while the program ran", []programRun{{
			exchanges: []exchange{
				{"list", list("5", "", "a@2")},
				{"watch 5", watch()},
				{"probe", list("4", "")},
				{"probe", list("4", "")},
				{"list", list("4", "", "a@2")},
				{"watch 4", watch("open")},
			},
			unacked: "GAP rewound from 5 to 4",
			want:    []string{"ADDED a@2", "SYNCED 5", "GAP rewound from 5 to 4", "MODIFIED a@2 inferred", "SYNCED 4"},
			stored:  "rewound, at 5 a@2",
			why:     "the position is marked as rewound",
		}, {
			exchanges: []exchange{{"list", list("9", "", "a@2")}, {"watch 9", watch("open")}},
			want:      []string{"GAP rewound from 5 to 9", "MODIFIED a@2 inferred", "SYNCED 9"},
			stored:    "at 9 a@2",
			why:       "the next run delivers the GAP again",
		}}},
		{"start now", []programRun{{
			options:   setup{Run: stream.Run{Start: stream.Now()}},
			exchanges: []exchange{{"list", list("5", "", "a@2")}, {"watch 5", hang}},
			want:      nil,
			stored:    "nothing",
			why:       "nothing is stored before the watch opens",
		}, {
			options:   setup{Run: stream.Run{Start: stream.Now()}},
			exchanges: []exchange{{"list", list("6", "", "a@2", "b@6")}, {"watch 6", watch("open")}},
			want:      []string{"SYNCED 6"},
			stored:    "at 6 a@2 b@6",
			why:       "the position is that of the first list whose watch opens",
		}, {
			options: setup{Run: stream.Run{Start: stream.Now()}},
			exchanges: []exchange{
				{"watch 6", status(410, metav1.StatusReasonExpired)},
				{"list", list("9", "")},
				{"watch 9", watch("open")},
			},
			want:   []string{"GAP expired from 6 to 9", "DELETED a@2 inferred", "DELETED b@6 inferred", "SYNCED 9"},
			stored: "at 9",
			why:    "a stored position has precedence over Now",
		}}},
		{"start after a version", []programRun{{
			options:   setup{Run: stream.Run{Start: stream.After("5")}},
			exchanges: []exchange{{"watch 5", watch("MODIFIED a@6", "open")}},
			want:      []string{"SYNCED 5", "MODIFIED a@6"},
			stored:    "at 6 a@6",
			why:       "without a checkpoint, the run starts at that version",
		}, {
			options: setup{Run: stream.Run{Start: stream.After("5")}},
			exchanges: []exchange{
				{"watch 6", status(410, metav1.StatusReasonExpired)},
				{"list", list("9", "", "b@3")},
				{"watch 9", watch("open")},
			},
			want:   []string{"GAP expired from 6 to 9 history lost", "DELETED a@6 inferred", "SYNCED 9"},
			stored: "at 9 b@3",
			why:    "which objects existed at 5 is still unknown",
		}}},
		{"start after a version, and an unknown object is deleted", []programRun{{
			options:   setup{Run: stream.Run{Start: stream.After("5")}},
			exchanges: []exchange{{"watch 5", watch("DELETED c@7", "open")}},
			want:      []string{"SYNCED 5", "DELETED c@7"},
			stored:    "at 7",
			why:       "a deleted object is not written ahead, or a later run would report its deletion again",
		}}},
		{"the watch replays an old event", []programRun{{
			exchanges: []exchange{
				{"list", list("5", "", "a@2")},
				{"watch 5", watch("MODIFIED a@6", "ADDED b@3", "open")},
				{"list", list("6", "", "a@6")},
				{"watch 6", watch("MODIFIED a@7", "open")},
			},
			want: []string{"ADDED a@2", "SYNCED 5", "MODIFIED a@6", "GAP unordered from 6 to 6", "SYNCED 6",
				"MODIFIED a@7"},
			stored: "at 7 a@7",
			why:    "b is not delivered, so no later run may report its deletion",
		}}},
		{"UntilSynced", []programRun{first, {
			options:   setup{Run: stream.Run{Until: stream.UntilSynced}},
			exchanges: []exchange{{"list", list("9", "", "b@8", "c@9")}, {"watch 9", watch("open")}},
			want:      []string{"MODIFIED b@8 inferred", "ADDED c@9 inferred", "DELETED a@6 inferred", "SYNCED 9"},
			stored:    "at 9 b@8 c@9",
			why:       "the differences are delivered, then the run ends",
		}}},
		{"Select", []programRun{{
			options:   setup{Options: stream.Options{Select: func(m stream.Meta) bool { return m.GetName() != "b" }}},
			exchanges: []exchange{{"list", list("5", "", "a@2", "b@3")}, {"watch 5", watch("MODIFIED b@6", "open")}},
			want:      []string{"ADDED a@2", "SYNCED 5"},
			stored:    "at 6 a@2",
			why:       "rejected events move the position without an ack",
		}, {
			options:   setup{Options: stream.Options{Select: func(m stream.Meta) bool { return m.GetName() != "b" }}},
			exchanges: []exchange{{"watch 6", watch("DELETED b@7", "open")}},
			want:      []string{"SYNCED 6"},
			stored:    "at 7 a@2",
			why:       "a rejected object is not stored, and its deletion is not reported",
		}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &checkpoint.Memory{}
				for i, r := range tt.runs {
					sc := &script{t: t, exchanges: r.exchanges}
					o, tracker := r.options, newTracker(t, store, r.tracker)
					o.Checkpoint = tracker
					s := newStream(t, sc.client(), &o)
					ctx, cancel := context.WithTimeoutCause(t.Context(), 10*time.Second, errTimeUp)
					var got []string
					for ev, err := range s.Events(ctx) {
						if err != nil {
							if !errors.Is(err, errTimeUp) {
								got = append(got, "error: "+err.Error())
							}
							break
						}
						got = append(got, text(ev))
						if text(ev) != strings.TrimSuffix(r.unacked, " inferred") && text(ev) != r.unacked+" inferred" {
							ev.Ack()
						}
					}
					cancel()
					noError(t, tracker.Close())
					if diff := cmp.Diff(r.want, got); diff != "" {
						t.Errorf("events of run %d: %s (-want +got):\n%s", i, r.why, diff)
					}
					if diff := cmp.Diff(r.stored, storedText(t, store)); diff != "" {
						t.Errorf("position after run %d: %s (-want +got):\n%s", i, r.why, diff)
					}
				}
			})
		})
	}
}

// countingStore counts commits.
type countingStore struct {
	checkpoint.Store
	commits int
}

func (s *countingStore) Commit(ctx context.Context, deltas []checkpoint.Delta) error {
	s.commits++
	return s.Store.Commit(ctx, deltas)
}

// TestStoreIsNotBehindDelivery: what the next run must know is in the store before an event is delivered, even if the
// commits of acks are far apart.
func TestStoreIsNotBehindDelivery(t *testing.T) {
	for _, tt := range []struct {
		name    string
		frames  []string
		unacked string // the event from which on nothing is acked
		tracker checkpoint.Options
		want    []string
		why     string
		start   stream.Start
	}{
		{"new objects", []string{"ADDED a@2", "ADDED b@3", "ADDED c@4", "MARKER @5", "ADDED d@6", "MODIFIED d@7"},
			"ADDED a@2", checkpoint.Options{}, []string{
				"ADDED a@2: at  a? b?, 1 commits",
				"ADDED b@3: at  a? b?, 1 commits",
				"ADDED c@4: at  a? b? c?, 2 commits",
				"SYNCED 5: at  a? b? c?, 2 commits",
				"ADDED d@6: at  a? b? c? d?, 3 commits",
				"MODIFIED d@7: at  a? b? c? d?, 3 commits",
			}, "up to PageSize new objects of a snapshot are committed together", stream.Start{}},
		{"SYNCED", []string{"ADDED a@2", "MARKER @5", "MODIFIED a@6", "MODIFIED a@7", "DELETED a@8"},
			"", checkpoint.Options{}, []string{
				"ADDED a@2: at  a?, 1 commits",
				"SYNCED 5: at  a?, 1 commits",
				"MODIFIED a@6: at 5 a@2, 2 commits",
				"MODIFIED a@7: at 5 a@2, 2 commits",
				"DELETED a@8: at 5 a@2, 2 commits",
			}, "a program that is killed after 6 must not miss 7", stream.Start{}},
		{"SYNCED, not acked", []string{"ADDED a@2", "MARKER @5", "MODIFIED a@6"}, "SYNCED 5", checkpoint.Options{},
			[]string{
				"ADDED a@2: at  a?, 1 commits",
				"SYNCED 5: at  a?, 1 commits",
				"MODIFIED a@6: at  a?, 1 commits",
			}, "the next run begins with a GAP, because a is known", stream.Start{}},
		{"SYNCED without objects", []string{"MARKER @5", "ADDED a@6"}, "SYNCED 5", checkpoint.Options{}, []string{
			"SYNCED 5: at , 1 commits",
			"ADDED a@6: at  a?, 2 commits",
		}, "the next run begins with a GAP, because the sequence has begun", stream.Start{}},
		{"Now", []string{"ADDED a@2", "MARKER @5", "MODIFIED a@6"}, "SYNCED 5", checkpoint.Options{}, []string{
			"SYNCED 5: at 5 a@2, 1 commits",
			"MODIFIED a@6: at 5 a@2, 1 commits",
		}, "the next run resumes at 5, even if SYNCED was not acked", stream.Now()},
		{"without write-ahead", []string{"ADDED a@2", "MARKER @5", "ADDED b@6", "MODIFIED a@7"}, "",
			checkpoint.Options{NoWriteAhead: true}, []string{
				"ADDED a@2: at , 1 commits",
				"SYNCED 5: at , 1 commits",
				"ADDED b@6: at 5 a@2, 2 commits",
				"MODIFIED a@7: at 5 a@2, 2 commits",
			}, "the version of SYNCED is committed, new objects are not", stream.Start{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &countingStore{Store: &checkpoint.Memory{}}
				tt.tracker.Interval = time.Hour
				tracker := newTracker(t, store, tt.tracker)
				sc := &script{t: t, exchanges: []exchange{{"watch initial", watch(append(tt.frames, "open")...)}}}
				s := streamOf(t, sc.client(), widgets(),
					&setup{Options: stream.Options{Requests: stream.Requests{PageSize: 2}},
						Run: stream.Run{Checkpoint: tracker, Start: tt.start}})
				var got []string
				acks := true
				for ev, err := range s.Events(anHour(t)) {
					if err != nil {
						t.Fatal(err)
					}
					got = append(got, fmt.Sprintf("%s: %s, %d commits", text(ev), storedText(t, store), store.commits))
					if acks = acks && text(ev) != tt.unacked; acks {
						ev.Ack()
					}
					if len(got) == len(tt.want) {
						break
					}
				}
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Errorf("%s (-want +got):\n%s", tt.why, diff)
				}
				noError(t, tracker.Close())
			})
		})
	}
}

func TestFakeResumesFromCheckpoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := fakeClient(widget("default", "a", "red"), widget("default", "b", "red"))
		w := c.Resource(widgets().GroupVersionResource).Namespace("default")
		store := &checkpoint.Memory{}
		run := func() (got []string) {
			tracker := newTracker(t, store, checkpoint.Options{})
			s := newStream(t, c, &setup{Run: stream.Run{Checkpoint: tracker}})
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			for ev, err := range stream.Acked(s.Events(ctx)) {
				if err == nil {
					got = append(got, text(ev))
				}
			}
			noError(t, tracker.Close())
			return got
		}
		if diff := cmp.Diff([]string{"ADDED a@", "ADDED b@", "SYNCED " + listVersion(t, c)}, run()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		must(t)(nil, w.Delete(t.Context(), "a", metav1.DeleteOptions{}))
		must(t)(w.Update(t.Context(), widget("default", "b", "blue"), metav1.UpdateOptions{}))
		want := []string{"MODIFIED b@ inferred", "DELETED a@ inferred", "SYNCED " + listVersion(t, c)}
		if diff := cmp.Diff(want, run()); diff != "" {
			t.Errorf("changes between two runs (-want +got):\n%s", diff)
		}
	})
}

// TestWriteAheadIsBatched: new objects that arrive while the loop body runs are written ahead together.
func TestWriteAheadIsBatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 150 // more events than a Stream reads ahead
		store := &countingStore{Store: &checkpoint.Memory{}}
		tracker := newTracker(t, store, checkpoint.Options{Interval: time.Hour})
		frames := []string{}
		for i := range n {
			frames = append(frames, fmt.Sprintf("ADDED o%d@%d", i, 10+i))
		}
		sc := &script{t: t, exchanges: []exchange{
			{"list", list("5", "")}, {"watch 5", watch(append(frames, "open")...)},
		}}
		s := newStream(t, sc.client(), &setup{Run: stream.Run{Checkpoint: tracker}})
		added := 0
		for ev, err := range s.Events(anHour(t)) {
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
			if ev.Type == stream.Added {
				added++
			}
			if added == n-1 { // the last event has arrived, and is not delivered
				break
			}
		}
		if store.commits > 4 {
			t.Errorf("%d new objects were written ahead in %d commits, want at most 4", n, store.commits)
		}
		noError(t, tracker.Close())
	})
}
