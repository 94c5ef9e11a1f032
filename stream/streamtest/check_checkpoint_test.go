package streamtest

import (
	"errors"
	"flag"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/stream"
)

// ackSeeds is how many random programs with checkpoints are checked.
var ackSeeds = flag.Int("ackseeds", 400, "random programs for CheckCheckpoint")

// Nothing that a Tracker ever keeps is taken for broken: of one namespace or
// several, from any start, over several runs, whatever is acked in whatever order
// and whenever it is committed.
func TestCheckCheckpointNoFalseAlarm(t *testing.T) {
	checked, forged := 0, 0
	for seed := range uint64(*ackSeeds) {
		namespaces := [][]string{{""}, {"x"}, {"x", "y"}, {"x", "y", "z"}}[seed%4]
		m := newAckModel(seed, namespaces...)
		store := checkpoint.NewMemory()
		for range 4 {
			for range m.IntN(6) {
				m.change()
			}
			before := load(t, store)
			kind := ""
			if before == nil {
				kind = []string{"", "", "now", "after"}[m.IntN(4)]
			}
			opts := m.options(kind, m.rev)
			m.begin(before, kind)
			m.run(5 + m.IntN(40))
			r := startAckRun(t, store, m.identity())
			check := func(events int) {
				t.Helper()
				after := r.saved(t)
				checked++
				err := CheckCheckpoint(CheckpointRun{Before: before, After: after, Events: m.events[:events], Acked: func(i int) bool { return r.acked[i] }, Options: opts})
				if err == nil && kind != "now" && kind != "after" && (before == nil || !before.Partial) {
					forged += m.forge(t, CheckpointRun{Before: before, After: after, Events: m.events[:events], Options: opts})
				}
				if err != nil {
					t.Fatalf("seed %d, %q: %v\nbefore: %s\nafter:  %s\nacked: %v\nevents:\n%s", seed, kind, err, positionText(before), positionText(after), r.acked, numbered(m.events[:events]))
				}
			}
			strategy, events := m.IntN(4), 0
			for _, s := range m.steps {
				r.tell(s)
				if s.mark && s.event == events {
					events++
				}
				for n := m.IntN(3); n > 0 && events > 0; n-- {
					i := m.IntN(events)
					switch {
					case strategy == 0: // in order
						for i = 0; i < events-1 && r.acked[i]; i++ {
						}
					case strategy == 1 && i%5 == 0: // some never
						continue
					case strategy == 2: // the newest first
						i = events - 1
					}
					r.ack(i)
				}
				if m.IntN(4) == 0 {
					check(events)
				}
			}
			if m.IntN(2) == 0 {
				for i := range m.events {
					r.ack(i)
				}
			}
			if m.IntN(2) == 0 { // else it is killed
				check(len(m.events))
			}
		}
	}
	t.Logf("%d checkpoints, %d of them were spoiled", checked, forged)
	if forged < *ackSeeds {
		t.Errorf("only %d were spoiled", forged)
	}
}

// forge spoils an object that is kept, if there is one, and wants that found. It
// returns how often it did.
func (m *ackModel) forge(t *testing.T, run CheckpointRun) int {
	t.Helper()
	if run.After == nil || len(run.After.Objects) == 0 {
		return 0
	}
	p := *run.After
	p.Objects = slices.Clone(p.Objects)
	o := &p.Objects[m.IntN(len(p.Objects))]
	if o.Hidden {
		return 0
	}
	switch m.IntN(3) {
	case 0:
		o.UID = "forged"
	case 1:
		o.ResourceVersion = "1000000"
	case 2:
		o.Name = "forged"
	}
	run.After = &p
	if err := CheckCheckpoint(run); !errors.Is(err, ErrDurable) {
		t.Errorf("%v, want ErrDurable of a forged object:\nbefore: %s\nafter:  %s\nevents:\n%s", err, positionText(run.Before), positionText(&p), numbered(run.Events))
	}
	return 1
}

