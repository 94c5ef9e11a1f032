package acks_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/internal/acks"
)

func TestOnlyTheSameIdentityResumes(t *testing.T) {
	type identity = checkpoint.Identity
	of := func(change func(*identity)) identity {
		id := identity{
			Group: "example.com", Resource: "widgets", StorageVersionHash: "hash", Namespaces: []string{"x", "y"},
			LabelSelector: "app=a", FieldSelector: "metadata.name=b",
		}
		if change != nil {
			change(&id)
		}
		return id
	}
	same := of(nil)
	differs := func(field, saved, wanted string) *checkpoint.MismatchError {
		return &checkpoint.MismatchError{Field: field, Saved: saved, Wanted: wanted}
	}
	both := checkpoint.Cluster{UID: "uid-1", Address: "https://one"}
	for _, tc := range []struct {
		name          string
		saved, wanted checkpoint.Identity
		from, to      checkpoint.Cluster
		want          *checkpoint.MismatchError
		why           string
	}{
		{"the same", same, same, both, both, nil, "no difference"},
		{"another group", same, of(func(i *identity) { i.Group, i.StorageVersionHash = "example.org", "" }), both, both,
			differs("resource", "widgets.example.com", "widgets.example.org"), "the objects differ"},
		{"another resource", same, of(func(i *identity) { i.Resource, i.StorageVersionHash = "globes", "other" }),
			both, both,
			differs("resource", "widgets.example.com", "globes.example.com"), "the objects differ"},
		{"the core group", same, of(func(i *identity) { i.Group, i.Resource, i.StorageVersionHash = "", "pods", "" }),
			both, both,
			differs("resource", "widgets.example.com", "pods"), "the core group has no name"},
		{"another group, the same storage", same, of(func(i *identity) { i.Group = "example.org" }), both,
			both, nil, "the same hash means the same storage"},
		{"another storage version", same, of(func(i *identity) { i.StorageVersionHash = "migrated" }), both,
			both, nil, "the objects are the same in another encoding"},
		{"no storage versions", of(func(i *identity) { i.StorageVersionHash = "" }),
			of(func(i *identity) { i.Group, i.StorageVersionHash = "example.org", "" }), both, both,
			differs("resource", "widgets.example.com", "widgets.example.org"), "two unknown hashes are not the same"},
		{"fewer namespaces", same, of(func(i *identity) { i.Namespaces = []string{"x"} }), both, both,
			differs("namespaces", "x,y", "x"), "objects of y would be reported as deleted, or never"},
		{"the whole cluster", same, of(func(i *identity) { i.Namespaces = nil }), both, both,
			differs("namespaces", "x,y", ""), "each namespace has a version"},
		{"another label selector", same, of(func(i *identity) { i.LabelSelector = "" }), both, both,
			differs("label selector", "app=a", ""), "the objects differ"},
		{"another field selector", same, of(func(i *identity) { i.FieldSelector = "metadata.name=c" }), both, both,
			differs("field selector", "metadata.name=b", "metadata.name=c"), "the objects differ"},
		{"a shard", same, of(func(i *identity) { i.Shard = "0-7" }), both, both,
			differs("shard", "", "0-7"), "objects of other shards would be reported as deleted, or never"},
		{"another shard", of(func(i *identity) { i.Shard = "0-7" }), of(func(i *identity) { i.Shard = "8-f" }), both,
			both, differs("shard", "0-7", "8-f"), "the objects differ"},
		{"the same shard", of(func(i *identity) { i.Shard = "0-7" }), of(func(i *identity) { i.Shard = "0-7" }), both,
			both, nil, "no difference"},

		{"another UID", same, same, both, checkpoint.Cluster{UID: "uid-2", Address: "https://one"},
			differs("cluster", "uid-1", "uid-2"), "a new cluster at the old address"},
		{"another address", same, same, both, checkpoint.Cluster{UID: "uid-1", Address: "https://two"}, nil,
			"the UID counts where both are known"},
		{"no UID any more, the same address", same, same, both, checkpoint.Cluster{Address: "https://one"}, nil,
			"the address counts where one is not known"},
		{"no UID any more, another address", same, same, both, checkpoint.Cluster{Address: "https://two"},
			differs("cluster", "uid-1", "https://two"), "it may be another cluster"},
		{"a UID for the first time", same, same, checkpoint.Cluster{Address: "https://one"}, both, nil,
			"the address is the same"},
		{"addresses only", same, same, checkpoint.Cluster{Address: "https://one"},
			checkpoint.Cluster{Address: "https://two"},
			differs("cluster", "https://one", "https://two"), "the address is all that is known"},
		{"UIDs only", same, same, checkpoint.Cluster{UID: "uid-1"}, checkpoint.Cluster{UID: "uid-2"},
			differs("cluster", "uid-1", "uid-2"), "two unknown addresses are not the same"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newStore()
			first := newTracker(t, s, &checkpoint.Options{Cluster: tc.from})
			newFeeder(t, begin(t, first, tc.saved)).run(prefixed(tc.saved, "snapshot", "a:1@3", "synced@9")).ackAll()
			noError(t, first.Close())
			before := saved(t, s)
			if before == "nothing" {
				t.Fatal("the first run has committed nothing")
			}

			other := newTracker(t, s, &checkpoint.Options{Cluster: tc.to})
			_, err := acks.Begin(t.Context(), other, key, tc.wanted, false)
			var got *checkpoint.MismatchError
			if err != nil && !errors.As(err, &got) {
				t.Fatalf("%v, want a *MismatchError", err)
			}
			if tc.want != nil {
				tc.want.Key = key
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s: -want +got:\n%s", tc.why, diff)
			}
			isSaved(t, s, before, "the checkpoint has changed")

			tracker := newTracker(t, s, &checkpoint.Options{Cluster: tc.to, Reset: true})
			reset, err := acks.Begin(t.Context(), tracker, key, tc.wanted, false)
			if err != nil {
				t.Fatal(err)
			}
			if began := reset.Position() == nil; began != (tc.want != nil) {
				t.Errorf("with Reset it resumes from %v", reset.Position())
			}
		})
	}
}

