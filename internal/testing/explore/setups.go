package explore

import (
	"strings"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/internal/protocol"
	"github.com/gvrwatch/gvrwatch/internal/sequence"
)

// The classes that requests fail with: all, or those that lead to different States most often.
var (
	everyClass = func() (all []protocol.Class) {
		for class := range protocol.Class(len(codes)) {
			all = append(all, class)
		}
		return all
	}()
	someClasses = []protocol.Class{protocol.Transient, protocol.Forbidden, protocol.Expired}
	transient   = []protocol.Class{protocol.Transient}
	// ofGateways are the classes that a refusal has which is no Status.
	ofGateways = []protocol.Class{protocol.Transient, protocol.Unauthorized, protocol.NotAllowed, protocol.Invalid,
		protocol.Expired}
)

var (
	paged    = protocol.Rules{}
	streamed = protocol.Rules{WantInitialEvents: true, InitialEvents: true}
)

// setups returns what is walked through: any two kinds of what may go wrong, once each, and what some rows say.
func setups() []*setup { return append(pairs(), rows()...) }

// pairs returns a setup for any two fields of a budget, but for those about what a server may do at any time.
func pairs() (all []*setup) {
	kinds := []struct {
		name string
		of   func(*budget) *int8
	}{
		{"a restart", func(b *budget) *int8 { return &b.restarts }},
		{"a version of another resource", func(b *budget) *int8 { return &b.others }},
		{"poison", func(b *budget) *int8 { return &b.poisons }},
		{"a failure", func(b *budget) *int8 { return &b.faults }},
		{"a compaction", func(b *budget) *int8 { return &b.compactions }},
		{"a rewind", func(b *budget) *int8 { return &b.rewinds }},
		{"a replica that lags", func(b *budget) *int8 { return &b.lags }},
		{"a replay", func(b *budget) *int8 { return &b.replays }},
		{"a new run", func(b *budget) *int8 { return &b.resumes }},
	}
	for _, rules := range []protocol.Rules{paged, streamed} {
		for i, one := range kinds {
			for _, other := range kinds[:i] {
				u := &setup{name: other.name + " and " + one.name, rules: rules, before: "+a", failures: transient}
				u.may.writes, *one.of(&u.may), *other.of(&u.may) = 1, 1, 1
				if rules.InitialEvents {
					u.name += ", streamed"
					u.long = u.may.restarts+u.may.others > 0
				}
				all = append(all, u)
			}
		}
	}
	return all
}

