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

// What is kept may be gone on from by the same sequence only.
func TestMismatch(t *testing.T) {
	of := func(change func(*checkpoint.Identity)) checkpoint.Identity {
		id := checkpoint.Identity{Group: "example.com", Resource: "widgets", StorageVersionHash: "hash", Namespaces: []string{"x", "y"},
			LabelSelector: "app=a", FieldSelector: "metadata.name=b", Objects: true}
		if change != nil {
			change(&id)
		}
		return id
	}
	same := of(nil)
	both := checkpoint.Cluster{UID: "uid-1", Address: "https://one"}
	for _, tc := range []struct {
		name          string
		saved, wanted checkpoint.Identity
		from, to      checkpoint.Cluster
		want          *checkpoint.MismatchError
		why           string
	}{
		{"the same", same, same, both, both, nil, "nothing differs"},
		{"another group", same, of(func(i *checkpoint.Identity) { i.Group, i.StorageVersionHash = "example.org", "" }), both, both,
			&checkpoint.MismatchError{Field: "resource", Saved: "widgets.example.com", Wanted: "widgets.example.org"}, "other objects"},
		{"another resource", same, of(func(i *checkpoint.Identity) { i.Resource, i.StorageVersionHash = "globes", "other" }), both, both,
			&checkpoint.MismatchError{Field: "resource", Saved: "widgets.example.com", Wanted: "globes.example.com"}, "other objects"},
		{"the core group", same, of(func(i *checkpoint.Identity) { i.Group, i.Resource, i.StorageVersionHash = "", "pods", "" }), both, both,
			&checkpoint.MismatchError{Field: "resource", Saved: "widgets.example.com", Wanted: "pods"}, "it has no name"},
		{"another group, the same storage", same, of(func(i *checkpoint.Identity) { i.Group = "example.org" }), both,
			both, nil, "the hash says that they are one in storage"},
		{"another storage version", same, of(func(i *checkpoint.Identity) { i.StorageVersionHash = "migrated" }), both,
			both, nil, "the objects are the same in another encoding"},
		{"no storage versions", of(func(i *checkpoint.Identity) { i.StorageVersionHash = "" }), of(func(i *checkpoint.Identity) { i.Group, i.StorageVersionHash = "example.org", "" }), both, both,
			&checkpoint.MismatchError{Field: "resource", Saved: "widgets.example.com", Wanted: "widgets.example.org"}, "two unknown hashes are not the same one"},
		{"fewer namespaces", same, of(func(i *checkpoint.Identity) { i.Namespaces = []string{"x"} }), both, both,
			&checkpoint.MismatchError{Field: "namespaces", Saved: "x,y", Wanted: "x"}, "objects of y would be told as gone, or never"},
		{"the whole cluster", same, of(func(i *checkpoint.Identity) { i.Namespaces = nil }), both, both,
			&checkpoint.MismatchError{Field: "namespaces", Saved: "x,y"}, "versions are kept by namespace"},
		{"another label selector", same, of(func(i *checkpoint.Identity) { i.LabelSelector = "" }), both, both,
			&checkpoint.MismatchError{Field: "label selector", Saved: "app=a"}, "other objects"},
		{"another field selector", same, of(func(i *checkpoint.Identity) { i.FieldSelector = "metadata.name=c" }), both, both,
			&checkpoint.MismatchError{Field: "field selector", Saved: "metadata.name=b", Wanted: "metadata.name=c"}, "other objects"},
		{"no index", same, of(func(i *checkpoint.Identity) { i.Objects = false }), both, both,
			&checkpoint.MismatchError{Field: "index", Saved: "objects", Wanted: "none"}, "nobody would keep the objects up to date"},

		{"another UID", same, same, both, checkpoint.Cluster{UID: "uid-2", Address: "https://one"},
			&checkpoint.MismatchError{Field: "cluster", Saved: "uid-1", Wanted: "uid-2"}, "a new cluster at the old address"},
		{"another address", same, same, both, checkpoint.Cluster{UID: "uid-1", Address: "https://two"}, nil,
			"the UID counts where both are known"},
		{"no UID any more, the address", same, same, both, checkpoint.Cluster{Address: "https://one"}, nil,
			"the address counts where one is not known"},
		{"no UID any more, another address", same, same, both, checkpoint.Cluster{Address: "https://two"},
			&checkpoint.MismatchError{Field: "cluster", Saved: "uid-1", Wanted: "https://two"}, "nothing says that it is the same"},
		{"a UID at last", same, same, checkpoint.Cluster{Address: "https://one"}, both, nil, "the address is the same"},
		{"addresses only", same, same, checkpoint.Cluster{Address: "https://one"},
			checkpoint.Cluster{Address: "https://two"},
			&checkpoint.MismatchError{Field: "cluster", Saved: "https://one", Wanted: "https://two"}, "nothing else is known"},
		{"UIDs only", same, same, checkpoint.Cluster{UID: "uid-1"}, checkpoint.Cluster{UID: "uid-2"},
			&checkpoint.MismatchError{Field: "cluster", Saved: "uid-1", Wanted: "uid-2"}, "two unknown addresses are not the same one"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newStore()
			first := newTracker(t, s, &checkpoint.Options{Cluster: tc.from})
			newTeller(t, begin(t, first, tc.saved)).run(prefixed(tc.saved, "snapshot", "a:1@3", "synced@9")).ackAll()
			noError(t, first.Close())
			before := saved(t, s)
			if before == "nothing" {
				t.Fatal("nothing has been kept to differ from")
			}

			_, err := acks.Begin(t.Context(), newTracker(t, s, &checkpoint.Options{Cluster: tc.to}), key, tc.wanted)
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
			isSaved(t, s, before, "what was kept has changed")

			reset, err := acks.Begin(t.Context(), newTracker(t, s, &checkpoint.Options{Cluster: tc.to, Reset: true}), key, tc.wanted)
			if err != nil {
				t.Fatal(err)
			}
			if began := reset.Position() == nil; began != (tc.want != nil) {
				t.Errorf("with Reset it goes on from %v", reset.Position())
			}
		})
	}
}