// prefixed returns a script with the words for each namespace.
func prefixed(id checkpoint.Identity, words ...string) string {
	namespaces := id.Namespaces
	if len(namespaces) == 0 {
		return strings.Join(words, " ")
	}
	var all []string
	for _, n := range namespaces {
		for _, w := range words {
			all = append(all, n+"/"+w)
		}
	}
	return strings.Join(all, " ")
}

// Reset removes the old checkpoint with the first commit, not before.
func TestResetWaitsForTheFirstCommit(t *testing.T) {
	s := newStore()
	first := newTracker(t, s, nil)
	newFeeder(t, begin(t, first, widgets())).run("snapshot a:1@3 b:2@5 synced@9 ack 0-2")
	noError(t, first.Close())
	other := widgets()
	other.LabelSelector = "app=a"
	tracker := newTracker(t, s, &checkpoint.Options{Reset: true})
	fd := newFeeder(t, begin(t, tracker, other)).run("snapshot b:2@5 c:3@6 synced@12")
	flush(t, tracker)
	isSaved(t, s, "9 a:1@3 b:2@5", "before anything is acked")
	fd.run("ack 1")
	s.fail(errNoSpace)
	if err := tracker.Flush(t.Context()); err == nil {
		t.Fatal("the commit succeeded")
	}
	fd.run("ack 2")
	s.heal()
	flush(t, tracker)
	isSaved(t, s, "- c:3@6", "after an ack")
	fd.run("ack 0")
	flush(t, tracker)
	isSaved(t, s, "12 b:2@5 c:3@6", "in the end")
}

// Reset discards acks also while commits fail.
func TestResetDiscardsUncommittedAcks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		tracker := newTracker(t, s, &checkpoint.Options{Reset: true})
		fd := live(t, tracker)
		flush(t, tracker)
		s.fail(errNoSpace)
		fd.run("a:1@10 ack 1")
		pass(time.Second)
		fd.session.End()
		other := widgets()
		other.LabelSelector = "app=a"
		next := newFeeder(t, begin(t, tracker, other)).run("snapshot b:2@5")
		pass(time.Hour)
		if st := next.session.Status(); st.Err != nil || st.Uncommitted {
			t.Errorf("there is nothing to commit, but Status is %+v", st)
		}
		s.heal()
		next.run("ack 0")
		pass(time.Second)
		isSaved(t, s, "- b:2@5", "in the store")
	})
}