func rows() []*setup {
	now, after := sequence.Origin{Now: true}, sequence.Origin{After: "2"}
	return []*setup{
		// From the beginning.
		{name: "paged, all failures", rules: paged, may: budget{writes: 2, faults: 2}, failures: everyClass},
		{name: "streamed, all failures", rules: streamed, may: budget{writes: 1, faults: 2}, failures: everyClass},
		{name: "streamed, with a marker ahead of all objects", rules: streamed, before: "+a +b -b",
			may: budget{writes: 1, compactions: 1, faults: 1}, failures: transient},
		{name: "paged, credentials refused", rules: paged, before: "+a",
			may: budget{writes: 1, faults: 4}, failures: []protocol.Class{protocol.Unauthorized}},
		{name: "streamed, credentials refused", rules: streamed, before: "+a",
			may: budget{writes: 1, faults: 3}, failures: []protocol.Class{protocol.Unauthorized}},
		{name: "retries refusals, paged", rules: protocol.Rules{RetryRefused: true}, before: "+a",
			may: budget{writes: 1, faults: 2}, failures: everyClass},
		{name: "retries refusals, streamed", before: "+a", may: budget{writes: 1, faults: 2}, failures: everyClass,
			rules: protocol.Rules{RetryRefused: true, WantInitialEvents: true, InitialEvents: true}},
		{name: "paged, refused by a gateway", rules: paged, before: "+a",
			may: budget{writes: 1, compactions: 1, faults: 2}, gateways: ofGateways},
		{name: "streamed, refused by a gateway", rules: streamed, before: "+a",
			may: budget{writes: 1, faults: 2}, gateways: ofGateways},
		{name: "410 of a gateway", rules: paged, before: "+a",
			may: budget{writes: 1, compactions: 1, faults: 4}, gateways: []protocol.Class{protocol.Expired}},
		{name: "paged, lost history", rules: paged, before: "+a",
			may: budget{writes: 2, compactions: 1, faults: 1}, failures: someClasses},
		{name: "lost history, and the server does not say so", rules: paged, always: closesExpired, before: "+a",
			may: budget{writes: 2, compactions: 1, faults: 1}, failures: transient},
		{name: "may watch but not list", rules: streamed, always: forbidsLists, before: "+a",
			may: budget{writes: 1, compactions: 1, lags: 1, faults: 1}, failures: transient},
		{name: "probes are answered with 410", rules: paged, always: expiresProbes, before: "+a",
			may: budget{writes: 1, compactions: 1, faults: 1}, failures: transient},
		{name: "second pages fail", rules: paged, always: failsPages, before: "+a +b",
			may: budget{writes: 1, compactions: 1, faults: 1}, failures: transient},
		{name: "second pages are forbidden", rules: paged, always: forbidsPages, before: "+a +b",
			may: budget{writes: 1, faults: 1}, failures: transient},
		{name: "watches with initial events break", rules: streamed, always: breaksInitial, before: "+a",
			may: budget{writes: 1, compactions: 1, faults: 1}, failures: someClasses},
		{name: "paged, goes back in time", rules: paged, before: "+a",
			may: budget{writes: 2, rewinds: 1, lags: 1}},
		{name: "paged, lags", rules: paged, before: "+a",
			may: budget{writes: 1, lags: 3, faults: 1}, failures: transient},
		{name: "paged, replays", rules: paged, may: budget{writes: 3, compactions: 1, replays: 1}},
		{name: "paged, poison", rules: paged, before: "+a",
			may: budget{writes: 2, poisons: 1, compactions: 1}},
		{name: "a list that repeats its pages", rules: paged, before: "+a +b", may: budget{writes: 1, repeats: 6}},
		{name: "a Select, paged", rules: paged, selects: true, before: "+a +b",
			may: budget{writes: 2, compactions: 1, replays: 1}},
		{name: "a Select, streamed", rules: streamed, selects: true, before: "+a",
			may: budget{writes: 1, compactions: 1, faults: 1}, failures: transient},
		{name: "a Select after a version", rules: paged, selects: true, from: after, before: "+a +b",
			may: budget{writes: 2, compactions: 1}},
		{name: "a Select that resumes", rules: paged, selects: true, before: "+a",
			may: budget{writes: 2, compactions: 1, resumes: 1}},
		// Servers that break the rules about versions.
		{name: "restarts its watches", rules: paged, always: restartsWatches, keeps: true, before: "+a",
			may: budget{writes: 2, faults: 1}, failures: transient},
		{name: "restarts its watches, streamed", rules: streamed, always: restartsWatches, keeps: true, before: "+a",
			long: true, may: budget{writes: 2, faults: 1}, failures: transient},
		{name: "lists with the version of their greatest item", rules: paged, always: greatestItems, before: "+a",
			may: budget{writes: 2, faults: 1}, failures: transient},
		{name: "lists without versions", rules: paged, always: noListVersions, before: "+a",
			may: budget{writes: 2, faults: 1}, failures: transient},
		{name: "events in the wrong order", rules: paged, always: swapsEvents, before: "+a",
			may: budget{writes: 2, faults: 1}, failures: transient},
		{name: "events in the wrong order, streamed", rules: streamed, always: swapsEvents, before: "+a",
			may: budget{writes: 2, faults: 1}, failures: transient},
		// From where a Stream began or stood.
		{name: "now, paged", rules: paged, from: now, before: "+a",
			may: budget{writes: 1, compactions: 1, faults: 1}, failures: someClasses},
		{name: "now, streamed", rules: streamed, from: now, before: "+a",
			may: budget{writes: 1, compactions: 1, faults: 1}, failures: someClasses},
		{name: "now, goes back in time", rules: paged, from: now, before: "+a",
			may: budget{writes: 1, rewinds: 1, lags: 1, faults: 1}, failures: transient},
		{name: "after a version", rules: paged, from: after, before: "+a +b",
			may: budget{writes: 1, compactions: 1, faults: 1}, failures: someClasses},
		{name: "after a version, streamed", rules: streamed, from: after, before: "+a +b",
			may: budget{writes: 1, compactions: 1, faults: 1}, failures: someClasses},
		{name: "resumes, paged", rules: paged, before: "+a",
			may: budget{writes: 2, compactions: 1, resumes: 1}},
		{name: "resumes after going back in time", rules: paged, before: "+a",
			may: budget{writes: 1, rewinds: 1, resumes: 1, faults: 1}, failures: transient},
		{name: "a position", rules: paged, from: position("2", checkpoint.Position{}, "a/u1@2"), before: "+a +b",
			may: budget{writes: 1, compactions: 1, faults: 1}, failures: someClasses},
		{name: "a position with an object delivered perhaps", rules: paged, before: "+a +b",
			from: position("2", checkpoint.Position{}, "a/u1@2", "b/u2@"),
			may:  budget{writes: 1, compactions: 1, replays: 1}},
		{name: "a position with a recreated object delivered perhaps", rules: paged, before: "+a -a +a",
			from: position("2", checkpoint.Position{}, "a/u1@2", "a/u2@"),
			may:  budget{writes: 1, compactions: 1, replays: 1}},
		{name: "a position behind an object", rules: paged, before: "+a +b",
			from: position("2", checkpoint.Position{}, "a/u1@2", "b/u2@3"),
			may:  budget{writes: 1, compactions: 1, replays: 1}},
		{name: "an unclean position", rules: paged, from: position("2", checkpoint.Position{Unclean: true}, "a/u1@2"),
			before: "+a +b", may: budget{writes: 1, compactions: 1, faults: 1}, failures: someClasses},
		{name: "a position without objects", rules: paged, from: position("2", checkpoint.Position{Partial: true}),
			before: "+a +b", may: budget{writes: 1, compactions: 1, faults: 1}, failures: someClasses},
		{name: "a position within a snapshot", rules: streamed, from: position("", checkpoint.Position{}, "a/u1@2"),
			before: "+a +b", may: budget{writes: 1, compactions: 1, lags: 1, faults: 1}, failures: someClasses},
		{name: "a position before going back in time", rules: paged, before: "+a",
			from: position("3", checkpoint.Position{Rewound: true}, "a/u1@2"),
			may:  budget{writes: 1, compactions: 1, faults: 1}, failures: someClasses},
		{name: "a position of another scope", rules: paged, before: "+a +b",
			from: sequence.Origin{Position: &checkpoint.Position{ResourceVersions: map[string]string{"other": "2"}}},
			may:  budget{writes: 1, compactions: 1, faults: 1}, failures: someClasses},
		// Runs that end.
		{name: "fails on a gap", rules: protocol.Rules{FailOnGap: true}, before: "+a",
			may: budget{writes: 1, rewinds: 1, compactions: 1, faults: 1}, failures: someClasses},
		{name: "fails on a gap since a position within a snapshot", rules: protocol.Rules{FailOnGap: true},
			from: position("", checkpoint.Position{}, "a/u1@2"), before: "+a"},
		{name: "fails on a gap since a position of another scope", rules: protocol.Rules{FailOnGap: true},
			from: sequence.Origin{Position: &checkpoint.Position{ResourceVersions: map[string]string{"other": "2"}}}},
		{name: "until synced", rules: protocol.Rules{UntilSynced: true}, before: "+a",
			may: budget{writes: 2, compactions: 1, faults: 1}, failures: everyClass},
		{name: "until synced, from a position", rules: protocol.Rules{UntilSynced: true},
			from: snapshot(position("2", checkpoint.Position{}, "a/u1@2")), before: "+a +b",
			may: budget{writes: 1, compactions: 1, resumes: 1, faults: 1}, failures: transient},
		{name: "until synced, from an unclean position", rules: protocol.Rules{UntilSynced: true},
			from: snapshot(position("2", checkpoint.Position{Unclean: true}, "a/u1@2")), before: "+a +b",
			may: budget{writes: 1, compactions: 1}},
		{name: "until closed", rules: protocol.Rules{UntilClosed: true}, before: "+a",
			may: budget{writes: 2, compactions: 1, faults: 1}, failures: someClasses},
		{name: "gives up", rules: paged, gives: true, before: "+a",
			may: budget{writes: 1, faults: 2}, failures: everyClass},
		// On client-go's fake.
		{name: "fake", rules: protocol.Rules{NoProbe: true}, fake: true, before: "+a",
			may: budget{writes: 2, faults: 2}, failures: someClasses},
	}
}

// snapshot makes a run begin with a snapshot, although its position has a version.
func snapshot(from sequence.Origin) sequence.Origin {
	from.Snapshot = true
	return from
}

// position returns a Position as a checkpoint may have it, with objects such as "a/u1@2". One without a version was
// delivered perhaps.
func position(version string, p checkpoint.Position, objects ...string) sequence.Origin {
	p.ResourceVersions = map[string]string{"": version}
	for _, o := range objects {
		name, rest, _ := strings.Cut(o, "/")
		uid, rv, _ := strings.Cut(rest, "@")
		p.Objects = append(p.Objects, checkpoint.Object{
			Name: name, UID: object{uid: number(uid[1:])}.asUID(), ResourceVersion: rv})
	}
	return sequence.Origin{Position: &p}
}
