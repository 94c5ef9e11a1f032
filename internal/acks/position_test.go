package acks_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/internal/acks"
)

// TestPosition: the position after each script of events and acks.
func TestPosition(t *testing.T) {
	const snapshot = "snapshot a:1@3 b:2@5 synced@9 " // events 0, 1, 2
	for _, tc := range []struct {
		name, script string
		want         string
		why          string
	}{
		{"nothing acked", snapshot, "nothing", "nothing was acked"},
		{"all acked", snapshot + "ack 0-2", "9 a:1@3 b:2@5", "everything was acked"},
		{"in reverse", snapshot + "ack 2-0", "9 a:1@3 b:2@5", "the order of acks does not matter"},
		{"SYNCED only", snapshot + "ack 2", "nothing",
			"the objects before it are not acked"},
		{"one of a snapshot", snapshot + "ack 1", "- b:2@5", "the next run delivers the rest"},
		{"snapshot without SYNCED", snapshot + "ack 0-1", "- a:1@3 b:2@5", "there is no version before its end"},
		{"acked twice", snapshot + "ack 0 ack 0 ack 0", "- a:1@3", "a second ack has no effect"},
		{"a deletion", snapshot + "ack 0-2 -a:1@10 ack 3", "10 b:2@5", "a deleted object has no entry"},

		{"live in order", snapshot + "ack 0-2 a:1@10 c:3@11 b:2@12 ack 3-5", "12 a:1@10 b:2@12 c:3@11",
			"no event is missing"},
		{"live, a hole", snapshot + "ack 0-2 a:1@10 c:3@11 b:2@12 ack 3 ack 5", "10 a:1@10 b:2@5",
			"11 is not acked, so 12 is delivered again"},
		{"live, the hole filled", snapshot + "ack 0-2 a:1@10 c:3@11 b:2@12 ack 5 ack 3 ack 4",
			"12 a:1@10 b:2@12 c:3@11", "what waited for it counts at once"},
		{"live, in reverse", snapshot + "ack 0-2 a:1@10 a:1@11 -a:1@12 ack 5-4", "9 a:1@3 b:2@5",
			"not even the newest state counts"},
		{"live, another object of the name", snapshot + "ack 0-2 -a:1@10 a:7@11 ack 4 ack 3", "11 a:7@11 b:2@5",
			"the new object is the last one"},

		{"bookmark", snapshot + "ack 0-2 bookmark@20", "20 a:1@3 b:2@5", "no event waits for an ack"},
		{"bookmark behind an event", snapshot + "ack 0-2 a:1@10 bookmark@20", "9 a:1@3 b:2@5",
			"it does not pass an event that is not acked"},
		{"bookmark behind an event that is acked later", snapshot + "ack 0-2 a:1@10 bookmark@20 ack 3",
			"20 a:1@10 b:2@5", "it counts once the event is acked"},
		{"bookmark between", snapshot + "ack 0-2 a:1@10 bookmark@20 b:2@21 ack 3", "20 a:1@10 b:2@5",
			"up to the next event"},
		{"bookmark behind a snapshot", snapshot + "bookmark@20 ack 0-1", "- a:1@3 b:2@5", "SYNCED is not acked"},
		{"bookmark of the same version", snapshot + "ack 0-2 bookmark@9", "9 a:1@3 b:2@5", "the position is unchanged"},

		{"noted without an event, live", snapshot + "ack 0-2 ?c:3@10", "10 a:1@3 b:2@5 c:3@10", "it needs no ack"},
		{"noted without an event, behind an event", snapshot + "ack 0-2 a:1@10 ?c:3@11", "9 a:1@3 b:2@5",
			"it does not pass an event that is not acked"},
	} {
		t.Run(tc.name, func(t *testing.T) { isPosition(t, "", nil, tc.script, tc.want, tc.why) })
	}
}

