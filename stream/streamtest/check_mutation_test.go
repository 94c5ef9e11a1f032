package streamtest_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gvrwatch/gvrwatch/internal/friend"
	"github.com/gvrwatch/gvrwatch/internal/testing/oracle"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

// corruption breaks a recording at event i, or returns nil if that is impossible or undetectable.
type corruption struct {
	name    string
	corrupt func(m *model, i int) []stream.Event
	want    []string // any of these promises; nil accepts any
	rewound bool     // want applies even if the server went back
	latest  bool     // also applied to the coalesced recording
}

var corruptions = []corruption{
	{name: "drop an event", corrupt: func(m *model, i int) []stream.Event {
		ev := m.events[i]
		// A change that another follows before SYNCED need not be delivered. Nor need an object of a server that went
		// back.
		vague := m.opts.After != ""
		undone := func(ev stream.Event) bool { return ev.Gap != nil && ev.Gap.Reason == stream.GapRewound }
		if ev.Object == nil || m.vague() || vague && len(m.h.Rewinds) > 0 ||
			slices.ContainsFunc(m.events[i:], undone) ||
			!m.live[i] && (ev.Type == stream.Modified || vague || m.opts.Now || len(m.clients) > 1) {
			return nil
		}
		return slices.Delete(m.copied(), i, i+1)
	}, want: []string{complete, removed, resumed, truthful}},
	{name: "drop the last event of an object", corrupt: func(m *model, i int) []stream.Event {
		ev := m.events[i]
		if ev.Object == nil || m.vague() || m.opts.After != "" || len(m.h.Rewinds) > 0 ||
			len(m.clients) > 1 ||
			slices.ContainsFunc(m.events[i+1:], func(later stream.Event) bool {
				return later.Object != nil && keyOf(later.Object) == keyOf(ev.Object)
			}) {
			return nil
		}
		return slices.Delete(m.copied(), i, i+1)
	}, want: []string{complete, removed, resumed, truthful}, latest: true},
	{name: "deliver an event twice", corrupt: func(m *model, i int) []stream.Event {
		if m.events[i].Object == nil || m.vague() {
			return nil
		}
		return slices.Insert(m.copied(), i, m.events[i])
	}, want: []string{unique, truthful}},
	{name: "swap two live events", corrupt: func(m *model, i int) []stream.Event {
		if i == 0 || m.vague() || m.events[i].Object == nil || m.events[i-1].Object == nil ||
			!m.live[i] || !m.live[i-1] || m.events[i].Namespace != m.events[i-1].Namespace {
			return nil
		}
		return m.swapped(i)
	}, want: []string{ordered}},
	{name: "swap a removal and what replaces it", corrupt: func(m *model, i int) []stream.Event {
		if i == 0 || m.events[i].Type != stream.Added || m.events[i-1].Type != stream.Deleted ||
			keyOf(m.events[i].Object) != keyOf(m.events[i-1].Object) {
			return nil
		}
		return m.swapped(i)
	}, want: []string{removed, truthful, unique, announced, ordered}, latest: true},
	{name: "change the type", corrupt: func(m *model, i int) []stream.Event {
		if m.events[i].Object == nil || m.vague() || m.opts.After != "" || len(m.clients) > 1 {
			return nil
		}
		types := []stream.Type{stream.Added, stream.Modified, stream.Deleted, "PATCHED"}
		types = slices.DeleteFunc(types, func(t stream.Type) bool { return t == m.events[i].Type })
		events := m.copied()
		events[i].Type = types[m.IntN(len(types))]
		return events
	}},
	{name: "change the uid", corrupt: func(m *model, i int) []stream.Event {
		return m.changed(i, func(u *unstructured.Unstructured) { u.SetUID("forged") })
	}, want: []string{truthful, removed}, latest: true},
	{name: "change the name", corrupt: func(m *model, i int) []stream.Event {
		return m.changed(i, func(u *unstructured.Unstructured) { u.SetName("forged") })
	}, want: []string{truthful}, latest: true},
	{name: "change the content", corrupt: func(m *model, i int) []stream.Event {
		return m.changed(i, func(u *unstructured.Unstructured) { u.Object["spec"] = map[string]any{"n": int64(-1)} })
	}, want: []string{truthful, announced}, latest: true},
	{name: "change the version", corrupt: func(m *model, i int) []stream.Event {
		if m.events[i].Envelope(friend.Access{}).Coalesced > 0 && m.events[i].Inferred {
			return nil
		}
		events := m.changed(i, func(u *unstructured.Unstructured) { u.SetResourceVersion("1000000") })
		if events != nil {
			events[i].ResourceVersion = "1000000"
		}
		return events
	}, want: []string{truthful, monotonic, announced}, latest: true},
	{name: "invert Inferred", corrupt: func(m *model, i int) []stream.Event {
		if m.events[i].Object == nil || !m.live[i] && len(m.clients) > 1 {
			return nil
		}
		events := m.copied()
		events[i].Inferred = !events[i].Inferred
		return events
	}, want: []string{announced}},
	{name: "drop a GAP", corrupt: func(m *model, i int) []stream.Event {
		// One of two GAPs is redundant, and so is one before the first event.
		if i == 0 || m.events[i].Type != stream.Gap || len(m.clients) > 1 || m.syncedDue(i) || i+1 == len(m.events) ||
			m.events[i+1].Type == stream.Gap {
			return nil
		}
		return slices.Delete(m.copied(), i, i+1)
	}, want: []string{announced}},
	{name: "drop SYNCED", corrupt: func(m *model, i int) []stream.Event {
		if m.events[i].Type != stream.Synced ||
			slices.ContainsFunc(m.events[i:], func(ev stream.Event) bool { return ev.Type == stream.Gap }) {
			return nil
		}
		return slices.Delete(m.copied(), i, i+1)
	}, want: []string{announced}},
	{name: "invent a SYNCED", corrupt: func(m *model, i int) []stream.Event {
		if !m.live[i] || i == 0 || !m.live[i-1] || len(m.clients) > 1 {
			return nil
		}
		return slices.Insert(m.copied(), i,
			stream.Event{Type: stream.Synced, ResourceVersion: m.events[i].ResourceVersion})
	}, want: []string{announced}},
	{name: "invent a removal", corrupt: func(m *model, i int) []stream.Event {
		ev := m.events[i]
		if !m.live[i] || ev.Object == nil || ev.Type == stream.Deleted {
			return nil
		}
		ev.Type, ev.Inferred = stream.Deleted, m.IntN(2) == 0
		return slices.Insert(m.copied(), i+1, ev)
	}, want: []string{truthful, announced}},
	{name: "invent a removal in a gap", corrupt: func(m *model, i int) []stream.Event {
		if m.events[i].Type != stream.Synced || len(m.clients) > 1 || i == 0 ||
			m.events[i-1].Object == nil || m.events[i-1].Type == stream.Deleted {
			return nil
		}
		ev := m.events[i-1]
		ev.Type, ev.Inferred, ev.Envelope(friend.Access{}).Coalesced = stream.Deleted, true, 0
		o := ev.Object
		ev.Object = oracle.Identity(o.GetNamespace(), o.GetName(), string(o.GetUID()), ev.ResourceVersion)
		return slices.Insert(m.copied(), i, ev)
	}, want: []string{truthful, removed, complete, resumed}},
	{name: "call a rewind expired", corrupt: func(m *model, i int) []stream.Event {
		if g := m.events[i].Gap; g == nil || g.Reason != stream.GapRewound || len(m.clients) > 1 || m.syncedDue(i) {
			return nil
		}
		for _, ev := range m.events[i+1:] {
			if ev.Gap != nil {
				return nil
			}
			if ev.Type == stream.Synced {
				if !older(ev.ResourceVersion, m.events[i].Gap.From) {
					return nil
				}
				break
			}
		}
		events := m.copied()
		g := *events[i].Gap
		g.Reason = stream.GapExpired
		events[i].Gap = &g
		return events
	}, want: []string{monotonic, announced}, rewound: true},
	{name: "drop the reason of a GAP", corrupt: func(m *model, i int) []stream.Event {
		if m.events[i].Gap == nil {
			return nil
		}
		events := m.copied()
		events[i].Gap = &stream.GapDetails{From: "1", HistoryLost: true}
		return events
	}, want: []string{announced}, latest: true},
	{name: "move a BOOKMARK ahead", corrupt: func(m *model, i int) []stream.Event {
		// It claims that the next live event was delivered.
		if m.vague() || !m.live[i] || m.events[i].Object == nil {
			return nil
		}
		return slices.Insert(m.copied(), i,
			stream.Event{Type: stream.Bookmark, Namespace: m.events[i].Namespace,
				ResourceVersion: m.events[i].ResourceVersion})
	}, want: []string{complete, removed, resumed, truthful, ordered}}, // the last two if it is true in another epoch
	{name: "go on after the end", corrupt: func(m *model, i int) []stream.Event {
		if !m.opts.UntilSynced || m.events[i].Type == stream.Synced && len(m.clients) > 1 {
			return nil
		}
		return append(m.copied(), m.events[i])
	}, want: []string{announced}, latest: true},
	{name: "stop before the end", corrupt: func(m *model, i int) []stream.Event {
		if len(m.clients) > 1 || m.vague() || !m.live[i] || m.events[i].Object == nil ||
			slices.ContainsFunc(m.events[i+1:], func(ev stream.Event) bool { return ev.Type == stream.Synced }) {
			return nil
		}
		return m.copied()[:i]
	}, want: []string{complete, removed, resumed}},
}