// prefixed is a script of words that are told in each namespace.
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

// Reset forgets what was there with the first commit, and not before.
func TestReset(t *testing.T) {
	s := newStore()
	first := newTracker(t, s, nil)
	newTeller(t, begin(t, first, widgets())).run("snapshot a:1@3 b:2@5 synced@9 ack 0-2")
	noError(t, first.Close())
	other := widgets()
	other.LabelSelector = "app=a"
	tracker := newTracker(t, s, &checkpoint.Options{Reset: true})
	l := newTeller(t, begin(t, tracker, other)).run("snapshot b:2@5 c:3@6 synced@12")
	flush(t, tracker)
	isSaved(t, s, "9 a:1@3 b:2@5", "before anything is acked")
	l.run("ack 1")
	s.fail(errNoSpace)
	if err := tracker.Flush(t.Context()); err == nil {
		t.Fatal("the commit went well")
	}
	l.run("ack 2")
	s.heal()
	flush(t, tracker)
	isSaved(t, s, "- c:3@6", "once something is")
	l.run("ack 0")
	flush(t, tracker)
	isSaved(t, s, "12 b:2@5 c:3@6", "in the end")
}

// A Reset while commits fail forgets what could not be committed, and comes to rest.
func TestResetWhileCommitsFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		tracker := newTracker(t, s, &checkpoint.Options{Reset: true})
		l := live(t, tracker)
		flush(t, tracker)
		s.fail(errNoSpace)
		l.run("a:1@10 ack 1")
		pass(time.Second)
		l.session.End()
		other := widgets()
		other.LabelSelector = "app=a"
		next := newTeller(t, begin(t, tracker, other)).run("snapshot b:2@5")
		pass(time.Hour)
		if st := next.session.Status(); st.Err != nil || st.Uncommitted {
			t.Errorf("nothing is to be committed, and the status is %+v", st)
		}
		s.heal()
		next.run("ack 0")
		pass(time.Second)
		isSaved(t, s, "- b:2@5", "in the store")
	})
}

// A key has one sequence at a time; what was told by one that has ended can be acked until the next one begins.
func TestKeysInUse(t *testing.T) {
	s := newStore()
	tracker := newTracker(t, s, nil)
	first := newTeller(t, begin(t, tracker, widgets())).run("snapshot a:1@3 b:2@5 synced@9 ack 0")
	_, err := acks.Begin(t.Context(), tracker, key, widgets())
	if want := fmt.Sprintf("%q is in use", key); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want an error with %q", err, want)
	}
	if _, err := acks.Begin(t.Context(), tracker, "another", widgets()); err != nil {
		t.Errorf("another key: %v", err)
	}
	first.session.End()
	first.run("ack 2")
	flush(t, tracker)
	isSaved(t, s, "- a:1@3", "after its end, an ack")
	first.run("ack 1")
	flush(t, tracker)
	isSaved(t, s, "9 a:1@3 b:2@5", "after its end, the last ack")
	second := newTeller(t, begin(t, tracker, widgets())).run("-a:1@10")
	second.session.End()
	third := newTeller(t, begin(t, tracker, widgets()))
	second.run("ack 0")
	flush(t, tracker)
	isSaved(t, s, "9 a:1@3 b:2@5", "an ack of the one before the last")
	third.run("b:2@11 ack 0")
	flush(t, tracker)
	isSaved(t, s, "11 a:1@3 b:2@11", "an ack of the last")
}