// Within a snapshot the order of acks matters only for one object.
func TestSnapshotMayBeAckedInAnyOrder(t *testing.T) {
	for _, tc := range []struct {
		name, script string
		want         string
		why          string
	}{
		{"noted without an event", "snapshot a:1@3 ?b:2@5 c:3@6 ack 1", "- b:2@5 c:3@6",
			"it needs no ack, and does not wait for others"},
		{"only noted without an event", "snapshot ?b:2@5", "- b:2@5", "it needs no ack"},
		{"replaced, in order", "snapshot a:1@3 ack 0 -a:1@3 a:2@6 ack 1", "-", "the old one has no entry any more"},
		{"replaced, the new one first", "snapshot a:1@3 ack 0 -a:1@3 a:2@6 ack 2", "- a:1@3 a:2@6",
			"each has its own entry; the next run reports the DELETED of the old one again"},
		{"replaced, in reverse", "snapshot a:1@3 ack 0 -a:1@3 a:2@6 ack 2-1", "- a:2@6", "both are acked"},
		{"three times in reverse", "snapshot a:1@3 a:1@4 -a:1@4 a:2@6 ack 3-0", "- a:2@6",
			"each waits for the one before it"},
		{"three times, the middle missing", "snapshot a:1@3 a:1@4 a:1@5 ack 0 ack 2", "- a:1@3", "the last one waits"},
		{"changed in a list that began again", "snapshot a:1@3 b:2@4 snapshot a:1@7 ack 2", "nothing",
			"its beginning is not acked"},
		{"changed in a list that began again, both", "snapshot a:1@3 b:2@4 snapshot a:1@7 ack 2 ack 0", "- a:1@7",
			"one snapshot, two lists"},
		{"another object", "snapshot a:1@3 a:1@4 b:2@5 ack 1-2", "- b:2@5", "it does not wait for the events of a"},
		{"live ones wait for the end", "snapshot a:1@3 b:2@4 synced@9 c:3@10 ack 1-3", "- b:2@4",
			"they must not pass an event that is not acked"},
		{"an object of the snapshot that changes", "snapshot a:1@3 b:2@4 synced@9 b:2@10 ack 1-3", "- b:2@4",
			"the live event is behind an event that is not acked"},
		{"delivered again after an ack", "snapshot z:9@1 a:1@3 a:1@4 ack 1 a:1@5 ack 3", "- a:1@3",
			"the last one waits for the one between"},
		{"noted and delivered in one event", "snapshot z:9@1 ~a:1@3 a:1@4 ack 1", "- a:1@4",
			"one event does not wait for itself"},
		{"noted before another event", "snapshot ?b:2@4 z:9@5 b:2@7 ack 1", "- b:2@7",
			"it was committed at once, without event 0"},
		{"noted twice without an event", "snapshot a:1@3 ?b:2@5 ?a:1@6 ack 0", "- a:1@6 b:2@5",
			"the first counts at once, the second waits for event 0"},
		{"deleted within the snapshot", "snapshot a:1@3 ack 0 b:2@4 -a:1@3 ack 2", "-",
			"it has no entry any more, although b is not acked"},
	} {
		t.Run(tc.name, func(t *testing.T) { isPosition(t, "", nil, tc.script, tc.want, tc.why) })
	}
}

func TestPositionStaysBeforeAnUnackedGap(t *testing.T) {
	const before = "snapshot a:1@3 b:2@5 synced@9 ack 0-2 " // events 0, 1, 2
	for _, tc := range []struct {
		name, script string
		want         string
		why          string
	}{
		{"GAP not acked", before + "gap c:3@20 ack 4", "9 a:1@3 b:2@5", "the next run has to report the break"},
		{"GAP acked", before + "gap ack 3", "- a:1@3 b:2@5", "the next run delivers the rest of the snapshot"},
		{"GAP acked late", before + "gap c:3@20 d:4@21 ack 5 ack 3", "- a:1@3 b:2@5 d:4@21",
			"acks of the snapshot count from now on"},
		{"a hole before the GAP", before + "a:1@10 gap c:3@20 d:4@21 synced@22 ack 4-7", "9 a:1@3 b:2@5",
			"event 3 is not acked"},
		{"the hole filled", before + "a:1@10 gap c:3@20 d:4@21 synced@22 ack 5-7 ack 3", "10 a:1@10 b:2@5",
			"GAP is not acked"},
		{"the hole filled, and GAP", before + "a:1@10 gap c:3@20 d:4@21 synced@22 ack 6-7 ack 4-3",
			"- a:1@10 b:2@5 d:4@21", "one object is not acked"},
		{"in reverse, the same object", before + "gap a:1@20 -a:1@20 a:9@21 synced@22 ack 7-3", "22 a:9@21 b:2@5",
			"each waits for the one before it"},
		{"the same object in both snapshots", "snapshot a:1@3 b:2@4 synced@9 gap a:1@20 synced@21 ack 1-5", "- b:2@4",
			"the second snapshot is behind an event of the first that is not acked"},
		{"the same object in both snapshots, all", "snapshot a:1@3 b:2@4 synced@9 gap a:1@20 synced@21 ack 5-0",
			"21 a:1@20 b:2@4", "no object is lost"},
		{"noted after GAP", before + "gap ?a:1@20", "9 a:1@3 b:2@5", "it waits for the ack of GAP"},
		{"noted after GAP that is acked", before + "gap ?a:1@20 ack 3", "- a:1@20 b:2@5",
			"it counts with the ack of GAP"},
		{"a deleted object", before + "gap -a:1@3 synced@22 ack 3 ack 5", "- a:1@3 b:2@5", "its DELETED is not acked"},
		{"two gaps", before + "gap a:1@20 synced@22 gap b:2@30 ack 7-3", "- a:1@20 b:2@30",
			"each is a snapshot of its own"},
	} {
		t.Run(tc.name, func(t *testing.T) { isPosition(t, "", nil, tc.script, tc.want, tc.why) })
	}
}

