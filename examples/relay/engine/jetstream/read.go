package jetstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/url"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/gvrwatch/gvrwatch/examples/relay/engine"
)

// silence is how long a reader waits for a message that the server has.
const silence = 10 * time.Second

// Position implements engine.Log.
func (l *Log) Position(ctx context.Context, u engine.Unit) (engine.Entry, error) {
	s, err := l.js.Stream(ctx, l.options.Stream)
	if err != nil {
		return engine.Entry{}, err
	}
	// The leader answers, because the stream has not AllowDirect. Others may lag behind.
	m, err := s.GetLastMsgForSubject(ctx, l.positionSubject(u))
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return engine.Entry{}, nil
	}
	if err != nil {
		return engine.Entry{}, fmt.Errorf("read the position of %s: %w", u, err)
	}
	e := engine.Entry{Unit: u, Revision: m.Sequence}
	if err := json.Unmarshal(m.Data, &e.Position); err != nil {
		return engine.Entry{}, fmt.Errorf("the position of %s is damaged: %w", u, err)
	}
	return e, nil
}

// Positions implements engine.Log.
func (l *Log) Positions(ctx context.Context, r engine.Unit) iter.Seq2[engine.Entry, error] {
	filter := l.options.Prefix + "-position.>"
	if r.Resource != "" {
		filter = l.options.Prefix + "-position." + resourceSubject(r) + ".*"
	}
	return func(yield func(engine.Entry, error) bool) {
		for m, err := range l.last(ctx, true, filter) {
			var e engine.Entry
			if err == nil {
				e.Revision = m.sequence
				if e.Unit, _, err = l.parse(m.Subject()); err == nil {
					err = json.Unmarshal(m.Data(), &e.Position)
				}
			}
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}

// Objects implements engine.Log.
func (l *Log) Objects(ctx context.Context, u engine.Unit, data bool) iter.Seq2[engine.Message, error] {
	namespace := "*"
	if u.Namespace != "" {
		namespace = escape(u.Namespace)
	}
	filter := l.options.Prefix + "." + resourceSubject(u) + "." + namespace + ".*"
	return func(yield func(engine.Message, error) bool) {
		// The server that reads may lag behind the leader, unless it has the position.
		want, err := l.Position(ctx, u)
		if err != nil {
			yield(engine.Message{}, err)
			return
		}
		var reached uint64
		for m, err := range l.last(ctx, data, filter, l.positionSubject(u)) {
			if err == nil && m.Subject() == l.positionSubject(u) {
				reached = m.sequence
				continue
			}
			var out engine.Message
			if err == nil {
				out, err = l.decode(m)
			}
			if err == nil && out.UID == "" {
				continue
			}
			if !yield(out, err) || err != nil {
				return
			}
		}
		if reached < want.Revision {
			yield(engine.Message{}, fmt.Errorf("read the objects of %s: the server lags behind: try again", u))
		}
	}
}

// Expire implements engine.Log.
func (l *Log) Expire(ctx context.Context, before time.Time) error {
	s, err := l.js.Stream(ctx, l.options.Stream)
	if err != nil {
		return err
	}
	for m, err := range l.last(ctx, false, l.options.Prefix+".>") {
		if err != nil {
			return err
		}
		if m.Headers().Get(headerType) != string(engine.Deleted) || !m.time.Before(before) {
			continue
		}
		// Not what was published since: an object may come back when etcd is restored.
		err := s.Purge(ctx, jetstream.WithPurgeSubject(m.Subject()), jetstream.WithPurgeSequence(m.sequence+1))
		if err != nil {
			return fmt.Errorf("remove a deleted object: %w", err)
		}
	}
	return nil
}

// Tail implements engine.Log.
func (l *Log) Tail(ctx context.Context, o engine.TailOptions) iter.Seq2[engine.Message, error] {
	cfg := jetstream.OrderedConsumerConfig{
		FilterSubjects: []string{or(o.Pattern, l.options.Prefix+".>")}, DeliverPolicy: jetstream.DeliverNewPolicy,
	}
	if o.All || o.UntilEnd {
		cfg.DeliverPolicy = jetstream.DeliverAllPolicy
	}
	return func(yield func(engine.Message, error) bool) {
		for m, err := range l.consume(ctx, cfg, o.UntilEnd) {
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

// last yields the last message of each subject.
func (l *Log) last(ctx context.Context, data bool, filters ...string) iter.Seq2[received, error] {
	all := l.consume(ctx, jetstream.OrderedConsumerConfig{
		FilterSubjects: filters, DeliverPolicy: jetstream.DeliverLastPerSubjectPolicy, HeadersOnly: !data,
	}, true)
	return func(yield func(received, error) bool) {
		var read uint64
		for m, err := range all {
			if read++; err == nil && m.consumed != read {
				// The consumer was created again after a lost connection, and has all messages since then.
				m, err = received{}, fmt.Errorf("read stream %q: interrupted: try again", l.options.Stream)
			}
			if !yield(m, err) || err != nil {
				return
			}
		}
	}
}

// received is a message with its place in the stream.
type received struct {
	jetstream.Msg
	sequence uint64
	consumed uint64 // its number among those of the consumer
	time     time.Time
}

// consume yields the messages of a consumer. Until the end means that of the messages which existed when it began.
func (l *Log) consume(ctx context.Context, cfg jetstream.OrderedConsumerConfig, end bool) iter.Seq2[received, error] {
	return func(yield func(received, error) bool) {
		fail := func(err error) { yield(received{}, fmt.Errorf("read stream %q: %w", l.options.Stream, err)) }
		c, err := l.js.OrderedConsumer(ctx, l.options.Stream, cfg)
		if err != nil {
			fail(err)
			return
		}
		left := c.CachedInfo().NumPending
		if end && left == 0 {
			return
		}
		messages, err := c.Messages(jetstream.PullMaxMessages(2000))
		if err != nil {
			fail(err)
			return
		}
		defer messages.Stop()
		for {
			wait, cancel := ctx, context.CancelFunc(func() {})
			if end {
				wait, cancel = context.WithTimeout(ctx, silence)
			}
			m, err := messages.Next(jetstream.NextContext(wait))
			cancel()
			if err != nil {
				if ctx.Err() != nil {
					err = context.Cause(ctx)
				}
				fail(err)
				return
			}
			meta, err := m.Metadata()
			if err != nil {
				fail(err)
				return
			}
			if !yield(received{m, meta.Sequence.Stream, meta.Sequence.Consumer, meta.Timestamp}, nil) {
				return
			}
			if left--; end && (left == 0 || meta.NumPending == 0) {
				return
			}
		}
	}
}

func (l *Log) decode(m received) (out engine.Message, err error) {
	if out.Unit, out.UID, err = l.parse(m.Subject()); err != nil {
		return out, err
	}
	h := m.Headers()
	for name, field := range map[string]*string{
		headerName: &out.Name, headerVersion: &out.ResourceVersion, headerID: &out.ID, headerType: (*string)(&out.Type),
	} {
		if *field, err = url.QueryUnescape(h.Get(name)); err != nil {
			return out, fmt.Errorf("message %d: header %s: %w", m.sequence, name, err)
		}
	}
	out.Revision, out.Time = m.sequence, m.time
	if out.Data = m.Data(); h.Get(nats.MsgSize) != "" {
		out.Data = nil
	}
	return out, nil
}
