package explore

import (
	"math/rand/v2"
	"runtime/debug"
	"testing"

	"github.com/gvrwatch/gvrwatch/internal/testing/seedtest"
)

// ledgerSetups are what TestLedger walks through. Every state is also checked as if the program were killed there, so
// that only setups about several runs need kills.
var ledgerSetups = []*ledgerSetup{
	{
		name: "successor", why: "the next run begins in the same program, with what is not committed",
		objects: 1, exist: 1, resumes: true, writes: 3,
		marks: true, most: ledgerSpent{failures: 1, ends: 1},
		bounds: Bounds{Depth: 11}, soak: Bounds{Depth: 14},
	},
	{
		name: "failing commits", why: "an object leaves and comes back while entries are retried",
		objects: 1, resumes: true, writes: 3,
		marks: true, most: ledgerSpent{failures: 2},
		bounds: Bounds{Depth: 14}, soak: Bounds{Depth: 17},
	},
	{
		name: "full disk", why: "commits fail, the program is killed, and the history is lost, or not",
		objects: 1, recreated: true, writes: 3,
		marks: true, most: ledgerSpent{kills: 1, failures: 2},
		bounds: Bounds{Depth: 9}, soak: Bounds{Depth: 13},
	},
	{
		name: "full disk, no mark", why: "... of a Store that can't be marked",
		objects: 1, resumes: true, writes: 2,
		most: ledgerSpent{kills: 1, failures: 2}, bounds: Bounds{Depth: 8}, soak: Bounds{Depth: 11},
	},
	{
		name: "one object", why: "from the first snapshot on, with gaps and lists that break off",
		objects: 1, exist: 1, writes: 3,
		marks: true, most: ledgerSpent{failures: 1, gaps: 1},
		bounds: Bounds{Depth: 8}, soak: Bounds{Depth: 12},
	},
	{
		name: "two objects", why: "their acks overtake each other",
		objects: 2, exist: 1, resumes: true, writes: 3,
		most: ledgerSpent{gaps: 1}, bounds: Bounds{Depth: 9}, soak: Bounds{Depth: 13},
	},
	{
		name: "page", why: "objects of a page are written ahead together, and acked in any order",
		objects: 2, exist: 2, writes: 1, pages: true,
		marks: true, most: ledgerSpent{failures: 1, gaps: 1},
		bounds: Bounds{Depth: 9}, soak: Bounds{Depth: 12},
	},
	{
		name: "killed twice", why: "a name has two entries while the deletion of its first object is not acked",
		objects: 1, exist: 1, writes: 2, recreated: true,
		marks: true, most: ledgerSpent{kills: 2, failures: 1, gaps: 1},
		bounds: Bounds{Depth: 7}, soak: Bounds{Depth: 11},
	},
	{
		name: "killed in a snapshot", why: "the next run begins with a GAP; this one is walked whole",
		objects: 1, writes: 1,
		most: ledgerSpent{kills: 1},
	},
	{
		name: "rewound", why: "the server goes back in time",
		objects: 1, exist: 1, resumes: true, writes: 2,
		marks: true, most: ledgerSpent{kills: 1, failures: 1, rewinds: 1},
		bounds: Bounds{Depth: 10}, soak: Bounds{Depth: 13},
	},
	{
		name: "mux", why: "a Mux coalesces, cancels and skips events that wait",
		objects: 2, exist: 1, resumes: true, writes: 3,
		most: ledgerSpent{gaps: 1, merges: 2, bookmarks: 1}, bounds: Bounds{Depth: 8}, soak: Bounds{Depth: 12},
	},
	{
		name: "mux, page", why: "... within a snapshot that begins again",
		objects: 1, exist: 1, writes: 2, pages: true,
		most: ledgerSpent{gaps: 1, merges: 2, bookmarks: 2}, bounds: Bounds{Depth: 10}, soak: Bounds{Depth: 13},
	},
	{
		name: "deferred", why: "the first run starts now",
		objects: 2, exist: 1, writes: 3, deferred: true,
		marks: true, most: ledgerSpent{kills: 1, failures: 1, gaps: 1},
		bounds: Bounds{Depth: 7}, soak: Bounds{Depth: 11},
	},
	{
		name: "after", why: "the first run starts after a version, and knows no objects",
		objects: 2, exist: 2, writes: 2, deferred: true, after: true,
		most: ledgerSpent{failures: 1, gaps: 1}, bounds: Bounds{Depth: 8}, soak: Bounds{Depth: 12},
	},
	{
		name: "nothing ahead", why: "NoWriteAhead: the Store says Unclean instead, until a run ends with all acked",
		objects: 1, resumes: true, writes: 2, noWriteAhead: true,
		most: ledgerSpent{kills: 1, ends: 1}, bounds: Bounds{Depth: 11}, soak: Bounds{Depth: 14},
	},
	{
		name: "nothing ahead, failing", why: "... and commits fail",
		objects: 1, resumes: true, writes: 3, noWriteAhead: true,
		marks: true, most: ledgerSpent{failures: 1, gaps: 1, ends: 1},
		bounds: Bounds{Depth: 9}, soak: Bounds{Depth: 12},
	},
	{
		name: "positions only", why: "the Store keeps no objects",
		objects: 1, exist: 1, writes: 2, positionsOnly: true,
		most: ledgerSpent{kills: 1, failures: 1, ends: 1}, bounds: Bounds{Depth: 8}, soak: Bounds{Depth: 11},
	},
	{
		name: "two namespaces", why: "each is a line of one ledger",
		namespaces: []string{"x", "y"}, objects: 2, resumes: true, writes: 2,
		marks: true, most: ledgerSpent{failures: 1, gaps: 1},
		bounds: Bounds{Depth: 8}, soak: Bounds{Depth: 11},
	},
	{
		name: "two snapshots", why: "those of two namespaces are SYNCED together",
		namespaces: []string{"x", "y"}, objects: 2, writes: 1,
		marks: true, most: ledgerSpent{kills: 1, failures: 1},
		bounds: Bounds{Depth: 8}, soak: Bounds{Depth: 12},
	},
}

