package jetstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/gvrwatch/gvrwatch/examples/relay/engine"
)

// Join implements engine.Group. The server removes the key some leases later, so no clocks are compared. What does not
// fit into a message is left out: some of thousands of units, say, first those that are well. It is also an error if
// the stream takes no messages: a member that has none to publish would not notice.
func (l *Log) Join(ctx context.Context, m engine.Member) error {
	data, err := json.Marshal(m)
	limit := l.Limits().MessageBytes
	if err == nil && len(data) > limit {
		m.Units = slices.SortedStableFunc(slices.Values(m.Units), func(a, b engine.UnitStatus) int {
			return ill(b) - ill(a)
		})
	}
	for err == nil && len(data) > limit && len(m.Units)+len(m.Waiting)+len(m.Problems) > 0 {
		m.Units, m.Waiting = m.Units[:len(m.Units)/2], m.Waiting[:len(m.Waiting)/2]
		m.Problems = m.Problems[:len(m.Problems)/2]
		data, err = json.Marshal(m)
	}
	if err != nil {
		return err
	}
	began := time.Now()
	if _, err = l.members.Put(ctx, escape(m.ID), data); err == nil {
		err = l.reader.hasRoom(ctx)
	}
	if err != nil {
		return fmt.Errorf("join the group: %w", l.connection.cause(ctx, began, err))
	}
	return nil
}

// ill returns 1 for a unit that has something to say of itself, and 0 for others.
func ill(u engine.UnitStatus) int {
	if u.Problem != "" || !u.Synced || u.Pending > 0 || u.Skipped > 0 {
		return 1
	}
	return 0
}

// Leave implements engine.Group.
func (l *Log) Leave(ctx context.Context, id string) error {
	if err := l.members.Purge(ctx, escape(id)); err != nil {
		return fmt.Errorf("leave the group: %w", err)
	}
	return nil
}

// Members implements engine.Group.
func (l *Log) Members(ctx context.Context) ([]engine.Member, error) {
	began := time.Now()
	w, err := l.members.WatchAll(ctx, jetstream.IgnoreDeletes())
	if err != nil {
		return nil, fmt.Errorf("read the members: %w", l.connection.cause(ctx, began, err))
	}
	defer w.Stop()
	info, err := l.reader.info(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the members: %w", l.connection.cause(ctx, began, err))
	}
	var all []engine.Member
	for {
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("read the members: %w", context.Cause(ctx))
		case e, ok := <-w.Updates():
			if !ok {
				return nil, errors.New("read the members: the connection is closed")
			}
			if e == nil { // all that exist have come
				slices.SortFunc(all, func(a, b engine.Member) int { return strings.Compare(a.ID, b.ID) })
				return all, nil
			}
			var m engine.Member
			if err := json.Unmarshal(e.Value(), &m); err != nil {
				return nil, fmt.Errorf("member %q is damaged: %w", e.Key(), err)
			}
			m.Revision, m.Age = e.Revision(), max(info.TimeStamp.Sub(e.Created()), 0)
			all = append(all, m)
		}
	}
}
