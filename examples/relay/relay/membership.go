package relay

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
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
	cause   error     // why it does not
	refused string    // what another member says of the engine, which refuses its messages
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
		wait(ctx, m.self.Lease/5)
	}
}

// join announces this replica.
func (m *membership) join(ctx context.Context) {
	asked, cancel := context.WithTimeout(ctx, m.self.Lease/3)
	defer cancel()
	m.trust(m.group.Join(asked, m.status()))
}

// read returns the members as the engine has them: see observe.
func (m *membership) read(ctx context.Context) ([]engine.Member, error) { return m.group.Members(ctx) }

// trust remembers whether the engine answers.
func (m *membership) trust(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.cause = err
	switch {
	case err != nil:
		if !m.trusted.IsZero() {
			m.logger.Warn("the engine does not say who shares the work; trying again", "err", err)
		}
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
	case m.cause != nil:
		return fmt.Errorf("the engine does not take the reports of this replica: %w", m.cause)
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
	me  string
	ids []string // me, too
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
