package streamtest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/internal/seedtest"
	"github.com/gvrwatch/gvrwatch/stream"
)

// ackSeeds is how many random programs with checkpoints are checked.
const ackSeeds = seedtest.Default(300)

// Nothing that a Tracker ever keeps is taken for broken: of one namespace or
// several, from any start, over several runs, coalesced or not, whatever is acked in
// whatever order and whenever it is committed. Nor is what the next run delivers. What
// is made of it by mistake is found.
func TestCheckCheckpointNoFalseAlarm(t *testing.T) {
	checked, spoiled := 0, 0
	for seed := range ackSeeds.All(t) {
		m := newModel(seed)
		m.still = true
		store := checkpoint.NewMemory()
		for last := 3; last >= 0; last-- {
			m.writes(6)
			before := load(t, store)
			m.opts.Now, m.opts.After, m.opts.From = false, "", resumeAt(before)
			switch start := m.IntN(4); {
			case before == nil && start == 0:
				m.opts.Now = true
			case before == nil && start == 1:
				m.opts.After = fmt.Sprint(m.version)
			}
			m.begin()
			m.run(5 + m.IntN(40))
			r := startAckRun(t, store, m)
			check := func() {
				t.Helper()
				checked++
				run := CheckpointRun{Before: before, After: r.saved(), Events: r.queue.popped, Acked: r.isAcked, Options: m.opts}
				if err := CheckCheckpoint(run); err != nil {
					t.Fatalf("seed %d: %v\n%s", seed, err, run.text())
				}
				spoiled += m.spoilCheckpoint(t, run)
			}
			for _, st := range m.steps {
				r.step(st)
				for n := m.IntN(3); n > 0; n-- {
					r.act()
				}
				if m.IntN(8) == 0 {
					check()
				}
			}
			for last == 0 && r.queue.pop() {
			}
			if last == 0 || m.IntN(2) == 0 {
				for i := range r.queue.popped {
					r.ack(i)
				}
			}
			check()
			opts := m.opts
			opts.Latest, opts.Settled = r.latest, last == 0
			if err := Check(m.h, r.queue.popped, &opts); err != nil {
				t.Fatalf("seed %d: %v\nbefore: %s\nevents:\n%s\nhistory:\n%s", seed, err, positionText(before), numbered(r.queue.popped), historyText(m.h))
			}
		}
		for _, o := range load(t, store).Objects {
			if o.ResourceVersion == "" {
				t.Errorf("seed %d: everything is acked, and %s is pending", seed, o.Name)
			}
		}
	}
	t.Logf("%d checkpoints, %d of them were spoiled", checked, spoiled)
}

func resumeAt(p *checkpoint.Position) *Resume {
	if p == nil {
		return nil
	}
	r := &Resume{ResourceVersions: p.ResourceVersions, Partial: p.Partial}
	for _, o := range p.Objects {
		r.Objects = append(r.Objects, KnownObject{o.NamespacedName(), o.UID, o.ResourceVersion})
	}
	return r
}

// spoilCheckpoint makes a right checkpoint a broken one, if it can, and wants that
// found. It returns how often it did.
func (m *model) spoilCheckpoint(t *testing.T, run CheckpointRun) int {
	t.Helper()
	if run.After == nil || m.opts.IndexNone || m.opts.After != "" || m.opts.Now || run.Before != nil && run.Before.Partial {
		return 0
	}
	p := *run.After
	p.Objects = slices.DeleteFunc(slices.Clone(p.Objects), func(o checkpoint.Object) bool { return o.ResourceVersion == "" })
	want := durable
	coalesced := slices.ContainsFunc(run.Events, func(ev stream.Event) bool { return ev.Coalesced > 0 })
	if i := m.firstUnneeded(run); i >= 0 && m.IntN(2) == 0 {
		acked := run.Acked
		run.Acked = func(j int) bool { return j != i && acked(j) }
		want = acknowledged
	} else if len(p.Objects) > 0 {
		i := m.IntN(len(p.Objects))
		switch o := &p.Objects[i]; m.IntN(4) {
		case 0:
			o.UID = "forged"
		case 1:
			o.ResourceVersion = "1000000"
		case 2:
			o.Name = "forged"
		case 3: // half a commit
			if p.ResourceVersions[o.Namespace] == "" && p.ResourceVersions[""] == "" || coalesced || m.opts.Namespaces != nil {
				return 0
			}
			p.Objects = slices.Delete(p.Objects, i, i+1)
		}
	} else {
		return 0
	}
	run.After = &p
	// What half a commit has may be what a later event made, too, which was not acked.
	if got := promisesOf(CheckCheckpoint(run)); !slices.Contains(got, want) && !slices.Contains(got, acknowledged) {
		t.Errorf("got %v, want %q\n%s", got, want, run.text())
	}
	return 1
}