// Events of an ended session can be acked until the next one begins.
func TestKeyHasOneSessionAtATime(t *testing.T) {
	s := newStore()
	tracker := newTracker(t, s, nil)
	first := newFeeder(t, begin(t, tracker, widgets())).run("snapshot a:1@3 b:2@5 synced@9 ack 0")
	_, err := acks.Begin(t.Context(), tracker, key, widgets(), false)
	if want := fmt.Sprintf("%q is in use", key); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want an error with %q", err, want)
	}
	if _, err := acks.Begin(t.Context(), tracker, "another", widgets(), false); err != nil {
		t.Errorf("another key: %v", err)
	}
	first.session.End()
	first.run("ack 2")
	flush(t, tracker)
	isSaved(t, s, "- a:1@3", "after its end, an ack")
	first.run("ack 1")
	flush(t, tracker)
	isSaved(t, s, "9 a:1@3 b:2@5", "after its end, the last ack")
	second := newFeeder(t, begin(t, tracker, widgets())).run("-a:1@10")
	second.session.End()
	third := newFeeder(t, begin(t, tracker, widgets()))
	second.run("ack 0")
	flush(t, tracker)
	isSaved(t, s, "9 a:1@3 b:2@5", "an ack of the one before the last")
	third.run("b:2@11 ack 0")
	flush(t, tracker)
	isSaved(t, s, "11 a:1@3 b:2@11", "an ack of the last")
}

// TestUncommittedAcksAreCarriedOver: the next session of a key resumes from acks that could not be committed.
func TestUncommittedAcksAreCarriedOver(t *testing.T) {
	for _, tc := range []struct {
		name, script string
		from         string
		why          string
	}{
		{"live", "a:1@10 -b:2@11 c:3@12 ack 3-5", "12 a:1@10 c:3@12", "everything was acked"},
		{"a hole", "a:1@10 -b:2@11 c:3@12 ack 3 ack 5", "10 a:1@10 b:2@5", "up to the hole"},
		{"a snapshot", "gap a:1@10 -b:2@5 ack 3 ack 5", "- a:1@3", "the next run delivers the rest"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStore()
				tracker := newTracker(t, s, nil)
				fd := newFeeder(t, begin(t, tracker, widgets())).run("snapshot a:1@3 b:2@5 synced@9 ack 0-2")
				flush(t, tracker)
				s.fail(errNoSpace)
				fd.run(tc.script)
				time.Sleep(10 * time.Second)
				fd.session.End()
				next := begin(t, tracker, widgets())
				if diff := cmp.Diff(tc.from, text(next.Position())); diff != "" {
					t.Errorf("%s: -want +got:\n%s", tc.why, diff)
				}
				isSaved(t, s, "9 a:1@3 b:2@5", "in the store")
				s.heal()
				pass(time.Minute)
				isSaved(t, s, tc.from, "committed by the next")
			})
		})
	}
}

func TestAnotherIdentityGetsNoUncommittedAcks(t *testing.T) {
	s := newStore()
	tracker := newTracker(t, s, nil)
	fd := newFeeder(t, begin(t, tracker, widgets())).run("snapshot a:1@3 synced@9 ack 0-1")
	fd.session.End()
	other := widgets()
	other.FieldSelector = "metadata.name=b"
	s.fail(errNoSpace) // End has asked for a commit
	_, err := acks.Begin(t.Context(), tracker, key, other, false)
	var mismatch *checkpoint.MismatchError
	if !errors.As(err, &mismatch) {
		t.Errorf("%v, want a *MismatchError", err)
	}
	s.heal()
	flush(t, tracker)
	isSaved(t, s, "9 a:1@3", "the refusal lost what was acked")
}