// soakLedgers bound the time of a walk: a ledger is rebuilt for most steps.
const soakLedgers = 60_000

func TestLedger(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes every order of steps, which are the same with each version of client-go and Go")
	}
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	for _, u := range ledgerSetups {
		t.Run(u.name, func(t *testing.T) {
			bounds := u.bounds
			if seedtest.Soak() > 1 {
				bounds = u.soak
				bounds.States = soakLedgers
			}
			figures, err := Walk(newLedgerState(u), bounds)
			t.Log(figures)
			if err != nil {
				t.Error(err)
			}
		})
	}
}

// TestLedgerAtRandom takes steps at random, many more than TestLedger can take in every order.
func TestLedgerAtRandom(t *testing.T) {
	seedtest.Default(300).Run(t, func(t *testing.T, n uint64) {
		r := rand.New(rand.NewPCG(n, 3))
		u := *ledgerSetups[r.IntN(len(ledgerSetups))]
		few := func() int8 { return int8(r.IntN(4)) }
		u.objects, u.writes, u.marks = len(ledgerNames), 20, r.IntN(2) == 0
		u.most = ledgerSpent{
			kills: few(), failures: few(), gaps: few(), merges: few(), ends: few(), bookmarks: few(),
			rewinds: min(u.most.rewinds, few()),
		}
		at, way := newLedgerState(&u), []Step(nil)
		err := at.Check()
		for range r.IntN(80) {
			var steps []Step
			var next []*ledgerState
			for step, state := range at.Steps() {
				steps, next = append(steps, step), append(next, state)
			}
			if err != nil || len(next) == 0 {
				break
			}
			i := r.IntN(len(next))
			at, way = next[i], append(way, steps[i])
			err = at.Check()
		}
		if err == nil {
			err = at.Settle()
		}
		if err != nil {
			for _, step := range way {
				t.Log(step)
			}
			t.Errorf("%s: %v", u.name, err)
		}
	})
}
