package relay

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gvrwatch/gvrwatch/examples/relay/engine"
)

// membership knows which replicas are alive, and announces this one.
type membership struct {
	group  engine.Group
	self   engine.Member        // what never changes of this replica: its ID, Config, Started and Lease
	status func() engine.Member // what this replica announces; called without the mutex
	logger *slog.Logger

	mu      sync.Mutex
	seen    map[string]observed
	trusted time.Time // since when the engine answers, or zero if it does not
	unread  error     // why the engine does not say who else is a member
	unheard error     // why it does not take the announcements of this replica
	refused string    // what another member says of the engine, which refuses its messages
	joined  time.Time // when this replica announced itself last, or zero
	silent  time.Time // when it did so after others may have taken it for dead
	twin    time.Time // when another process had announced itself with the ID of this replica
	blocked bool      // members with another configuration own what this replica should take
	leaving bool      // this replica
	expires bool      // this replica removes what is left of deleted objects
}

// observed is a member as last read.
type observed struct {
	revision uint64
	at       time.Time // when the revision was new
	lease    time.Duration
}

func (o observed) alive() bool { return time.Since(o.at) < o.lease }

// beat announces this replica until ctx ends.
func (m *membership) beat(ctx context.Context) {
	for ctx.Err() == nil {
		m.join(ctx)
		wait(ctx, m.self.Lease/10+rand.N(m.self.Lease/10)) // random, so that replicas with one ID see each other
	}
}

// join announces this replica.
func (m *membership) join(ctx context.Context) {
	began := time.Now()
	asked, cancel := m.ask(ctx)
	defer cancel()
	err := m.group.Join(asked, m.status())
	if err != nil && asked.Err() != nil {
		err = context.Cause(asked)
	}
	m.trust(&m.unheard, "the engine does not take the reports of this replica; trying again", err)
	m.mu.Lock()
	defer m.mu.Unlock()
	if err != nil {
		return
	}
	if !m.joined.IsZero() && time.Since(m.joined) > m.self.Lease/2 { // not all of it: others may read it late
		m.silent = time.Now()
	}
	m.joined = began
}

// wasSilent reports whether this replica has announced itself again within the last lease, after others may have taken
// its units.
func (m *membership) wasSilent() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return !m.silent.IsZero() && time.Since(m.silent) < m.self.Lease
}

// ask returns a context for a call of the engine.
func (m *membership) ask(ctx context.Context) (context.Context, context.CancelFunc) {
	timeout := m.self.Lease / 3
	return context.WithTimeoutCause(ctx, timeout, fmt.Errorf("no answer within %v, a third of replica.lease", timeout))
}

// read returns the members as the engine has them: see observe.
func (m *membership) read(ctx context.Context) ([]engine.Member, error) {
	m.mu.Lock()
	joined := !m.joined.IsZero()
	m.mu.Unlock()
	members, err := m.group.Members(ctx)
	if joined {
		m.findTwin(members)
	}
	return members, err
}

// findTwin remembers whether another process has announced itself with the ID of this replica, after this one.
func (m *membership) findTwin(members []engine.Member) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, other := range members {
		if other.ID != m.self.ID || other.Started.Equal(m.self.Started) || other.Leaving {
			continue
		}
		if m.twin.IsZero() {
			m.logger.Warn("another process has the same ID, and takes the units of this one", "replica.id", m.self.ID,
				"started", other.Started)
		}
		m.twin = time.Now()
	}
}

// problems returns what is wrong with the members: others with the ID of this replica and, with another configuration,
// those that own what this replica should take.
func (m *membership) problems(take []*Selected, others []engine.Member) (all []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if time.Since(m.twin) >= m.self.Lease {
		m.twin = time.Time{}
	}
	if !m.twin.IsZero() {
		all = append(all, fmt.Sprintf("invalid replica.id %q: another process has it: must be unique", m.self.ID))
	}
	ids, units := blockers(take, others)
	if units > 0 {
		all = append(all, fmt.Sprintf("replicas with another configuration (%s) own %d of the units of this one: "+
			"must be restarted with this configuration, or this one have another log.stream and log.prefix",
			strings.Join(ids, ", "), units))
		if !m.blocked {
			m.logger.Warn(all[len(all)-1])
		}
	}
	m.blocked = units > 0
	return all
}

