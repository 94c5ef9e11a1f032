package jetstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/gvrwatch/gvrwatch/examples/relay/engine"
)

// maxStatus is the most units that a member describes: about 200 bytes each, while a value may have 1 MiB.
const maxStatus = 2000

// Join implements engine.Group. The server removes the key after the lease, so no clocks are compared.
func (l *Log) Join(ctx context.Context, m engine.Member) error {
	m.Units = m.Units[:min(len(m.Units), maxStatus)]
	m.Waiting = m.Waiting[:min(len(m.Waiting), maxStatus)]
	data, err := json.Marshal(m)
	if err != nil {
		return err
	}
	if _, err := l.members.Put(ctx, escape(m.ID), data); err != nil {
		return fmt.Errorf("join the group: %w", err)
	}
	return nil
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
	w, err := l.members.WatchAll(ctx, jetstream.IgnoreDeletes())
	if err != nil {
		return nil, fmt.Errorf("read the members: %w", err)
	}
	defer w.Stop()
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
			m.Revision = e.Revision()
			all = append(all, m)
		}
	}
}