// firstUnneeded returns a live event that the version that is kept is beyond, and -1 if
// there is none.
func (m *model) firstUnneeded(run CheckpointRun) int {
	version := run.After.ResourceVersions[""]
	for i, ev := range slices.Backward(run.Events) {
		if ev.Type == stream.Gap || ev.Type == stream.Synced {
			break
		}
		if ev.Object != nil && ev.Coalesced == 0 && !ev.Inferred && version != "" && !older(version, ev.ResourceVersion) {
			return i
		}
	}
	return -1
}

// ackStep is one call of a Progress.
type ackStep struct {
	ns          string
	hold, ahead bool // Hold; Ahead of the notes
	maybe       bool // MayBeKnown
	notes       []checkpoint.Change
	version     string
	partial     bool
	mark        bool // else Pass
	event       int  // of the mark; -1 for one that is acked at once
}

// ackRun is a run with a Tracker, whose events are taken and acked now and then.
type ackRun struct {
	*testing.T
	*model
	store    *checkpoint.Memory
	tracker  *checkpoint.Tracker
	session  *checkpoint.Session
	queue    latestQueue
	latest   bool
	strategy int
	acked    map[int]bool
}

func startAckRun(t *testing.T, store *checkpoint.Memory, m *model) *ackRun {
	t.Helper()
	tracker, err := checkpoint.NewTracker(store, &checkpoint.Options{Cluster: checkpoint.Cluster{UID: "c"}, Interval: 1 << 62, Events: 1 << 30})
	if err != nil {
		t.Fatal(err)
	}
	session, err := tracker.Begin(t.Context(), "k", checkpoint.Identity{Resource: "robots", Objects: !m.opts.IndexNone, Namespaces: m.opts.Namespaces})
	if err != nil {
		t.Fatal(err)
	}
	return &ackRun{T: t, model: m, store: store, tracker: tracker, session: session, latest: m.IntN(2) == 0, strategy: m.IntN(4), acked: map[int]bool{}}
}

func (r *ackRun) step(st ackStep) {
	p := r.session.Progress(st.ns)
	switch {
	case st.hold:
		p.Hold()
	case st.ahead:
		if err := p.Ahead(context.Background(), []checkpoint.Object{st.notes[0].Object}); err != nil {
			r.Fatal(err)
		}
		if st.maybe {
			p.MayBeKnown()
		}
	default:
		for _, c := range st.notes {
			p.Note(c)
		}
		if !st.mark {
			p.Pass(st.version, st.partial)
			return
		}
		mark := p.Mark(st.version, st.partial)
		if st.event < 0 {
			mark.Ack()
			return
		}
		ev := r.events[st.event]
		ev.Mark = mark
		r.queue.push(ev)
		for !r.latest && r.queue.pop() {
		}
	}
}

// act takes an event, or acks one.
func (r *ackRun) act() {
	n := len(r.queue.popped)
	if n == 0 || r.IntN(2) == 0 {
		r.queue.pop()
		return
	}
	i := r.IntN(n)
	switch {
	case r.strategy == 0: // in order
		for i = 0; i < n-1 && r.acked[i]; i++ {
		}
	case r.strategy == 1 && i%5 == 0: // some never
		return
	case r.strategy == 2: // the newest first
		i = n - 1
	}
	r.ack(i)
}

func (r *ackRun) ack(i int) {
	r.acked[i] = true
	r.queue.popped[i].Ack()
}

func (r *ackRun) isAcked(i int) bool { return r.acked[i] }