func TestDeferredPositionBeginsWithAnAck(t *testing.T) {
	const now = "defer ~a:1@3 ~b:2@5 "
	for _, tc := range []struct {
		name, script string
		want         string
		why          string
	}{
		{"before SYNCED", now, "nothing", "the sequence has not begun"},
		{"SYNCED not acked", now + "synced@9 c:3@10 ack 1", "nothing", "the sequence has not begun"},
		{"SYNCED acked", now + "synced@9 ack 0", "9 a:1@3 b:2@5", "its commit has all objects"},
		{"bookmarks wait", now + "bookmark@7 synced@9", "nothing", "nothing is committed before the first ack"},
		{"events after SYNCED", now + "synced@9 c:3@10 ack 1 ack 0", "10 a:1@3 b:2@5 c:3@10", "the sequence has begun"},
		{"bookmarks no longer wait", now + "synced@9 ack 0 bookmark@12", "12 a:1@3 b:2@5", "the sequence has begun"},
		{"bookmarks after the first event", "defer after@9 c:3@10 bookmark@12 ack 0", "12 partial c:3@10",
			"it counts once the first event is acked"},
		{"a second namespace", "defer x/after@9 y/after@9 x/bookmark@12 y/bookmark@12", "nothing",
			"nothing is committed before the first ack"},
		{"noted twice", now + "~a:1@8 synced@9 ack 0", "9 a:1@8 b:2@5", "the list began again: the last state counts"},
	} {
		t.Run(tc.name, func(t *testing.T) { isPosition(t, "", nil, tc.script, tc.want, tc.why) })
	}
	isPosition(t, "after@9 a:1@10 ack 0", nil, "defer bookmark@20", "20 partial a:1@10",
		"a session that resumes from a position is not deferred")
}

func TestPartialFollowsAcks(t *testing.T) {
	for _, tc := range []struct {
		name, first, script string
		namespaces          []string
		want                string
		why                 string
	}{
		{"after a version", "", "after@9", nil, "9 partial", "the objects that existed are unknown"},
		{"events after a version", "", "after@9 a:1@10 b:2@11 ack 0", nil, "10 partial a:1@10",
			"events do not change that"},
		{"a gap", "", "after@9 gap a:1@20 synced@22 ack 0-1", nil, "- partial a:1@20",
			"a part of the snapshot does not change that"},
		{"a gap, SYNCED", "", "after@9 gap a:1@20 synced@22 ack 0-2", nil, "22 a:1@20", "the snapshot had them all"},
		{"a gap, a hole", "", "after@9 gap a:1@20 synced@22 ack 0 ack 2", nil, "- partial", "the next run delivers it"},
		{"a snapshot that is partial from its beginning", "", "partial a:1@3 ack 0", nil, "- partial a:1@3",
			"Partial is committed first"},
		{"only the beginning of a partial snapshot", "", "partial", nil, "- partial", "it needs no ack"},
		{"the next run", "after@9 a:1@10 ack 0", "bookmark@20", nil, "20 partial a:1@10", "Partial is kept"},
		{"the next run, a gap", "after@9 a:1@10 ack 0", "gap a:1@10 synced@22 ack 0-2", nil, "22 a:1@10",
			"the snapshot had them all"},
		{"the next run, nothing acked", "after@9 a:1@10 ack 0", "gap", nil, "10 partial a:1@10", "nothing is acked"},
		{"one of two namespaces", "", "x/after@9 y/after@9 x/gap x/synced@22 ack 0-1", []string{"x", "y"},
			"x=22 y=9 partial", "objects of y may be missing"},
		{"the other namespace", "", "x/after@9 y/after@9 y/gap y/synced@22 ack 0-1", []string{"x", "y"},
			"x=9 y=22 partial",
			"objects of x may be missing"},
		{"the next run of one", "x/after@9 y/after@9", "y/gap y/synced@22 ack 0-1", []string{"x", "y"},
			"x=9 y=22 partial", "x is unchanged"},
		{"a namespace of the cluster", "after@9", "x/gap x/synced@22 ack 0-1", nil, "9 x=22 partial",
			"objects of other namespaces may be missing"},
		{"a namespace of the cluster, within its snapshot", "after@9", "x/gap x/a:1@10 ack 0-1", nil,
			"9 x=- partial x/a:1@10", "the cluster has no version to resume at any more"},
		{"a namespace of the cluster, GAP not acked", "after@9", "x/gap x/a:1@10 ack 1", nil, "9 partial",
			"acks behind GAP do not count"},
		{"the cluster again", "after@9 x/gap x/synced@22 ack 0-1", "gap a:1@30 ack 0-1", nil, "- partial a:1@30",
			"the cluster's snapshot replaces the versions of namespaces"},
		{"the cluster again, GAP not acked", "after@9 x/gap x/synced@22 ack 0-1", "gap a:1@30 ack 1", nil,
			"9 x=22 partial", "the next run has to report it"},
		{"a namespace of the cluster, nothing acked", "after@9", "x/gap", nil, "9 partial", "nothing was acked since"},
		{"both", "", "x/after@9 y/after@9 x/gap x/synced@22 y/gap y/synced@23 ack 0-3", []string{"x", "y"}, "x=22 y=23",
			"none is missing"},
	} {
		t.Run(tc.name, func(t *testing.T) { isPosition(t, tc.first, tc.namespaces, tc.script, tc.want, tc.why) })
	}
}