// vague reports whether events may be missing because the start of the sequence leaves them open.
func (m *model) vague() bool {
	return m.opts.Now && len(m.clients) > 1 || m.opts.Selected != nil && m.opts.After != ""
}

func (m *model) copied() []stream.Event { return slices.Clone(m.events) }

func (m *model) swapped(i int) []stream.Event {
	events := m.copied()
	events[i], events[i-1] = events[i-1], events[i]
	return events
}

// syncedDue reports whether SYNCED is due before event i.
func (m *model) syncedDue(i int) bool {
	for _, ev := range slices.Backward(m.events[:i]) {
		switch ev.Type {
		case stream.Gap:
			return true
		case stream.Synced:
			return false
		}
	}
	return m.opts.After == "" && m.opts.From == nil || m.opts.UntilSynced
}

func (m *model) changed(i int, change func(*unstructured.Unstructured)) []stream.Event {
	if m.events[i].Object == nil {
		return nil
	}
	events := m.copied()
	events[i].Object = events[i].Object.DeepCopy()
	change(events[i].Object)
	return events
}

// Check rejects every corruption, and names a promise that it breaks.
func TestCheckFindsCorruption(t *testing.T) {
	found := map[string]int{}
	for seed := range checkSeeds.All(t) {
		m := newModel(seed)
		m.start()
		m.run(20 + m.IntN(120))
		latest := *m
		latest.events, latest.opts.Latest = m.coalesced(), true
		m.Rand = rand.New(rand.NewPCG(seed, 11))
		for _, c := range corruptions {
			found[c.name] += m.check(t, seed, c)
			if c.latest {
				found[c.name+", latest"] += latest.check(t, seed, c)
			}
		}
	}
	for _, c := range corruptions {
		few := int(checkSeeds.Count() / 25)
		if found[c.name] < few || c.latest && found[c.name+", latest"] < few {
			t.Errorf("%s: tried too rarely", c.name)
		}
	}
	t.Log(found)
}

// check applies a corruption at a random event, which Check must reject. It returns how often that was possible.
func (m *model) check(t *testing.T, seed uint64, c corruption) int {
	if m.opts.UntilSynced && len(m.h.Rewinds) > 0 {
		return 0 // it has ended in any of the pasts
	}
	var events []stream.Event
	i := 0
	for tries := 0; events == nil && tries < 10; tries++ {
		if len(m.events) == 0 {
			return 0
		}
		i = m.IntN(len(m.events))
		events = c.corrupt(m, i)
	}
	if events == nil {
		return 0
	}
	err := streamtest.Check(m.h, events, &m.opts)
	// With several epochs or namespaces there is more than one explanation of what is wrong.
	ok := err != nil && (c.want == nil || len(m.h.Rewinds) > 0 && !c.rewound || len(m.clients) > 1)
	for _, promise := range oracle.Promises(err) {
		ok = ok || slices.Contains(c.want, promise)
	}
	if !ok {
		t.Fatalf("seed %d: %s at %d: got %v, options %+v\nevents before:\n%s\nhistory:\n%s", seed, c.name, i, err,
			m.opts, numbered(m.events), historyText(m.h))
	}
	return 1
}