// Of small runs all checkpoints that there can be are known: those are right, and
// what is made of two of them is not.
func TestCheckCheckpointFindsAllElse(t *testing.T) {
	right, passed, torn := 0, 0, 0
	for seed := range uint64(*ackSeeds / 4) {
		m := newAckModel(seed, "")
		var before *checkpoint.Position
		for range 1 + m.IntN(3) { // runs before this one, to their end
			for range m.IntN(4) {
				m.change()
			}
			m.begin(before, "")
			m.run(1 + m.IntN(8))
			r := startAckRun(t, storeOf(t, m.identity(), before), m.identity())
			for _, s := range m.steps {
				r.tell(s)
				if s.event >= 0 && m.IntN(5) > 0 {
					r.ack(s.event)
				}
			}
			before = r.saved(t)
		}
		for range m.IntN(4) {
			m.change()
		}
		m.begin(before, "")
		m.run(2 + m.IntN(4))
		shown := m.shown(before)

		// Of every instant and everything that can have been acked by then.
		reached := map[string][]uint{} // by which sets of acks
		var candidates []*checkpoint.Position
		for set := range uint(1) << len(m.events) {
			r := startAckRun(t, storeOf(t, m.identity(), before), m.identity())
			keep := func() {
				p := r.saved(t)
				c := canonical(p, shown)
				if reached[c] == nil {
					candidates = append(candidates, p)
				}
				reached[c] = append(reached[c], set)
			}
			keep()
			for _, s := range m.steps {
				r.tell(s)
				keep()
				if s.event >= 0 && set&(1<<s.event) != 0 {
					r.ack(s.event)
					keep()
				}
			}
			late := startAckRun(t, storeOf(t, m.identity(), before), m.identity())
			for _, s := range m.steps {
				late.tell(s)
			}
			for i := range slices.Backward(m.events) {
				if set&(1<<i) != 0 {
					late.ack(i)
				}
			}
			if c := canonical(late.saved(t), shown); !slices.Contains(reached[c], set) {
				t.Fatalf("seed %d: the order of acks matters: in reverse they come to %s", seed, c)
			}
		}
		for range 60 {
			candidates = append(candidates, m.mixed(candidates))
		}
		for _, after := range candidates {
			if after == nil {
				continue
			}
			text := canonical(after, shown)
			if !m.lanes[0].live && after.ResourceVersions[""] != "" && reached[text] == nil {
				continue // for all that was told the last snapshot may have ended at that
			}
			if before == nil && text == canonical(&checkpoint.Position{}, shown) {
				continue // nothing, or the beginning of a snapshot
			}
			for range 8 {
				set := uint(m.IntN(1 << len(m.events)))
				within := func(of uint) bool { return of&^set == 0 }
				err := CheckCheckpoint(CheckpointRun{Before: before, After: after, Events: m.events, Acked: func(i int) bool { return set&(1<<i) != 0 }})
				var want error
				switch {
				case slices.ContainsFunc(reached[text], within):
					right++
				case reached[text] != nil:
					want = ErrAcknowledged
					passed++
				default:
					want = ErrDurable
					torn++
				}
				if !errors.Is(err, want) {
					t.Fatalf("seed %d: got %v, want %v\nbefore: %s\nafter:  %s\nacked: %b\nevents:\n%s", seed, err, want, positionText(before), positionText(after), set, numbered(m.events))
				}
			}
		}
	}
	t.Logf("%d were right, %d passed an event, %d were torn", right, passed, torn)
	if right < *ackSeeds || passed < *ackSeeds || torn < *ackSeeds {
		t.Errorf("tried too few: %d right, %d passed, %d torn", right, passed, torn)
	}
}

// shown are the versions that show in the events.
func (m *ackModel) shown(before *checkpoint.Position) []int {
	var all []int
	add := func(rv string) {
		if n, err := strconv.Atoi(rv); err == nil {
			all = append(all, n)
		}
	}
	if before != nil {
		add(before.ResourceVersions[""])
	}
	live := before != nil && before.ResourceVersions[""] != ""
	for _, ev := range m.events {
		switch {
		case ev.Type == stream.Gap:
			live = false
		case ev.Type == stream.Synced, ev.Type == stream.Bookmark, live && !ev.Inferred:
			live = true
			add(ev.ResourceVersion)
		}
	}
	slices.Sort(all)
	return all
}

// canonical is a position with the last version that shows in the events, and
// without what is hidden.
func canonical(p *checkpoint.Position, shown []int) string {
	if p == nil {
		return "nothing"
	}
	c := checkpoint.Position{Objects: p.Objects, ResourceVersions: map[string]string{}}
	if rv := p.ResourceVersions[""]; rv != "" {
		n, _ := strconv.Atoi(rv)
		i, found := slices.BinarySearch(shown, n)
		if !found {
			i--
		}
		if i < 0 {
			c.ResourceVersions[""] = "before all"
		} else {
			c.ResourceVersions[""] = strconv.Itoa(shown[i])
		}
	}
	return positionText(&c)
}