func TestRewoundUntilAnAckAfterTheSnapshot(t *testing.T) {
	const before = "snapshot a:1@3 synced@9 ack 0-1 "
	for _, tc := range []struct {
		name, first, script string
		want                string
		why                 string
	}{
		{"nothing acked", "", before + "rewound gap", "9 rewound a:1@3", "the next run has to report it"},
		{"an event before it", "", before + "a:1@10 rewound gap ack 2", "10 rewound a:1@10", "GAP is not acked"},
		{"GAP acked", "", before + "rewound gap a:1@3 ack 2", "- rewound a:1@3", "the snapshot is not acked"},
		{"SYNCED acked", "", before + "rewound gap a:1@3 synced@5 ack 2-4", "5 a:1@3", "it has been reported"},
		{"the next run, nothing acked", before + "rewound", "gap +b:2@4", "9 rewound a:1@3 !b:2",
			"the run after it has to report it"},
		{"the next run of one namespace", "x/snapshot y/snapshot x/synced@9 y/synced@9 ack 0-1 x/rewound y/rewound",
			"x/gap x/synced@5 ack 0-1", "- x=5 y=9", "this namespace has reported it"},
	} {
		t.Run(tc.name, func(t *testing.T) { isPosition(t, tc.first, nil, tc.script, tc.want, tc.why) })
	}
}

// The first run delivered an object that the Store does not have. The next one writes ahead.
func TestUncleanUntilASnapshotIsAcked(t *testing.T) {
	for _, tc := range []struct {
		name, script string
		want         string
		why          string
	}{
		{"a live event", "a:1@10 ack 0", "10 unclean a:1@10", "the other object is still unknown"},
		{"a bookmark", "bookmark@20", "20 unclean a:1@3", "the other object's deletion may fall into a later gap"},
		{"a gap, nothing acked", "gap", "9 unclean a:1@3", "the next run has to report it"},
		{"a gap, GAP acked", "gap a:1@3 ack 0", "- unclean a:1@3", "the next run begins with another GAP"},
		{"a gap, SYNCED acked", "gap b:2@20 synced@22 ack 0-2", "22 a:1@3 b:2@20", "the snapshot had all that exist"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newStore()
			first := newTracker(t, s, &checkpoint.Options{NoWriteAhead: true})
			newFeeder(t, begin(t, first, widgets())).run("snapshot a:1@3 synced@9 ack 0-1 b:2@10")
			noError(t, first.Close())
			isSaved(t, s, "9 unclean a:1@3", "the first run")
			tracker := newTracker(t, s, nil)
			runScript(t, tracker, widgets(), tc.script)
			flush(t, tracker)
			isSaved(t, s, tc.want, tc.why)
		})
	}
}

