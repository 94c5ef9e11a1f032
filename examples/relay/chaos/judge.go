package main

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/gvrwatch/gvrwatch/examples/relay/engine"
)

// judge checks the log of a run: records in their order, what was written, and what exists in the end, by uid. It
// returns the promises that are broken.
func judge(log []record, writes []write, exist map[string]string) []string {
	var broken []string
	report := func(format string, args ...any) { broken = append(broken, fmt.Sprintf(format, args...)) }
	ids := map[string]bool{}
	last := map[string]engine.Message{}
	owners := map[engine.Unit]map[uint64]string{}
	epochs := map[engine.Unit]uint64{}
	for _, r := range log {
		if p := r.position; p != nil {
			if owners[p.Unit] == nil {
				owners[p.Unit] = map[uint64]string{}
			}
			owner, known := owners[p.Unit][p.Position.Epoch]
			if known && p.Position.Owner != "" && owner != p.Position.Owner {
				report("two owners: %s epoch %d: %s and %s", p.Unit, p.Position.Epoch, owner, p.Position.Owner)
			}
			if !known {
				owners[p.Unit][p.Position.Epoch] = p.Position.Owner
			}
			if p.Position.Epoch < epochs[p.Unit] {
				report("an old owner: %s epoch %d after %d", p.Unit, p.Position.Epoch, epochs[p.Unit])
			}
			epochs[p.Unit] = p.Position.Epoch
			continue
		}
		m := *r.message
		if unit := m.Unit.Whole(); r.epoch != epochs[unit] {
			report("an old owner: message %d of %s has epoch %d, in epoch %d", m.Revision, unit, r.epoch, epochs[unit])
		}
		if m.UID == "" {
			continue
		}
		if ids[m.ID] {
			report("twice: message %d: %s", m.Revision, m.ID)
		}
		ids[m.ID] = true
		before, known := last[m.UID]
		what := fmt.Sprintf("message %d: %s %s/%s uid %s version %s", m.Revision, m.Type, m.Unit, m.Name, m.UID,
			m.ResourceVersion)
		switch {
		case known && before.Type == engine.Deleted:
			report("after its deletion: %s", what)
		case known && m.Type == engine.Added:
			report("added again: %s", what)
		case !known && m.Type != engine.Added:
			report("not added before: %s", what)
		case m.Type == engine.Modified && version(m.ResourceVersion) <= version(before.ResourceVersion):
			report("an older version than %s: %s", before.ResourceVersion, what)
		}
		last[m.UID] = m
	}
	for uid, m := range last {
		want, exists := exist[uid]
		switch {
		case m.Type == engine.Deleted && exists:
			report("exists, but is deleted in the log: %s/%s uid %s", m.Unit, m.Name, uid)
		case m.Type != engine.Deleted && !exists:
			report("unreported deletion: %s/%s uid %s", m.Unit, m.Name, uid)
		case exists && m.ResourceVersion != want:
			report("not the last state: %s/%s uid %s version %s, want %s", m.Unit, m.Name, uid, m.ResourceVersion, want)
		}
	}
	for uid := range exist {
		if _, known := last[uid]; !known {
			report("missing: uid %s", uid)
		}
	}
	broken = append(broken, lost(log, writes)...)
	slices.Sort(broken)
	return broken
}

// write is a state of an object that the API server has acknowledged.
type write struct{ resource, uid, version string }

// snapshot says which versions may not be in the log: those after one up to another, as a list skips them.
type snapshot struct{ after, upTo int }

// lost returns the writes that are not in the log, unless a list may have skipped them: the first one of a resource, or
// that after a GAP.
func lost(log []record, writes []write) []string {
	seen := map[write]bool{}
	snapshots := map[string][]snapshot{} // by resource
	open, highest := map[string]int{}, map[string]int{}
	for _, r := range log {
		m := r.message
		if m == nil {
			continue
		}
		resource := m.Unit.Resource
		after, within := open[resource]
		switch m.Type {
		case engine.Gap:
			if !within && highest[resource] > 0 {
				open[resource] = highest[resource]
			}
		case engine.Synced:
			if within || len(snapshots[resource]) == 0 {
				snapshots[resource] = append(snapshots[resource], snapshot{after, version(m.ResourceVersion)})
				delete(open, resource)
			}
		default:
			seen[write{resource, m.UID, m.ResourceVersion}] = true
		}
		highest[resource] = max(highest[resource], version(m.ResourceVersion))
	}
	var broken []string
	for _, w := range writes {
		skipped := func(s snapshot) bool { return version(w.version) > s.after && version(w.version) <= s.upTo }
		if !seen[w] && !slices.ContainsFunc(snapshots[w.resource], skipped) {
			broken = append(broken, fmt.Sprintf("lost: %s uid %s version %s", w.resource, w.uid, w.version))
		}
	}
	return broken
}

func version(s string) int {
	n, _ := strconv.Atoi(s)
	return n
}

// takeover returns how long it took, after a replica was killed, until each of its units had another owner. Units that
// nobody took are as long as the log goes on.
func takeover(log []record, killed string, at time.Time) time.Duration {
	owned, longest := map[engine.Unit]bool{}, time.Duration(0)
	end := at
	for _, r := range log {
		if p := r.position; p == nil {
			continue
		} else if r.time.Before(at) {
			owned[p.Unit] = p.Position.Owner == killed
		} else if owned[p.Unit] && p.Position.Owner != killed {
			owned[p.Unit] = false
			longest = max(longest, r.time.Sub(at))
		}
		end = r.time
	}
	for _, left := range owned {
		if left {
			return max(longest, end.Sub(at))
		}
	}
	return longest
}
