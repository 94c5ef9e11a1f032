package jetstream

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/gvrwatch/gvrwatch/examples/relay/engine"
)

// Position implements engine.Log.
func (l *Log) Position(ctx context.Context, u engine.Unit) (engine.Entry, error) {
	m, err := l.reader.newest(ctx, l.subjects.position(u))
	if err != nil {
		return engine.Entry{}, fmt.Errorf("read the position of %s: %w", u, err)
	}
	if m == nil {
		return engine.Entry{}, nil
	}
	e := engine.Entry{Unit: u, Revision: m.Sequence}
	if err := json.Unmarshal(m.Data, &e.Position); err != nil {
		return engine.Entry{}, fmt.Errorf("the position of %s is damaged: %w", u, err)
	}
	return e, nil
}

// Positions implements engine.Log.
func (l *Log) Positions(ctx context.Context, r engine.Unit) ([]engine.Entry, error) {
	return last(ctx, l.reader, l.subjects.positions(r), true, kind[engine.Entry, engine.Unit]{
		key:      func(e engine.Entry) engine.Unit { return e.Unit },
		subject:  func(e engine.Entry) string { return l.subjects.position(e.Unit) },
		revision: func(e engine.Entry) uint64 { return e.Revision },
		decode: func(m received) (e engine.Entry, err error) {
			e.Revision = m.sequence
			if e.Unit, _, err = l.subjects.parse(m.subject); err == nil {
				err = json.Unmarshal(m.data, &e.Position)
			}
			return e, err
		},
	})
}

// Objects implements engine.Log.
func (l *Log) Objects(ctx context.Context, u engine.Unit, data bool) ([]engine.Message, error) {
	decode := l.decode
	if !data {
		decode = l.decodeCompact(u)
	}
	type object struct{ namespace, uid string } // the uid of marks is empty: they are left out in the end
	all, err := last(ctx, l.reader, l.subjects.messagesOf(u), data, kind[engine.Message, object]{
		key:      func(m engine.Message) object { return object{m.Unit.Namespace, m.UID} },
		subject:  func(m engine.Message) string { return l.subjects.message(&m) },
		revision: func(m engine.Message) uint64 { return m.Revision },
		decode:   decode,
	})
	return slices.DeleteFunc(all, func(m engine.Message) bool { return m.UID == "" }), err
}

// decodeCompact returns a function that decodes messages of a resource without their data and IDs, and keeps none of
// the memory of a message.
func (l *Log) decodeCompact(u engine.Unit) func(received) (engine.Message, error) {
	texts := map[string]string{}
	shared := func(s string) string {
		if _, known := texts[s]; !known {
			s = strings.Clone(s)
			texts[s] = s
		}
		return texts[s]
	}
	return func(m received) (engine.Message, error) {
		out, err := l.decode(m)
		out.Unit.Cluster, out.Unit.Group, out.Unit.Resource = u.Cluster, u.Group, u.Resource
		out.Unit.Namespace, out.Type = shared(out.Unit.Namespace), engine.Type(shared(string(out.Type)))
		out.Name, out.UID = strings.Clone(out.Name), strings.Clone(out.UID)
		out.ResourceVersion, out.ID = strings.Clone(out.ResourceVersion), ""
		return out, err
	}
}

// Expire implements engine.Log.
func (l *Log) Expire(ctx context.Context, before time.Time) error {
	s, err := l.js.Stream(ctx, l.options.Stream)
	if err != nil {
		return err
	}
	old := map[string]uint64{}
	_, err = l.reader.readLast(ctx, s, l.subjects.messages(), false, func(m received) error {
		delete(old, m.subject)
		if m.header.Get(headerType) == string(engine.Deleted) && m.time.Before(before) {
			old[m.subject] = m.sequence
		}
		return nil
	})
	if err != nil {
		return err
	}
	for subject, sequence := range old {
		if err := purge(ctx, s, subject, sequence); err != nil {
			return err
		}
	}
	return l.expirePositions(ctx, s, before)
}

func (l *Log) expirePositions(ctx context.Context, s jetstream.Stream, before time.Time) error {
	old := map[string]uint64{}
	_, err := l.reader.readLast(ctx, s, l.subjects.positions(engine.Unit{}), true, func(m received) error {
		delete(old, m.subject)
		var p engine.Position
		err := json.Unmarshal(m.data, &p)
		if err == nil && p.Owner == "" && m.time.Before(before) {
			old[m.subject] = m.sequence
		}
		return err
	})
	if err != nil {
		return err
	}
	for subject, sequence := range old {
		u, _, err := l.subjects.parse(subject)
		if err != nil {
			return err
		}
		objects, err := l.Objects(ctx, u, false)
		if err != nil {
			return err
		}
		if len(objects) > 0 {
			continue
		}
		synced, skipped := &engine.Message{Unit: u}, &engine.Message{Unit: u, Type: engine.Skipped}
		// The position is the last: without it, the others would not be found again.
		for _, subject := range []string{l.subjects.message(synced), l.subjects.message(skipped), subject} {
			if err := purge(ctx, s, subject, sequence); err != nil {
				return err
			}
		}
	}
	return nil
}

// purge removes the messages of a subject up to a sequence. What was published since stays: an object may come back
// when etcd is restored, and a unit may be taken.
func purge(ctx context.Context, s jetstream.Stream, subject string, upTo uint64) error {
	err := s.Purge(ctx, jetstream.WithPurgeSubject(subject), jetstream.WithPurgeSequence(upTo+1))
	if err != nil {
		return fmt.Errorf("purge stream %q: %w", s.CachedInfo().Config.Name, err)
	}
	return nil
}

// Tail implements engine.Log.
func (l *Log) Tail(ctx context.Context, o engine.TailOptions) iter.Seq2[engine.Message, error] {
	cfg := jetstream.OrderedConsumerConfig{
		FilterSubjects: []string{or(o.Pattern, l.subjects.messages())}, DeliverPolicy: jetstream.DeliverNewPolicy,
	}
	if o.Pattern == "" && len(o.Units) > 0 {
		cfg.FilterSubjects = nil
		for _, u := range o.Units {
			cfg.FilterSubjects = append(cfg.FilterSubjects, l.subjects.messagesOf(u))
		}
	}
	switch {
	case !o.All && !o.Since.IsZero():
		cfg.DeliverPolicy, cfg.OptStartTime = jetstream.DeliverByStartTimePolicy, &o.Since
	case o.All || o.UntilEnd:
		cfg.DeliverPolicy = jetstream.DeliverAllPolicy
	}
	return func(yield func(engine.Message, error) bool) {
		for m, err := range l.reader.consume(ctx, cfg, o.UntilEnd) {
			var out engine.Message
			if err == nil {
				out, err = l.decode(m)
			}
			if !yield(out, err) || err != nil {
				return
			}
		}
	}
}

// decode returns the message as it was published.
func (l *Log) decode(m received) (out engine.Message, err error) {
	if out.Unit, out.UID, err = l.subjects.parse(m.subject); err != nil {
		return out, err
	}
	for name, field := range map[string]*string{
		headerName: &out.Name, headerVersion: &out.ResourceVersion, headerID: &out.ID, headerType: (*string)(&out.Type),
	} {
		if *field, err = url.QueryUnescape(m.header.Get(name)); err != nil {
			return out, fmt.Errorf("message %d: header %s: %w", m.sequence, name, err)
		}
	}
	out.Revision, out.Time, out.Data = m.sequence, m.time, m.data
	return out, nil
}
