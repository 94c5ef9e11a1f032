package main

import (
	"strings"
	"testing"
	"time"

	"github.com/gvrwatch/gvrwatch/examples/relay/engine"
)

var unit = engine.Unit{Cluster: "c", Resource: "widgets"}

func position(owner string, epoch uint64, at time.Time) record {
	return record{time: at, position: &engine.Entry{Unit: unit, Position: engine.Position{Owner: owner, Epoch: epoch}}}
}

func object(typ engine.Type, uid, version string, epoch uint64) record {
	return record{epoch: epoch, message: &engine.Message{
		Unit: unit, Type: typ, UID: uid, ResourceVersion: version, ID: uid + "@" + version + "/" + string(typ),
	}}
}

func mark(typ engine.Type, version string) record {
	return record{epoch: 1, message: &engine.Message{Unit: unit, Type: typ, ResourceVersion: version}}
}

// TestJudge: each broken promise is found.
func TestJudge(t *testing.T) {
	begin := position("one", 1, time.Time{})
	again := object(engine.Modified, "a", "3", 1)
	again.message.ID = object(engine.Added, "a", "2", 1).message.ID
	for _, c := range []struct {
		why   string
		log   []record
		write []write
		exist map[string]string
		want  string // the beginning of the only finding; empty for none
	}{
		{
			why: "nothing is broken",
			log: []record{
				begin, object(engine.Added, "a", "2", 1), object(engine.Added, "b", "3", 1),
				position("", 1, time.Time{}), position("two", 2, time.Time{}),
				object(engine.Modified, "a", "9", 2), object(engine.Deleted, "b", "10", 2),
			},
			exist: map[string]string{"a": "9"},
		},
		{
			why: "a message twice", want: "twice",
			log:   []record{begin, object(engine.Added, "a", "2", 1), again},
			exist: map[string]string{"a": "3"},
		},
		{
			why: "a version that is older", want: "an older version",
			log:   []record{begin, object(engine.Added, "a", "10", 1), object(engine.Modified, "a", "9", 1)},
			exist: map[string]string{"a": "9"},
		},
		{
			why: "an object that is added again", want: "added again",
			log:   []record{begin, object(engine.Added, "a", "2", 1), object(engine.Added, "a", "3", 1)},
			exist: map[string]string{"a": "3"},
		},
		{
			why: "an object that was never added", want: "not added before",
			log:   []record{begin, object(engine.Modified, "a", "2", 1)},
			exist: map[string]string{"a": "2"},
		},
		{
			why: "something after a deletion", want: "after its deletion",
			log: []record{
				begin, object(engine.Added, "a", "2", 1), object(engine.Deleted, "a", "3", 1),
				object(engine.Modified, "a", "4", 1),
			},
			exist: map[string]string{"a": "4"},
		},
		{
			why: "a deletion that is missing", want: "unreported deletion",
			log: []record{begin, object(engine.Added, "a", "2", 1)},
		},
		{
			why: "an object that is missing", want: "missing",
			log:   []record{begin},
			exist: map[string]string{"a": "2"},
		},
		{
			why: "a state that is missing", want: "not the last state",
			log:   []record{begin, object(engine.Added, "a", "2", 1)},
			exist: map[string]string{"a": "5"},
		},
		{
			why: "a deletion that never happened", want: "exists, but is deleted",
			log:   []record{begin, object(engine.Added, "a", "2", 1), object(engine.Deleted, "a", "3", 1)},
			exist: map[string]string{"a": "2"},
		},
		{
			why: "two owners in an epoch", want: "two owners",
			log: []record{begin, position("two", 1, time.Time{})},
		},
		{
			why: "a position of an owner that was replaced", want: "an old owner",
			log: []record{begin, position("two", 2, time.Time{}), begin},
		},
		{
			why: "a message of an owner that was replaced", want: "an old owner",
			log:   []record{begin, position("two", 2, time.Time{}), object(engine.Added, "a", "2", 1)},
			exist: map[string]string{"a": "2"},
		},
		{
			why: "a state between two others that is missing", want: "lost: widgets uid a version 4",
			log: []record{
				begin, mark(engine.Synced, "1"), object(engine.Added, "a", "2", 1),
				object(engine.Modified, "a", "5", 1),
			},
			write: []write{{"widgets", "a", "2"}, {"widgets", "a", "4"}, {"widgets", "a", "5"}},
			exist: map[string]string{"a": "5"},
		},
		{
			why: "states that the lists have skipped",
			log: []record{
				begin, object(engine.Added, "a", "4", 1), mark(engine.Synced, "5"),
				object(engine.Modified, "a", "6", 1),
				mark(engine.Gap, ""), object(engine.Modified, "a", "9", 1), mark(engine.Synced, "9"),
			},
			write: []write{{"widgets", "a", "3"}, {"widgets", "a", "7"}},
			exist: map[string]string{"a": "9"},
		},
		{
			why: "a state after the list", want: "lost: widgets uid b version 10",
			log: []record{
				begin, object(engine.Added, "a", "4", 1), mark(engine.Synced, "5"), mark(engine.Gap, ""),
				mark(engine.Synced, "9"), object(engine.Modified, "a", "11", 1),
			},
			write: []write{{"widgets", "b", "10"}},
			exist: map[string]string{"a": "11"},
		},
	} {
		got := judge(c.log, c.write, c.exist)
		switch {
		case c.want == "" && len(got) > 0:
			t.Errorf("%s: found %q", c.why, got)
		case c.want != "" && (len(got) != 1 || !strings.HasPrefix(got[0], c.want)):
			t.Errorf("%s: found %q, want one that begins with %q", c.why, got, c.want)
		}
	}
}

func TestTakeover(t *testing.T) {
	at := func(seconds int) time.Time { return time.Unix(1000+int64(seconds), 0) }
	taken := []record{position("one", 1, at(0)), position("two", 2, at(9)), position("two", 2, at(20))}
	never := []record{position("one", 1, at(0)), {position: &engine.Entry{}, time: at(30)}}
	for _, c := range []struct {
		why    string
		log    []record
		killed string
		want   time.Duration
	}{
		{"taken 4 s after the end of the owner", taken, "one", 4 * time.Second},
		{"another replica's units do not count", taken, "three", 0},
		{"never taken", never, "one", 25 * time.Second},
	} {
		if got := takeover(c.log, c.killed, at(5)); got != c.want {
			t.Errorf("%s: %v, want %v", c.why, got, c.want)
		}
	}
}
