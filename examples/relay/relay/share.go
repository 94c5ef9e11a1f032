package relay

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/gvrwatch/gvrwatch/examples/relay/engine"
)

// ownerOf returns the member that should own a unit: the one with the highest hash of both (rendezvous hashing). When a
// member joins or leaves, only the units that it owns then or owned before have another owner. It is empty without
// members.
func ownerOf(u engine.Unit, members []string) string {
	var owner string
	var highest uint64
	for _, id := range members {
		sum := sha256.Sum256([]byte(id + "\x00" + u.String()))
		if h := binary.BigEndian.Uint64(sum[:]); owner == "" || h > highest {
			owner, highest = id, h
		}
	}
	return owner
}

// sharing are the IDs of those that share units with me: me, and the members that have my configuration.
func sharing(members []engine.Member, config, me string) []string {
	ids := []string{me}
	for _, m := range members {
		if m.Config == config && !m.Leaving && m.ID != me {
			ids = append(ids, m.ID)
		}
	}
	return ids
}

// claim says how a replica should take a unit.
type claim struct {
	// wait says who has to release the unit first. It is empty if the unit can be taken now.
	wait string
	// position is the one to set, and revision the one to replace.
	position engine.Position
	revision uint64
	// again means that all objects must be published again, because they were published for another scope.
	again bool
}

// claimOf decides how me takes u. entries are the positions of the resource's units; alive reports whether a member is
// alive, or might be.
func claimOf(u engine.Unit, me, scope string, entries []engine.Entry, alive func(id string) bool) claim {
	var own engine.Entry
	for _, e := range entries {
		if e.Unit == u {
			own = e
		}
	}
	c := claim{position: own.Position, revision: own.Revision}
	if own.Revision == 0 {
		c.position.Scope = scope
	}
	newest := own.Revision
	for _, e := range entries {
		if e.Unit != u && e.Unit.Namespace != "" && u.Namespace != "" {
			continue // another namespace
		}
		if owner := e.Position.Owner; owner != "" && alive(owner) {
			c.wait = owner
		}
		if e.Revision > newest {
			// The objects were published meanwhile as those of another unit.
			newest, c.position.Scope, c.position.ResourceVersion = e.Revision, e.Position.Scope, ""
		}
	}
	if c.position.Scope != scope {
		c.again, c.position.ResourceVersion = true, ""
	}
	c.position.Owner, c.position.Commit = me, 0
	c.position.Epoch++
	return c
}
