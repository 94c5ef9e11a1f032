package engine

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// Memory is a Log and a Group for tests. It keeps every message. The zero Memory is ready for use.
type Memory struct {
	// Fail, if set, is called before each Publish. An error of it is the error of Publish.
	Fail func(parts []Part) error
	// Max are the Limits. Zero fields mean 1,000 messages, 1 MiB and 64 MiB.
	Max Limits
	// Break, if set, is what Failed returns.
	Break chan error

	mu        sync.Mutex
	revision  uint64
	messages  []Message
	positions map[Unit]Entry
	set       map[Unit]time.Time // when the position was
	members   map[string]Member
	joined    map[string]time.Time // by ID
	changed   chan struct{}        // closed and replaced by each Publish
}

type object struct {
	unit Unit // with the object's namespace
	uid  string
}

var (
	_ Log   = (*Memory)(nil)
	_ Group = (*Memory)(nil)
)

// Limits implements Log.
func (m *Memory) Limits() Limits {
	l := m.Max
	if l.Messages == 0 {
		l.Messages = 1000
	}
	if l.MessageBytes == 0 {
		l.MessageBytes = 1 << 20
	}
	if l.Bytes == 0 {
		l.Bytes = 64 << 20
	}
	return l
}

// longestIdentity is in bytes: of the uid, the name and the version of a message.
const longestIdentity = 4 << 10

// Check implements Log.
func (m *Memory) Check(msg Message) error {
	if most := m.Limits().MessageBytes; len(msg.Data) > most {
		return fmt.Errorf("%w: a message has %d bytes, %d at most", ErrTooLarge, len(msg.Data), most)
	}
	if n := len(msg.UID) + len(msg.Name) + len(msg.ResourceVersion); n > longestIdentity {
		return fmt.Errorf("%w: what identifies a message has %d bytes, %d at most", ErrTooLarge, n, longestIdentity)
	}
	return nil
}

// Failed implements Log.
func (m *Memory) Failed() <-chan error { return m.Break }

// Position implements Log.
func (m *Memory) Position(_ context.Context, u Unit) (Entry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.positions[u], nil
}

// Positions implements Log.
func (m *Memory) Positions(_ context.Context, r Unit) ([]Entry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var found []Entry
	for u, e := range m.positions {
		if r.Resource == "" || u.Whole() == r.Whole() {
			found = append(found, e)
		}
	}
	slices.SortFunc(found, func(a, b Entry) int { return a.Unit.Compare(b.Unit) })
	return found, nil
}

