package streamtest

import "testing"

// overtaken has objects whose states supersede each other, one that comes and goes,
// one that is replaced, and one that is removed.
const overtaken = `ADDED a(u1)@1; ADDED b(u2)@2; MODIFIED a(u1)@3; ADDED c(u3)@4; MODIFIED b(u2)@5; DELETED c(u3)@6
	MODIFIED a(u1)@7; DELETED b(u2)@8; ADDED b(u4)@9; MODIFIED a(u1)@10`

func TestCheckLatest(t *testing.T) {
	latest := CheckOptions{Latest: true, Settled: true}
	resumed2 := latest
	resumed2.From = &Resume{ResourceVersion: "2", Objects: []KnownObject{known("a", "u1", "7"), known("b", "u2", "2"), known("c", "u3", "")}}
	const from2 = "ADDED a(u1)@1; ADDED b(u2)@2; SYNCED @2; "
	tests := []struct {
		why    string
		opts   CheckOptions
		events string
		want   string
	}{
		{"the newest state of each", latest, from2 + "MODIFIED a(u1)@10 coalesced 2; DELETED b(u2)@8 coalesced 1; ADDED b(u4)@9", ""},
		{"nothing was superseded", latest, from2 + "MODIFIED a(u1)@3; ADDED c(u3)@4; MODIFIED b(u2)@5; DELETED c(u3)@6; MODIFIED a(u1)@7; DELETED b(u2)@8; ADDED b(u4)@9; MODIFIED a(u1)@10", ""},
		{"order is that of each object", latest, from2 + "MODIFIED b(u2)@5; ADDED c(u3)@4; DELETED c(u3)@6; MODIFIED a(u1)@10 coalesced 2; DELETED b(u2)@8; ADDED b(u4)@9", ""},
		{"a BOOKMARK, with newer states before it", latest, from2 + "MODIFIED a(u1)@10 coalesced 2; MODIFIED b(u2)@5; BOOKMARK @5; DELETED b(u2)@8; ADDED b(u4)@9", ""},
		{"a BOOKMARK, and an object that came before it and went after it", latest, from2 + "MODIFIED a(u1)@10 coalesced 2; DELETED b(u2)@8 coalesced 1; BOOKMARK @5; ADDED b(u4)@9", ""},
		{"a GAP, with all that came before it", latest, from2 + "MODIFIED a(u1)@7 coalesced 1; MODIFIED b(u2)@5; GAP expired 7..10; MODIFIED a(u1)@10 inferred; DELETED b(u2)@5 inferred; ADDED b(u4)@9 inferred; SYNCED @10", ""},
		{"a snapshot that began again", latest, "ADDED a(u1)@7 inferred coalesced 1; ADDED b(u4)@9; SYNCED @9; MODIFIED a(u1)@10", ""},
		{"a removal that the snapshot before had as a change", latest, from2 + "GAP expired 2..; MODIFIED a(u1)@7 inferred; DELETED b(u2)@5 inferred coalesced 1; ADDED b(u4)@9 inferred; SYNCED @9; MODIFIED a(u1)@10", ""},
		{"from: what was acked ahead does not come again", resumed2, "ADDED c(u3)@4; DELETED c(u3)@6; DELETED b(u2)@8 coalesced 1; ADDED b(u4)@9; MODIFIED a(u1)@10", ""},
		{"from: one that may have been delivered, and is gone", resumed2, "DELETED c(u3)@6 coalesced 1; DELETED b(u2)@8 coalesced 1; ADDED b(u4)@9; MODIFIED a(u1)@10", ""},

		{"a BOOKMARK after an older state", latest, from2 + "MODIFIED a(u1)@3; BOOKMARK @7", complete},
		{"a BOOKMARK after a removal that is missing", latest, from2 + "MODIFIED a(u1)@10 coalesced 2; BOOKMARK @8", removed},
		{"a BOOKMARK goes back", latest, from2 + "BOOKMARK @5", complete},
		{"GAP.From is past what was delivered", latest, from2 + "MODIFIED a(u1)@3; GAP expired 7..", complete},
		{"the newest state is missing", latest, from2 + "MODIFIED a(u1)@7 coalesced 1; DELETED b(u2)@8 coalesced 1; ADDED b(u4)@9", complete},
		{"a replacement without the removal", latest, from2 + "MODIFIED a(u1)@10 coalesced 2; ADDED b(u4)@9", removed},
		{"an older state after a newer one", latest, from2 + "MODIFIED a(u1)@7 coalesced 1; MODIFIED a(u1)@3; MODIFIED a(u1)@10; DELETED b(u2)@8 coalesced 1; ADDED b(u4)@9", ordered},
		{"a state twice", latest, from2 + "MODIFIED a(u1)@7 coalesced 1; MODIFIED a(u1)@7; MODIFIED a(u1)@10; DELETED b(u2)@8 coalesced 1; ADDED b(u4)@9", unique},
		{"ADDED of what is known", latest, from2 + "ADDED a(u1)@10 coalesced 2", truthful},
		{"MODIFIED of what is not", latest, from2 + "MODIFIED c(u3)@4", truthful},
		{"DELETED of what was never delivered", latest, from2 + "DELETED c(u3)@6 coalesced 1", truthful},
		{"a state that never was", latest, from2 + "MODIFIED a(u1)@8", truthful},
		{"content of another state", latest, from2 + "MODIFIED a(u1)@10 =7 coalesced 2", truthful},
		{"a BOOKMARK that stands for others", latest, from2 + "BOOKMARK @2 coalesced 1", truthful},
		{"without Latest nothing stands for others", CheckOptions{}, from2 + "MODIFIED a(u1)@3 coalesced 1", truthful},
		{"without Latest nothing may be missing", settled, from2 + "MODIFIED a(u1)@7; ADDED c(u3)@4", complete},
		{"from: what was acked ahead comes again", resumed2, "MODIFIED a(u1)@3", resumed},
		{"from: how one is that may have been delivered is missing", resumed2, "DELETED b(u2)@8 coalesced 1; ADDED b(u4)@9; MODIFIED a(u1)@10", resumed},
	}
	for _, tt := range tests {
		t.Run(tt.why, func(t *testing.T) {
			onlyBroken(t, Check(historyOf(t, overtaken), eventsOf(t, tt.events), &tt.opts), tt.want)
		})
	}
}