func TestEachNamespaceHasItsOwnPosition(t *testing.T) {
	const both = "x/snapshot y/snapshot x/a:1@3 y/a:2@4 x/synced@8 y/synced@9 " // events 0 to 3
	for _, tc := range []struct {
		name, script string
		want         string
		why          string
	}{
		{"one acked", both + "ack 0 ack 2", "x=8 y=- x/a:1@3", "y is within its snapshot"},
		{"both acked", both + "ack 3-0", "x=8 y=9 x/a:1@3 y/a:2@4", "each namespace has its own version"},
		{"a hole in one", both + "ack 0-3 y/b:3@10 x/b:4@11 y/b:3@12 ack 5-6", "x=11 y=9 x/a:1@3 x/b:4@11 y/a:2@4",
			"the other does not wait for it"},
		{"a gap in one", both + "ack 0-3 y/gap x/b:4@11 y/b:3@12 ack 4-6", "x=11 y=- x/a:1@3 x/b:4@11 y/a:2@4 y/b:3@12",
			"only y reads a snapshot"},
		{"deferred", "defer x/~a:1@3 y/~a:2@4 x/synced@8", "nothing", "the next run begins as this one"},
		{"deferred, one object noted", "defer x/?a:1@3 y/synced@8 ack 0", "x=- y=8",
			"the next run delivers the rest of x"},
		{"no longer deferred", "defer x/~a:1@3 x/synced@8 x/b:2@9 ack 0-1", "x=9 y=- x/a:1@3 x/b:2@9",
			"y does not hinder x"},
		{"both have begun", "defer x/~a:1@3 y/~a:2@4 x/synced@8 ack 0 y/synced@9 ack 1",
			"x=8 y=9 x/a:1@3 y/a:2@4", "noted objects count, too"},
	} {
		t.Run(tc.name, func(t *testing.T) { isPosition(t, "", []string{"x", "y"}, tc.script, tc.want, tc.why) })
	}
}

func TestRunResumesFromTheLastPosition(t *testing.T) {
	const left = "snapshot a:1@3 b:2@5 synced@9 ack 0-2"
	for _, tc := range []struct {
		name, first, script string
		want                string
		why                 string
	}{
		{"nothing new", left, "", "9 a:1@3 b:2@5", "nothing has changed"},
		{"live at once", left, "a:1@10 ack 0", "10 a:1@10 b:2@5", "it resumes at a version"},
		{"live, a hole", left, "a:1@10 b:2@11 ack 1", "9 a:1@3 b:2@5", "event 0 is not acked"},
		{"a bookmark", left, "bookmark@20", "20 a:1@3 b:2@5", "no event waits for an ack"},
		{"a gap", left, "gap -a:1@3 ack 0-1", "- b:2@5", "differences from the last run"},
		{"a snapshot, though nothing is missing", left, "snapshot a:1@10 c:3@11 ack 1", "- a:1@3 b:2@5 c:3@11",
			"a run with an end begins with a snapshot"},
		{"the rest of a snapshot", "snapshot a:1@3 b:2@5 synced@9 ack 1", "snapshot a:1@4 synced@12 ack 1", "- b:2@5",
			"a is not acked yet"},
		{"the rest of a snapshot, acked", "snapshot a:1@3 b:2@5 synced@9 ack 1", "snapshot a:1@4 synced@12 ack 1-0",
			"12 a:1@4 b:2@5", "everything has been delivered"},
		{"a run that resumes within a snapshot", "snapshot a:1@3 b:2@5 ack 1", "a:1@4 c:3@5 ack 1", "- b:2@5 c:3@5",
			"it needs no new beginning"},
	} {
		t.Run(tc.name, func(t *testing.T) { isPosition(t, tc.first, nil, tc.script, tc.want, tc.why) })
	}
}

// isPosition fails the test unless the position after a first and a second run is the wanted one.
func isPosition(t *testing.T, first string, namespaces []string, script, want, why string) {
	t.Helper()
	s := newStore()
	if first != "" {
		tracker := newTracker(t, s, nil)
		newFeeder(t, begin(t, tracker, widgets(namespaces...))).run(first)
		noError(t, tracker.Close())
	}
	tracker := newTracker(t, s, nil)
	runScript(t, tracker, widgets(namespaces...), script)
	flush(t, tracker)
	isSaved(t, s, want, why)
}

func TestSessionResumesFromTheLastCommit(t *testing.T) {
	s := newStore()
	tracker := newTracker(t, s, nil)
	session := begin(t, tracker, widgets())
	if p := session.Position(); p != nil {
		t.Errorf("the first run resumes from %v", p)
	}
	newFeeder(t, session).run("snapshot a:1@3 ?b:2@5 c:4@6 synced@9 ack 0")
	flush(t, tracker)
	session.End()
	next := begin(t, tracker, widgets())
	if diff := cmp.Diff("- a:1@3 b:2@5", text(next.Position())); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if p := next.Position(); p != nil {
		t.Errorf("the second call returns %v", p)
	}
	(*acks.Mark)(nil).Ack() // of an event without a checkpoint
}