// saved commits, and returns what is there.
func (r *ackRun) saved() *checkpoint.Position {
	if err := r.tracker.Flush(r.Context()); err != nil {
		r.Fatal(err)
	}
	return load(r.T, r.store)
}

func load(t *testing.T, store *checkpoint.Memory) *checkpoint.Position {
	t.Helper()
	c, err := store.Load(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	if c == nil {
		return nil
	}
	return &c.Position
}

func positionText(p *checkpoint.Position) string {
	if p == nil {
		return "nothing"
	}
	s := fmt.Sprint(p.ResourceVersions)
	for _, o := range p.Objects {
		s += fmt.Sprintf(" %s(%s)@%s", o.NamespacedName(), o.UID, o.ResourceVersion)
	}
	return s
}

func (run CheckpointRun) text() string {
	acked := map[int]bool{}
	for i := range run.Events {
		if run.Acked(i) {
			acked[i] = true
		}
	}
	return fmt.Sprintf("before: %s\nafter:  %s\nacked:  %v\n%+v\nevents:\n%s", positionText(run.Before), positionText(run.After),
		slices.Sorted(maps.Keys(acked)), run.Options, numbered(run.Events))
}

// What the check says, and where.
func TestCheckCheckpoint(t *testing.T) {
	at := func(rv string, objects string) *checkpoint.Position {
		p := &checkpoint.Position{ResourceVersions: map[string]string{"": rv}}
		for _, ev := range eventsOf(t, objects) {
			p.Objects = append(p.Objects, checkpoint.Object{Namespace: ev.Object.GetNamespace(), Name: ev.Object.GetName(),
				UID: ev.Object.GetUID(), ResourceVersion: ev.ResourceVersion})
		}
		return p
	}
	const events = "ADDED a(u1)@3; ADDED b(u2)@5; SYNCED @9; MODIFIED a(u1)@12; DELETED b(u2)@14; GAP expired 14.."
	const rewound = "SYNCED @90; GAP rewound 90..50; SYNCED @50; ADDED a(u1)@60"
	const coalesced = "ADDED a(u1)@3; SYNCED @3; MODIFIED a(u1)@9 coalesced 1; ADDED b(u2)@6"
	const a, b, a12, a60 = "ADDED a(u1)@3;", "ADDED b(u2)@5;", "ADDED a(u1)@12;", "ADDED a(u1)@60"
	for _, tc := range []struct {
		why, events   string
		before, after *checkpoint.Position
		acked         string // by event; those that are left out are not
		opts          CheckOptions
		want          string
	}{
		{"nothing is kept", events, nil, nil, "", CheckOptions{}, ""},
		{"the last commits are lost", events, nil, nil, "xxxxx", CheckOptions{}, ""},
		{"as it was", events, at("2", "ADDED z(u9)@1"), at("2", "ADDED z(u9)@1"), "", CheckOptions{}, ""},
		{"within a snapshot, in any order", events, nil, at("", b), "-x", CheckOptions{}, ""},
		{"all of it", events, nil, at("9", a+b), "xxx", CheckOptions{}, ""},
		{"SYNCED is no change", events, nil, at("9", a+b), "xx", CheckOptions{}, ""},
		{"beyond a bookmark, which is no event", events, nil, at("11", a+b), "xxx", CheckOptions{}, ""},
		{"one that nobody has acked, besides", events, nil, at("9", a+b+"ADDED c(u3)@"), "xxx", CheckOptions{}, ""},
		{"the GAP is acked, and the rest of the snapshot is due", events, nil, at("", a12), "xxxxxx", CheckOptions{}, ""},
		{"versions only", events, nil, at("12", ""), "xxxx", CheckOptions{IndexNone: true}, ""},
		{"before a rewind", rewound, nil, at("90", ""), "x", CheckOptions{}, ""},
		{"in the new past", rewound, nil, at("50", ""), "xxx", CheckOptions{}, ""},
		{"a bookmark may have come so far again", rewound, nil, at("90", a60), "xxxx", CheckOptions{}, ""},
		{"an event that stands for others is newer than its place", coalesced, nil, at("5", "ADDED a(u1)@9"), "xxx", CheckOptions{Latest: true}, ""},
		{"a new object before the end of the old one is acked", "ADDED c(u4)@9; DELETED c(u3)@2 inferred; ADDED c(u5)@7",
			at("", "ADDED c(u3)@2"), at("", "ADDED c(u3)@2; ADDED c(u5)@7"), "--x", CheckOptions{}, ""},
		{"what another run keeps of another namespace", "", &checkpoint.Position{ResourceVersions: map[string]string{"y": "9"}},
			&checkpoint.Position{ResourceVersions: map[string]string{"y": "9"}}, "", CheckOptions{Namespaces: []string{"x"}}, ""},

		{"a bookmark after SYNCED, which is not acked", events, nil, at("10", a+b), "xx", CheckOptions{},
			"2 SYNCED @9: not acknowledged: it was not acked, and the checkpoint (at 10) is beyond it"},
		{"a live event is passed", events, nil, at("14", a12), "xxx-x", CheckOptions{},
			"3 MODIFIED a@12: not acknowledged: it was not acked, and the checkpoint (at 14) is beyond it"},
		{"the GAP has to be delivered again", events, nil, at("", a12), "xxxxx", CheckOptions{},
			"5 GAP expired 14..: not acknowledged: it was not acked, and the checkpoint (within a snapshot) is beyond it"},
		{"versions only, passed", events, nil, at("12", ""), "xxx", CheckOptions{IndexNone: true},
			"3 MODIFIED a@12: not acknowledged: it was not acked, and the checkpoint (at 12) is beyond it"},
		{"Now, before SYNCED: half a beginning is none", events, nil, at("", a12), "xx", CheckOptions{Now: true},
			"2 SYNCED @9: not acknowledged: it was not acked, and the checkpoint (within a snapshot) is beyond it"},
		{"beyond a SYNCED after a rewind", rewound, nil, at("51", ""), "xx", CheckOptions{},
			"2 SYNCED @50: not acknowledged: it was not acked, and the checkpoint (at 51) is beyond it"},
		{"the place of an event that stands for others is passed", coalesced, nil, at("7", "ADDED a(u1)@9; ADDED b(u2)@6"), "xx-x", CheckOptions{Latest: true},
			"2 MODIFIED a@9 coalesced 1: not acknowledged: it was not acked, and the checkpoint (at 7) is beyond it"},

		{"at 12 the object is another one", events, nil, at("12", a+b), "xxx", CheckOptions{},
			"3 the checkpoint: not durable: at 12: /a (u1) is kept at 3: not what had been delivered before 4 DELETED b@14"},
		{"half a commit", events, nil, at("9", b), "xxxxxx", CheckOptions{},
			"6 the checkpoint: not durable: at 9: /a (u1) is missing: not what had been delivered before 2 SYNCED @9"},
		{"no such version", events, nil, at("4", a), "xxxxxx", CheckOptions{},
			"6 the checkpoint: not durable: at 4: it fits no event"},
		{"the object is newer than the version", rewound, nil, at("55", a60), "xxxx", CheckOptions{},
			"4 the checkpoint: not durable: at 55: /a (u1) is kept at 60: not what had been delivered before 3 ADDED a@60"},
		{"what was there is gone", events, at("2", ""), nil, "", CheckOptions{}, "6 the checkpoint: not durable: it is gone"},
		{"another namespace has changed", "", nil, &checkpoint.Position{Objects: []checkpoint.Object{{Namespace: "y", Name: "q", UID: "u", ResourceVersion: "1"}}}, "",
			CheckOptions{Namespaces: []string{"x"}}, "0 the checkpoint: not durable: it has changed in a namespace that is not watched"},
	} {
		t.Run(tc.why, func(t *testing.T) {
			acked := func(i int) bool { return i < len(tc.acked) && tc.acked[i] == 'x' }
			err := CheckCheckpoint(CheckpointRun{Before: tc.before, After: tc.after, Events: eventsOf(t, tc.events), Acked: acked, Options: tc.opts})
			got := ""
			if err != nil {
				got = strings.TrimSpace(err.Error())
			}
			if got != tc.want {
				t.Errorf("got\n%s\nwant\n%s", got, tc.want)
			}
		})
	}
}