// Publish implements Log.
func (m *Memory) Publish(_ context.Context, parts []Part) ([]uint64, error) {
	if m.Fail != nil {
		if err := m.Fail(parts); err != nil {
			return nil, err
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	n, bytes, limits := len(parts), 0, m.Limits()
	for _, p := range parts {
		if e := m.positions[p.Unit]; e.Revision != p.Revision {
			return nil, fmt.Errorf("publish %s: %w: revision %d, want %d", p.Unit, ErrFenced, e.Revision, p.Revision)
		}
		n += len(p.Messages)
		for _, msg := range p.Messages {
			bytes += len(msg.Data)
			if err := m.Check(msg); err != nil {
				return nil, fmt.Errorf("publish %s: %w", p.Unit, err)
			}
		}
	}
	if n > limits.Messages || bytes > limits.Bytes {
		return nil, fmt.Errorf("publish: %w: %d messages and %d bytes", ErrTooLarge, n, bytes)
	}
	if m.positions == nil {
		m.positions, m.set = map[Unit]Entry{}, map[Unit]time.Time{}
	}
	var revisions []uint64
	for _, p := range parts {
		for _, msg := range p.Messages {
			m.revision++
			msg.Revision, msg.Time = m.revision, time.Now()
			m.messages = append(m.messages, msg)
		}
		m.revision++
		m.positions[p.Unit] = Entry{Unit: p.Unit, Position: p.Position, Revision: m.revision}
		m.set[p.Unit] = time.Now()
		revisions = append(revisions, m.revision)
	}
	if m.changed != nil {
		close(m.changed)
		m.changed = nil
	}
	return revisions, nil
}

// Objects implements Log.
func (m *Memory) Objects(_ context.Context, u Unit, data bool) ([]Message, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	last := map[object]Message{}
	for _, msg := range m.messages {
		if msg.UID == "" || msg.Unit.Whole() != u.Whole() || u.Namespace != "" && msg.Unit.Namespace != u.Namespace {
			continue
		}
		if !data {
			msg.Data, msg.ID = nil, ""
		}
		last[object{msg.Unit, msg.UID}] = msg
	}
	var found []Message
	for _, msg := range last {
		found = append(found, msg)
	}
	slices.SortFunc(found, func(a, b Message) int { return int(a.Revision) - int(b.Revision) })
	return found, nil
}

// Tail implements Log. It ignores Pattern.
func (m *Memory) Tail(ctx context.Context, opts TailOptions) iter.Seq2[Message, error] {
	m.mu.Lock()
	next := m.revision
	m.mu.Unlock()
	end := next
	if opts.All || opts.UntilEnd || !opts.Since.IsZero() {
		next = 0
	}
	if opts.All {
		opts.Since = time.Time{}
	}
	return func(yield func(Message, error) bool) {
		for {
			m.mu.Lock()
			var found []Message
			for _, msg := range m.messages {
				if msg.Revision > next && !msg.Time.Before(opts.Since) && opts.has(msg.Unit) {
					found = append(found, msg)
				}
			}
			if m.changed == nil {
				m.changed = make(chan struct{})
			}
			changed := m.changed
			m.mu.Unlock()
			for _, msg := range found {
				if opts.UntilEnd && msg.Revision > end {
					return
				}
				if next = msg.Revision; !yield(msg, nil) {
					return
				}
			}
			if opts.UntilEnd {
				return
			}
			select {
			case <-changed:
			case <-ctx.Done():
				yield(Message{}, context.Cause(ctx))
				return
			}
		}
	}
}

// has reports whether the messages of a unit match.
func (o TailOptions) has(u Unit) bool {
	return len(o.Units) == 0 || slices.Contains(o.Units, u) || slices.Contains(o.Units, u.Whole())
}

// Expire implements Log.
func (m *Memory) Expire(_ context.Context, before time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	last := map[object]Message{}
	for _, msg := range m.messages {
		last[object{msg.Unit, msg.UID}] = msg
	}
	m.messages = slices.DeleteFunc(m.messages, func(msg Message) bool {
		l := last[object{msg.Unit, msg.UID}]
		return l.Type == Deleted && l.Time.Before(before)
	})
	for u, e := range m.positions {
		of := func(msg Message) bool {
			return msg.UID != "" && msg.Unit.Whole() == u.Whole() && (u.Namespace == "" || msg.Unit == u)
		}
		if e.Position.Owner == "" && m.set[u].Before(before) && !slices.ContainsFunc(m.messages, of) {
			delete(m.positions, u)
			m.messages = slices.DeleteFunc(m.messages, func(msg Message) bool { return msg.Unit == u })
		}
	}
	return nil
}

// Join implements Group.
func (m *Memory) Join(_ context.Context, member Member) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.members == nil {
		m.members, m.joined = map[string]Member{}, map[string]time.Time{}
	}
	m.revision++
	member.Revision = m.revision
	m.members[member.ID], m.joined[member.ID] = member, time.Now()
	return nil
}

// Leave implements Group.
func (m *Memory) Leave(_ context.Context, id string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.members, id)
	return nil
}

// Members implements Group. It leaves out only those that have left.
func (m *Memory) Members(context.Context) ([]Member, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := slices.SortedFunc(maps.Values(m.members), func(a, b Member) int { return strings.Compare(a.ID, b.ID) })
	for i := range all {
		all[i].Age = time.Since(m.joined[all[i].ID])
	}
	return all, nil
}
