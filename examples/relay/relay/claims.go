package relay

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/gvrwatch/gvrwatch/examples/relay/engine"
)

// claims makes this replica the owner of units in the log, and fences other owners.
type claims struct {
	log   engine.Log
	me    string               // the ID of this replica
	alive func(id string) bool // reports whether another replica is alive, or might be

	mu sync.Mutex
	// open are the units, by their text, whose positions may name this replica, although it does not own them. It is
	// nil until find has read them.
	open map[string]engine.Unit
}

// find finds units that an earlier process with the ID of this replica has left behind.
func (c *claims) find(ctx context.Context) error {
	c.mu.Lock()
	found := c.open != nil
	c.mu.Unlock()
	if found {
		return nil
	}
	open := map[string]engine.Unit{}
	entries, err := c.log.Positions(ctx, engine.Unit{})
	if err != nil {
		return fmt.Errorf("read the positions: %w", err)
	}
	for _, e := range entries {
		if e.Position.Owner == c.me {
			open[e.Unit.String()] = e.Unit
		}
	}
	c.mu.Lock()
	c.open = open
	c.mu.Unlock()
	return nil
}

// all returns the units that are open, sorted.
func (c *claims) all() []engine.Unit {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []engine.Unit
	for _, key := range sortedKeys(c.open) {
		all = append(all, c.open[key])
	}
	return all
}

// prepare returns all positions by resource, after it has fenced the owners that prevent that units are taken.
func (c *claims) prepare(ctx context.Context, units []*Selected) (map[engine.Unit][]engine.Entry, error) {
	all, err := c.log.Positions(ctx, engine.Unit{})
	if err == nil {
		err = c.fence(ctx, units, all)
	}
	if err != nil {
		return nil, err
	}
	entries := map[engine.Unit][]engine.Entry{}
	for _, e := range all {
		entries[e.Unit.Whole()] = append(entries[e.Unit.Whole()], e)
	}
	return entries, nil
}

// fence sets the positions of units whose owners are not alive, and which overlap units to take: taking a unit fences
// only its own owner. It changes entries accordingly.
func (c *claims) fence(ctx context.Context, units []*Selected, entries []engine.Entry) error {
	whole, namespaces := map[engine.Unit]bool{}, map[engine.Unit]bool{} // resources of which units are taken
	for _, s := range units {
		if s.Unit.Namespace == "" {
			whole[s.Unit] = true
		} else {
			namespaces[s.Unit.Whole()] = true
		}
	}
	var dead []*engine.Entry
	for i := range entries {
		e := &entries[i]
		overlaps := whole[e.Unit.Whole()]
		if e.Unit.Namespace == "" {
			overlaps = namespaces[e.Unit]
		}
		if overlaps && e.Position.Owner != "" && !c.alive(e.Position.Owner) {
			dead = append(dead, e)
		}
	}
	for some := range slices.Chunk(dead, c.log.Limits().Messages) {
		parts := make([]engine.Part, len(some))
		for i, e := range some {
			parts[i] = engine.Part{Unit: e.Unit, Position: e.Position, Revision: e.Revision}
			parts[i].Position.Owner = ""
		}
		revisions, err := c.log.Publish(ctx, parts)
		if err != nil {
			return fmt.Errorf("fence owners that are not alive: %w", err)
		}
		for i, e := range some {
			e.Position, e.Revision = parts[i].Position, revisions[i]
		}
	}
	return nil
}

// heldError says that a replica has not released a unit.
type heldError struct{ owner string }

func (e *heldError) Error() string { return fmt.Sprintf("waiting until %s has released it", e.owner) }

// take makes this replica the owner of u, and returns how, and the revision of the position that it has set. entries
// are the positions of its resource. It returns a *heldError if another replica has to release the unit first. The unit
// stays open until close is called.
func (c *claims) take(
	ctx context.Context, u engine.Unit, scope string, entries []engine.Entry,
) (made claim, revision uint64, err error) {
	made = claimOf(u, c.me, scope, entries, c.alive)
	if made.wait != "" {
		if c.isOpen(u) { // claimed before this replica knew that: both would wait
			c.disown(ctx, u)
		}
		return claim{}, 0, &heldError{made.wait}
	}
	c.mu.Lock()
	c.open[u.String()] = u
	c.mu.Unlock()
	revisions, err := c.log.Publish(ctx, []engine.Part{{Unit: u, Position: made.position, Revision: made.revision}})
	if errors.Is(err, engine.ErrFenced) {
		return claim{}, 0, errors.New("another replica has taken it")
	}
	if err != nil {
		return claim{}, 0, fmt.Errorf("take: %w", err)
	}
	if err := c.checkOthers(ctx, u, entries); err != nil {
		c.disown(ctx, u)
		return claim{}, 0, err
	}
	return made, revisions[0], nil
}

// checkOthers returns an error if a unit that overlaps u has changed since entries were read: another replica may have
// taken it at the same time. If both take and then check, at least one notices.
func (c *claims) checkOthers(ctx context.Context, u engine.Unit, entries []engine.Entry) error {
	var now []engine.Entry
	var err error
	if u.Namespace == "" {
		now, err = c.log.Positions(ctx, u)
	} else {
		now = make([]engine.Entry, 1)
		now[0], err = c.log.Position(ctx, u.Whole())
	}
	if err != nil {
		return fmt.Errorf("read the positions: %w", err)
	}
	for _, e := range now {
		if e.Unit != u && e.Revision > 0 && !slices.Contains(entries, e) {
			return fmt.Errorf("%s, which overlaps, was taken meanwhile", e.Unit)
		}
	}
	return nil
}

// disown lets others take a unit that is open.
func (c *claims) disown(ctx context.Context, u engine.Unit) {
	e, err := c.log.Position(ctx, u)
	if err == nil && e.Position.Owner == c.me {
		e.Position.Owner = ""
		_, err = c.log.Publish(ctx, []engine.Part{{Unit: u, Position: e.Position, Revision: e.Revision}})
	}
	if err != nil {
		return // the next round tries again
	}
	c.close(u)
}

// close says that a unit is owned now, or its position does not name this replica.
func (c *claims) close(u engine.Unit) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.open, u.String())
}

func (c *claims) isOpen(u engine.Unit) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, open := c.open[u.String()]
	return open
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