func TestUncommittedIdentityRestrictsNoSession(t *testing.T) {
	for _, tc := range []struct{ name, script, why string }{
		{"nothing delivered", "", "there is nothing to commit"},
		{"nothing acked", "x/snapshot x/a:1@3 x/synced@9", "nothing was acked"},
		{"deferred", "defer x/~a:1@3 x/+b:2@4 x/synced@9", "nothing was acked, although objects were noted"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tracker := newTracker(t, newStore(), nil)
			runScript(t, tracker, widgets("x", "y"), tc.script).End()
			if _, err := acks.Begin(t.Context(), tracker, key, widgets("z"), false); err != nil {
				t.Errorf("another sequence under the key: %v: %s", err, tc.why)
			}
		})
	}
}

func TestUnreadableClusterUIDKeepsTheSavedOne(t *testing.T) {
	s := newStore()
	run := func(c checkpoint.Cluster) error {
		tracker := newTracker(t, s, &checkpoint.Options{Cluster: c})
		session, err := acks.Begin(t.Context(), tracker, key, widgets(), false)
		if err != nil {
			return err
		}
		newFeeder(t, session).run("snapshot a:1@3 synced@9 ack 0-1")
		return tracker.Close()
	}
	for _, c := range []checkpoint.Cluster{{UID: "uid-1", Address: "https://one"}, {Address: "https://one"}} {
		noError(t, run(c))
	}
	err := run(checkpoint.Cluster{UID: "uid-2", Address: "https://one"})
	var mismatch *checkpoint.MismatchError
	if !errors.As(err, &mismatch) || mismatch.Saved != "uid-1" {
		t.Errorf("%v, want a *MismatchError: the address leads to another cluster now", err)
	}
}

func TestBeginRefusesInvalidKeys(t *testing.T) {
	tracker := newTracker(t, newStore(), nil)
	for _, tc := range []struct {
		key string
		ok  bool
		why string
	}{
		{"a", true, "one letter"},
		{"widgets.v1.example.com_Z-9", true, "every kind of character"},
		{strings.Repeat("x", 200), true, "the longest"},
		{"..a", true, "the prefix '..' is allowed"},
		{"", false, "empty"},
		{strings.Repeat("x", 201), false, "too long"},
		{"a/b", false, "a slash"},
		{"a b", false, "a space"},
		{"ä", false, "not ASCII"},
		{"a\x00", false, "a zero byte"},
		{".", false, "names a folder"},
		{"..", false, "names a folder"},
	} {
		_, err := acks.Begin(t.Context(), tracker, tc.key, widgets(), false)
		if acks.IsKey(tc.key) != tc.ok || (err == nil) != tc.ok {
			t.Errorf("%q (%s): %v", tc.key, tc.why, err)
		} else if !tc.ok && !strings.Contains(err.Error(), fmt.Sprintf("invalid checkpoint key %q", tc.key)) {
			t.Errorf("%q (%s): %v, want an error with the key", tc.key, tc.why, err)
		}
	}
}

func TestBeginReturnsErrorsOfTheStore(t *testing.T) {
	corrupt := &checkpoint.CorruptError{Store: "x.db", Err: errors.New("bad checksum")}
	tracker := newTracker(t, unreadable{newStore(), corrupt}, nil)
	if _, err := acks.Begin(t.Context(), tracker, key, widgets(), false); !errors.Is(err, corrupt) {
		t.Errorf("%v, want the error of Load", err)
	}
	if _, err := acks.Begin(t.Context(), tracker, key, widgets(), false); !errors.Is(err, corrupt) {
		t.Errorf("the second time: %v, want the same: the key is not in use", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	tracker = newTracker(t, unreadable{newStore(), nil}, nil)
	if _, err := acks.Begin(ctx, tracker, key, widgets(), false); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want context.Canceled", err)
	}
	closed := newTracker(t, newStore(), nil)
	noError(t, closed.Close())
	if _, err := acks.Begin(t.Context(), closed, key, widgets(), false); !errors.Is(err, os.ErrClosed) {
		t.Errorf("after Close: %v, want os.ErrClosed", err)
	}
}

type unreadable struct {
	*store
	err error
}

func (u unreadable) Load(ctx context.Context, _ string) (*checkpoint.Checkpoint, error) {
	return nil, errors.Join(u.err, ctx.Err())
}