// mixed is one made of two, or of the events.
func (m *ackModel) mixed(all []*checkpoint.Position) *checkpoint.Position {
	a, b := all[m.IntN(len(all))], all[m.IntN(len(all))]
	if a == nil || b == nil {
		return nil
	}
	p := &checkpoint.Position{ResourceVersions: a.ResourceVersions, Objects: slices.Clone(b.Objects)}
	switch m.IntN(4) {
	case 0: // the version of one, the objects of the other
	case 1: // one object less
		p.ResourceVersions = b.ResourceVersions
		if len(p.Objects) > 0 {
			i := m.IntN(len(p.Objects))
			p.Objects = slices.Delete(p.Objects, i, i+1)
		}
	case 2: // one object of another one
		p.ResourceVersions = b.ResourceVersions
		if len(a.Objects) > 0 {
			o := a.Objects[m.IntN(len(a.Objects))]
			p.Objects = slices.DeleteFunc(p.Objects, func(x checkpoint.Object) bool { return x.NamespacedName() == o.NamespacedName() })
			p.Objects = append(p.Objects, o)
		}
	case 3: // one that was replaced
		p.ResourceVersions = b.ResourceVersions
		if len(p.Objects) > 0 {
			p.Objects[m.IntN(len(p.Objects))].UID = "forged"
		}
	}
	return p
}

// A server that has gone back in time has lower versions than before.
func TestCheckCheckpointRewound(t *testing.T) {
	events := []stream.Event{
		{Type: stream.Synced, ResourceVersion: "90"},
		{Type: stream.Gap, Gap: &stream.GapDetails{Reason: stream.GapRewound, From: "90", To: "50"}},
		{Type: stream.Synced, ResourceVersion: "50"},
		{Type: stream.Added, ResourceVersion: "60", Object: identityAt("x", "a", "u", "60")},
	}
	a := []checkpoint.Object{{Namespace: "x", Name: "a", UID: "u", ResourceVersion: "60"}}
	for _, tc := range []struct {
		version string
		objects []checkpoint.Object
		acked   int // events, from the first on
		want    error
		why     string
	}{
		{"90", nil, 1, nil, "before the GAP"},
		{"90", nil, 4, nil, "the last commits were lost"},
		{"", nil, 2, nil, "after it"},
		{"50", nil, 3, nil, "in the new past"},
		{"60", a, 4, nil, "and on from there"},
		{"50", nil, 2, nil, "the SYNCED was not acked, but there was nothing else"},
		{"51", nil, 2, ErrAcknowledged, "beyond the SYNCED"},
		{"60", a, 3, ErrAcknowledged, "the object was not acked"},
		{"90", a, 4, nil, "a bookmark may have come so far again"},
		{"55", a, 4, ErrDurable, "the object is newer than the version"},
		{"91", nil, 1, ErrDurable, "beyond where the GAP begins, without what is told after it"},
	} {
		after := &checkpoint.Position{Objects: tc.objects, ResourceVersions: map[string]string{}}
		if tc.version != "" {
			after.ResourceVersions[""] = tc.version
		}
		err := CheckCheckpoint(CheckpointRun{After: after, Events: events, Acked: func(i int) bool { return i < tc.acked }})
		if !errors.Is(err, tc.want) {
			t.Errorf("%s, %d acked (%s): got %v, want %v", positionText(after), tc.acked, tc.why, err, tc.want)
		}
	}
}

