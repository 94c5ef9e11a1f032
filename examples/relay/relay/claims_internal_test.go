package relay

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gvrwatch/gvrwatch/examples/relay/engine"
)

func TestClaimOf(t *testing.T) {
	whole := engine.Unit{Cluster: "test", Resource: "pods"}
	in := func(ns string) engine.Unit { u := whole; u.Namespace = ns; return u }
	entry := func(u engine.Unit, revision uint64, owner, version string) engine.Entry {
		return engine.Entry{Unit: u, Revision: revision, Position: engine.Position{
			Owner: owner, ResourceVersion: version, Scope: "scope", Epoch: 4, Commit: 9,
		}}
	}
	mine := func(version string, epoch uint64) engine.Position {
		return engine.Position{Owner: "me", ResourceVersion: version, Scope: "scope", Epoch: epoch}
	}
	for _, c := range []struct {
		why     string
		unit    engine.Unit
		scope   string
		entries []engine.Entry
		want    claim
	}{
		{why: "nobody has had it", unit: whole, want: claim{position: mine("", 1)}},
		{
			why: "it was released", unit: whole, entries: []engine.Entry{entry(whole, 7, "", "5")},
			want: claim{position: mine("5", 5), revision: 7},
		},
		{
			why: "its owner is dead", unit: whole, entries: []engine.Entry{entry(whole, 7, "dead", "5")},
			want: claim{position: mine("5", 5), revision: 7},
		},
		{
			why: "its owner is alive", unit: whole, entries: []engine.Entry{entry(whole, 7, "alive", "5")},
			want: claim{wait: "alive", position: mine("5", 5), revision: 7},
		},
		{
			why: "a namespace of it still has an owner", unit: whole,
			entries: []engine.Entry{entry(whole, 7, "", "5"), entry(in("a"), 6, "alive", "9")},
			want:    claim{wait: "alive", position: mine("5", 5), revision: 7},
		},
		{
			why: "its namespaces were published since", unit: whole,
			entries: []engine.Entry{entry(whole, 7, "", "5"), entry(in("a"), 8, "", "9")},
			want:    claim{position: mine("", 5), revision: 7},
		},
		{
			why: "the resource was published as a whole since", unit: in("a"),
			entries: []engine.Entry{entry(in("a"), 7, "", "5"), entry(whole, 8, "", "9")},
			want:    claim{position: mine("", 5), revision: 7},
		},
		{
			why: "another namespace does not matter", unit: in("a"),
			entries: []engine.Entry{entry(in("a"), 7, "", "5"), entry(in("b"), 8, "alive", "9")},
			want:    claim{position: mine("5", 5), revision: 7},
		},
		{
			why: "it was published for another scope", unit: whole, scope: "new",
			entries: []engine.Entry{entry(whole, 7, "", "5")},
			want:    claim{position: mine("", 5), revision: 7, again: true},
		},
		{
			why: "as a whole it was published for another scope", unit: in("a"), scope: "new",
			entries: []engine.Entry{entry(whole, 7, "", "5")},
			want:    claim{position: mine("", 1), again: true},
		},
	} {
		if c.scope == "" {
			c.scope = "scope"
		}
		got := claimOf(c.unit, "me", c.scope, c.entries, func(id string) bool { return id == "alive" })
		if diff := cmp.Diff(c.want, got, cmp.AllowUnexported(claim{})); diff != "" {
			t.Errorf("%s: -want +got:\n%s", c.why, diff)
		}
	}
}