// blockers returns the members that own a part of what should be taken, sorted, and how many units that concerns.
func blockers(take []*Selected, members []engine.Member) (ids []string, units int) {
	owners, parts := map[engine.Unit][]string{}, map[engine.Unit][]string{}
	for _, m := range members {
		for _, u := range m.Units {
			owners[u.Unit] = append(owners[u.Unit], m.ID)
			if whole := u.Unit.Whole(); whole != u.Unit {
				parts[whole] = append(parts[whole], m.ID)
			}
		}
	}
	for _, s := range take {
		found := slices.Concat(owners[s.Unit], parts[s.Unit])
		if whole := s.Unit.Whole(); whole != s.Unit {
			found = append(found, owners[whole]...)
		}
		if len(found) > 0 {
			units++
			ids = append(ids, found...)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids), units
}

// trust remembers what one of the two kinds of calls says of the engine. It is trusted while it answers both.
func (m *membership) trust(kind *error, text string, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err != nil && *kind == nil {
		m.logger.Warn(text, "err", err)
	}
	*kind = err
	switch {
	case m.unread != nil || m.unheard != nil:
		m.trusted = time.Time{}
	case m.trusted.IsZero():
		m.trusted = time.Now()
	}
}

// problem returns why the engine does not take the announcements of this replica. idle means that this replica has
// published nothing of late: then it also believes what other members say of the engine.
func (m *membership) problem(idle bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.unheard != nil:
		return fmt.Errorf("the engine does not take the reports of this replica: %w", m.unheard)
	case m.unread != nil:
		return fmt.Errorf("the engine does not say who shares the work: %w", m.unread)
	case idle && m.refused != "":
		return errors.New(m.refused)
	}
	return nil
}

// observe remembers who has joined again, and returns what this replica shares with the members that have done so
// within their lease. It uses the clock of this process only.
func (m *membership) observe(members []engine.Member) share {
	m.mu.Lock()
	defer m.mu.Unlock()
	seen := map[string]observed{}
	m.refused = ""
	var alive []engine.Member
	for _, member := range members {
		s, known := m.seen[member.ID]
		if !known || s.revision != member.Revision {
			s = observed{member.Revision, time.Now(), member.Lease}
		}
		seen[member.ID] = s
		if !s.alive() {
			continue
		}
		alive = append(alive, member)
		if member.Refused != "" && member.ID != m.self.ID {
			m.refused = fmt.Sprintf("the engine does not accept the messages of %s: %s", member.ID, member.Refused)
		}
	}
	m.seen = seen
	s := share{me: m.self.ID, ids: sharing(alive, m.self.Config, m.self.ID)}
	for _, member := range alive {
		if member.Config != m.self.Config && !member.Leaving && member.ID != m.self.ID {
			s.others = append(s.others, member)
		}
	}
	m.expires = s.mine(engine.Unit{})
	return s
}

// isMember reports whether another replica has joined within its lease.
func (m *membership) isMember(id string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.seen[id].alive()
}

// alive reports whether another replica is a member, or may be one that could not announce itself yet, because the
// engine was down, or this replica has just started.
func (m *membership) alive(id string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	justTrusted := m.trusted.IsZero() || time.Since(m.trusted) < m.self.Lease
	return id != m.self.ID && (m.seen[id].alive() || justTrusted)
}

// mayExpire reports whether this replica removes what is left of deleted objects. One replica does.
func (m *membership) mayExpire() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.expires
}

// leave announces that this replica takes no more units, so that the others begin to wait for those that it has.
func (m *membership) leave(ctx context.Context) {
	m.mu.Lock()
	m.leaving = true
	m.mu.Unlock()
	m.join(ctx)
}

// end announces that this replica has ended.
func (m *membership) end(ctx context.Context) error { return m.group.Leave(ctx, m.self.ID) }

// me describes this replica, without its units.
func (m *membership) me() engine.Member {
	m.mu.Lock()
	defer m.mu.Unlock()
	me := m.self
	me.Leaving = m.leaving
	return me
}

// share says which units a replica should own, among those that share them.
type share struct {
	me     string
	ids    []string        // me, too
	others []engine.Member // alive, with another configuration
}

// mine reports whether this replica should own a unit.
func (s share) mine(u engine.Unit) bool { return ownerOf(u, s.ids) == s.me }

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