// What the check says, and where.
func TestCheckCheckpoint(t *testing.T) {
	object := func(name, rv string) checkpoint.Object {
		return checkpoint.Object{Namespace: "x", Name: name, UID: "u", ResourceVersion: rv}
	}
	at := func(rv string, objects ...checkpoint.Object) *checkpoint.Position {
		p := &checkpoint.Position{Objects: objects, ResourceVersions: map[string]string{}}
		if rv != "" {
			p.ResourceVersions[""] = rv
		}
		return p
	}
	told := func(kind stream.Type, name, rv string) stream.Event {
		return stream.Event{Type: kind, ResourceVersion: rv, Object: identityAt("x", name, "u", rv)}
	}
	events := []stream.Event{
		told(stream.Added, "a", "3"), told(stream.Added, "b", "5"), {Type: stream.Synced, ResourceVersion: "9"},
		told(stream.Modified, "a", "12"), told(stream.Deleted, "b", "14"),
		{Type: stream.Gap, Gap: &stream.GapDetails{Reason: stream.GapExpired, From: "14"}},
	}
	hidden := object("h", "6")
	hidden.Hidden = true
	unacked := object("a", "2")
	unacked.UID, unacked.Unacked = "u2", true
	for _, tc := range []struct {
		name          string
		before, after *checkpoint.Position
		acked         string // by event; those that are left out are not
		opts          CheckOptions
		want          string
		why           string
	}{
		{"nothing acked", nil, nil, "", CheckOptions{}, "", "nothing is kept"},
		{"the last commits lost", nil, nil, "xxxxx", CheckOptions{}, "", "events come again"},
		{"a subset of the snapshot", nil, at("", object("b", "5")), "-x", CheckOptions{}, "", "in any order"},
		{"all of it", nil, at("9", object("a", "3"), object("b", "5")), "xxx", CheckOptions{}, "", "the end of a snapshot"},
		{"beyond a bookmark", nil, at("11", object("a", "3"), object("b", "5")), "xxx", CheckOptions{}, "", "it is no event"},
		{"what is hidden", nil, at("9", object("a", "3"), object("b", "5"), hidden), "xxx", CheckOptions{}, "", "it is no event"},
		{"what is not acked, ahead", nil, at("9", object("a", "3"), object("b", "5"), unacked), "xxx", CheckOptions{}, "", "it may be there besides"},
		{"GAP acked", nil, at("", object("a", "12")), "xxxxxx", CheckOptions{}, "", "the rest of the snapshot is due"},
		{"as it was", at("2", object("z", "1")), at("2", object("z", "1")), "", CheckOptions{}, "", "the last commits are lost"},
		{"versions only", nil, at("12"), "xxxx", CheckOptions{IndexNone: true}, "", "no objects are kept"},

		{"SYNCED not acked", nil, at("9", object("a", "3"), object("b", "5")), "xx", CheckOptions{}, "", "it tells no change"},
		{"SYNCED passed", nil, at("10", object("a", "3"), object("b", "5")), "xx", CheckOptions{},
			"2 SYNCED @9: an event was passed that was not acked: it was not acked, and the checkpoint (at 10) is beyond it", "a bookmark after it"},
		{"a live event passed", nil, at("14", object("a", "12")), "xxx-x", CheckOptions{},
			"3 MODIFIED x/a@12: an event was passed that was not acked: it was not acked, and the checkpoint (at 14) is beyond it", "the one after it was acked"},
		{"by its version only", nil, at("12", object("a", "3"), object("b", "5")), "xxx", CheckOptions{},
			"3 the checkpoint: a checkpoint that nobody committed: at 12: x/a (u) is kept at 3: not what had been told before 4 DELETED x/b@14", "at 12 the object is another one"},
		{"GAP passed", nil, at("", object("a", "12")), "xxxxx", CheckOptions{},
			"5 GAP expired 14..: an event was passed that was not acked: it was not acked, and the checkpoint (within a snapshot) is beyond it", "it has to be told again"},
		{"versions only, passed", nil, at("12"), "xxx", CheckOptions{IndexNone: true},
			"3 MODIFIED x/a@12: an event was passed that was not acked: it was not acked, and the checkpoint (at 12) is beyond it", "12 is not handled"},

		{"Now, before SYNCED", nil, at("", object("a", "12")), "xx", CheckOptions{Now: true},
			"2 SYNCED @9: an event was passed that was not acked: it was not acked, and the checkpoint (within a snapshot) is beyond it", "half a beginning is none"},

		{"gone", at("2"), nil, "", CheckOptions{}, "6 the checkpoint: a checkpoint that nobody committed: it is gone", "what was there is not there"},
		{"an object is missing", nil, at("9", object("b", "5")), "xxxxxx", CheckOptions{},
			"6 the checkpoint: a checkpoint that nobody committed: at 9: x/a is missing: not what had been told before 2 SYNCED @9", "half a commit"},
		{"a version in a snapshot", nil, at("4", object("a", "3")), "xxxxxx", CheckOptions{},
			"6 the checkpoint: a checkpoint that nobody committed: at 4: x/a (u) is kept at 3: not what had been told at the end", "no such version"},
		{"an object twice", nil, at("9", object("a", "3"), object("a", "3"), object("b", "5")), "xxx", CheckOptions{},
			"6 the checkpoint: a checkpoint that nobody committed: it has x/a twice", "a name has one object"},
		{"another namespace's object", nil, &checkpoint.Position{Objects: []checkpoint.Object{{Namespace: "y", Name: "q", UID: "u", ResourceVersion: "1"}}}, "", CheckOptions{Namespaces: []string{"x"}},
			"0 the checkpoint: a checkpoint that nobody committed: it has y/q, whose namespace is not watched", "foreign"},
		{"another namespace's version", nil, &checkpoint.Position{ResourceVersions: map[string]string{"y": "9"}}, "", CheckOptions{Namespaces: []string{"x"}},
			"0 the checkpoint: a checkpoint that nobody committed: it has a version of namespace \"y\", which is not watched by itself", "foreign"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			acked := func(i int) bool { return i < len(tc.acked) && tc.acked[i] == 'x' }
			events := events
			if len(tc.opts.Namespaces) > 0 {
				events = nil // they are of the whole cluster
			}
			err := CheckCheckpoint(CheckpointRun{Before: tc.before, After: tc.after, Events: events, Acked: acked, Options: tc.opts})
			got := ""
			if err != nil {
				got = err.Error()
			}
			if got != tc.want {
				t.Errorf("%s: got\n%s\nwant\n%s", tc.why, strings.TrimSpace(got), tc.want)
			}
		})
	}
}