// What could not be committed of one sequence is part of what the next one of the key goes on from.
func TestUncommittedAcksAreCarriedOver(t *testing.T) {
	for _, tc := range []struct {
		name, script string
		from         string
		why          string
	}{
		{"live", "a:1@10 -b:2@11 c:3@12 ack 3-5", "12 a:1@10 c:3@12", "everything was acked"},
		{"a hole", "a:1@10 -b:2@11 c:3@12 ack 3 ack 5", "10 a:1@10 b:2@5", "up to the hole"},
		{"a snapshot", "gap a:1@10 -b:2@5 ack 3 ack 5", "- a:1@3", "the rest is told again"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStore()
				tracker := newTracker(t, s, nil)
				l := newTeller(t, begin(t, tracker, widgets())).run("snapshot a:1@3 b:2@5 synced@9 ack 0-2")
				flush(t, tracker)
				s.fail(errNoSpace)
				l.run(tc.script)
				time.Sleep(10 * time.Second)
				l.session.End()
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

// What is of another sequence is not carried over, committed or not.
func TestUncommittedAcksOfAnother(t *testing.T) {
	s := newStore()
	tracker := newTracker(t, s, nil)
	l := newTeller(t, begin(t, tracker, widgets())).run("snapshot a:1@3 synced@9 ack 0-1")
	l.session.End()
	other := widgets()
	other.FieldSelector = "metadata.name=b"
	s.fail(errNoSpace) // End has asked for a commit
	_, err := acks.Begin(t.Context(), tracker, key, other)
	var mismatch *checkpoint.MismatchError
	if !errors.As(err, &mismatch) {
		t.Errorf("%v, want a *MismatchError", err)
	}
	s.heal()
	flush(t, tracker)
	isSaved(t, s, "9 a:1@3", "the refusal lost what was acked")
}

// A sequence of which nothing is kept binds nobody.
func TestNothingKeptBindsNobody(t *testing.T) {
	for _, tc := range []struct{ name, script, why string }{
		{"nothing told", "", "nothing has been told"},
		{"nothing acked", "x/snapshot x/a:1@3 x/synced@9", "nothing was handled"},
		{"held", "x/hold x/~a:1@3 x/synced@9", "likewise, though something is known"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tracker := newTracker(t, newStore(), nil)
			l := newTeller(t, begin(t, tracker, widgets("x", "y"))).run(tc.script)
			l.session.End()
			if _, err := acks.Begin(t.Context(), tracker, key, widgets("z")); err != nil {
				t.Errorf("another sequence under the key: %v: %s", err, tc.why)
			}
		})
	}
}

// A UID that was known once is not forgotten by a run that may not read it.
func TestTheUIDIsKept(t *testing.T) {
	s := newStore()
	run := func(c checkpoint.Cluster) error {
		tracker := newTracker(t, s, &checkpoint.Options{Cluster: c})
		session, err := acks.Begin(t.Context(), tracker, key, widgets())
		if err != nil {
			return err
		}
		newTeller(t, session).run("snapshot a:1@3 synced@9 ack 0-1")
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

// TestKeys: which keys a checkpoint can have.
func TestKeys(t *testing.T) {
	tracker := newTracker(t, newStore(), nil)
	for _, tc := range []struct {
		key string
		ok  bool
		why string
	}{
		{"a", true, "one letter"},
		{"widgets.v1.example.com_Z-9", true, "every sort of character"},
		{strings.Repeat("x", 200), true, "the longest"},
		{"..a", true, "not a folder"},
		{"", false, "empty"},
		{strings.Repeat("x", 201), false, "too long"},
		{"a/b", false, "a folder"},
		{"a b", false, "a space"},
		{"ä", false, "no ASCII"},
		{"a\x00", false, "a zero byte"},
		{".", false, "a folder"},
		{"..", false, "a folder"},
	} {
		_, err := acks.Begin(t.Context(), tracker, tc.key, widgets())
		if acks.IsKey(tc.key) != tc.ok || (err == nil) != tc.ok {
			t.Errorf("%q (%s): %v", tc.key, tc.why, err)
		} else if !tc.ok && !strings.Contains(err.Error(), fmt.Sprintf("invalid checkpoint key %q", tc.key)) {
			t.Errorf("%q (%s): %v, want an error with the key", tc.key, tc.why, err)
		}
	}
}

// What the store says about loading, Begin says.
func TestBeginFails(t *testing.T) {
	corrupt := &checkpoint.CorruptError{Store: "x.db", Err: errors.New("bad checksum")}
	tracker := newTracker(t, unreadable{newStore(), corrupt}, nil)
	if _, err := acks.Begin(t.Context(), tracker, key, widgets()); !errors.Is(err, corrupt) {
		t.Errorf("%v, want what Load said", err)
	}
	if _, err := acks.Begin(t.Context(), tracker, key, widgets()); !errors.Is(err, corrupt) {
		t.Errorf("the second time: %v, want the same: the key is not in use", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := acks.Begin(ctx, newTracker(t, unreadable{newStore(), nil}, nil), key, widgets()); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want context.Canceled", err)
	}
	closed := newTracker(t, newStore(), nil)
	noError(t, closed.Close())
	if _, err := acks.Begin(t.Context(), closed, key, widgets()); !errors.Is(err, os.ErrClosed) {
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
