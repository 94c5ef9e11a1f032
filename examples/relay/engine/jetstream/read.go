package jetstream

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"net/url"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/gvrwatch/gvrwatch/examples/relay/engine"
)

// silence is how long a reader waits for a message that the server has.
const silence = 10 * time.Second

// readAhead is how many messages a reader asks for at once.
const readAhead = 2000

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
func (l *Log) Positions(ctx context.Context, r engine.Unit) ([]engine.Entry, error) {
	filter := l.options.Prefix + "-position.>"
	if r.Resource != "" {
		filter = l.options.Prefix + "-position." + resourceSubject(r) + ".*"
	}
	return last(ctx, l, filter, true, func(m received) (e engine.Entry, err error) {
		e.Revision = m.sequence
		if e.Unit, _, err = l.parse(m.subject); err == nil {
			err = json.Unmarshal(m.data, &e.Position)
		}
		return e, err
	})
}

// Objects implements engine.Log.
func (l *Log) Objects(ctx context.Context, u engine.Unit, data bool) ([]engine.Message, error) {
	namespace := "*"
	if u.Namespace != "" {
		namespace = escape(u.Namespace)
	}
	all, err := last(ctx, l, l.options.Prefix+"."+resourceSubject(u)+"."+namespace+".*", data, l.decode)
	return slices.DeleteFunc(all, func(m engine.Message) bool { return m.UID == "" }), err
}

// Expire implements engine.Log.
func (l *Log) Expire(ctx context.Context, before time.Time) error {
	s, err := l.js.Stream(ctx, l.options.Stream)
	if err != nil {
		return err
	}
	old := map[string]uint64{}
	_, err = l.readLast(ctx, s, l.options.Prefix+".>", false, func(m received) error {
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
		if err := l.purge(ctx, s, subject, sequence); err != nil {
			return err
		}
	}
	return l.expirePositions(ctx, s, before)
}

func (l *Log) expirePositions(ctx context.Context, s jetstream.Stream, before time.Time) error {
	old := map[string]uint64{}
	_, err := l.readLast(ctx, s, l.options.Prefix+"-position.>", true, func(m received) error {
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
		u, _, err := l.parse(subject)
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
		for _, subject := range []string{subject, l.messageSubject(&engine.Message{Unit: u})} {
			if err := l.purge(ctx, s, subject, sequence); err != nil {
				return err
			}
		}
	}
	return nil
}

// purge removes the messages of a subject up to a sequence. What was published since stays: an object may come back
// when etcd is restored, and a unit may be taken.
func (l *Log) purge(ctx context.Context, s jetstream.Stream, subject string, upTo uint64) error {
	err := s.Purge(ctx, jetstream.WithPurgeSubject(subject), jetstream.WithPurgeSequence(upTo+1))
	if err != nil {
		return fmt.Errorf("purge stream %q: %w", l.options.Stream, err)
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

// received is a message with its place in the stream.
type received struct {
	subject  string
	header   nats.Header
	data     []byte
	sequence uint64
	time     time.Time
}

func receivedOf(m jetstream.Msg) (received, *jetstream.MsgMetadata, error) {
	meta, err := m.Metadata()
	if err != nil {
		return received{}, nil, err
	}
	return received{m.Subject(), m.Headers(), m.Data(), meta.Sequence.Stream, meta.Timestamp}, meta, nil
}

// last returns the last message of each subject that matches, in the order of the stream.
func last[T any](
	ctx context.Context, l *Log, filter string, data bool, decode func(received) (T, error),
) ([]T, error) {
	s, err := l.js.Stream(ctx, l.options.Stream)
	if err != nil {
		return nil, err
	}
	type decoded struct {
		sequence uint64
		value    T
	}
	found := map[string]decoded{}
	add := func(m received) error {
		if !data {
			m.data = nil
		}
		value, err := decode(m)
		found[m.subject] = decoded{m.sequence, value}
		return err
	}
	read, err := l.readLast(ctx, s, filter, data, add)
	if err == nil {
		known := func(subject string) bool { _, ok := found[subject]; return ok }
		err = l.readMissing(ctx, s, filter, read, known, add)
	}
	if err != nil {
		return nil, err
	}
	var all []T
	for _, d := range slices.SortedFunc(maps.Values(found), func(a, b decoded) int {
		return cmp.Compare(a.sequence, b.sequence)
	}) {
		all = append(all, d.value)
	}
	return all, nil
}

// readLast calls f with the last message of each subject that matches, and with newer ones. It returns the sequence of
// the last message that it has read. It may miss a subject whose message was removed before it was read, because newer
// ones came: the last of these may be behind the returned sequence.
func (l *Log) readLast(
	ctx context.Context, s jetstream.Stream, filter string, data bool, f func(received) error,
) (upTo uint64, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("read stream %q: %w", l.options.Stream, cmp.Or(context.Cause(ctx), err))
		}
	}()
	newest, err := s.GetLastMsgForSubject(ctx, filter) // of the leader: see Position
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	// Not an ordered consumer: after a lost connection, that goes on with all messages.
	c, err := s.CreateConsumer(ctx, jetstream.ConsumerConfig{
		FilterSubject: filter, DeliverPolicy: jetstream.DeliverLastPerSubjectPolicy, HeadersOnly: !data,
		AckPolicy: jetstream.AckNonePolicy, MemoryStorage: true, Replicas: 1, InactiveThreshold: 3 * silence,
	})
	if err != nil {
		return 0, err
	}
	defer func() {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = s.DeleteConsumer(end, c.CachedInfo().Name) // or the server does, later
	}()
	messages, err := c.Messages(jetstream.PullMaxMessages(readAhead))
	if err != nil {
		return 0, err
	}
	defer messages.Stop()
	for read := uint64(1); ; read++ {
		wait, cancel := context.WithTimeout(ctx, silence)
		next, err := messages.Next(jetstream.NextContext(wait))
		cancel()
		if err != nil {
			return 0, err
		}
		m, meta, err := receivedOf(next)
		if err != nil {
			return 0, err
		}
		if meta.Sequence.Consumer != read {
			return 0, errors.New("messages were lost with the connection: try again")
		}
		if err := f(m); err != nil {
			return 0, err
		}
		// Not when nothing is pending, which a server that lags behind may say. With more than a message of a subject,
		// the number is wrong, too.
		if m.sequence >= newest.Sequence {
			return m.sequence, nil
		}
	}
}

// readMissing calls f with the last message of each subject that readLast has missed. As a rule nothing was published
// after what it has read, so it has missed none.
func (l *Log) readMissing(
	ctx context.Context, s jetstream.Stream, filter string, read uint64, known func(subject string) bool,
	f func(received) error,
) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("read stream %q: %w", l.options.Stream, err)
		}
	}()
	newest, err := s.GetLastMsgForSubject(ctx, filter)
	if errors.Is(err, jetstream.ErrMsgNotFound) || err == nil && newest.Sequence <= read {
		return nil
	}
	if err != nil {
		return err
	}
	info, err := s.Info(ctx, jetstream.WithSubjectFilter(filter))
	if err != nil {
		return err
	}
	for subject := range info.State.Subjects {
		if known(subject) {
			continue
		}
		m, err := s.GetLastMsgForSubject(ctx, subject)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			continue
		}
		if err == nil {
			err = f(received{m.Subject, m.Header, m.Data, m.Sequence, m.Time})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// consume yields the messages of a consumer. Until the end means until it has caught up.
func (l *Log) consume(ctx context.Context, cfg jetstream.OrderedConsumerConfig, end bool) iter.Seq2[received, error] {
	return func(yield func(received, error) bool) {
		fail := func(err error) {
			yield(received{}, fmt.Errorf("read stream %q: %w", l.options.Stream, cmp.Or(context.Cause(ctx), err)))
		}
		cfg.InactiveThreshold = 3 * silence
		c, err := l.js.OrderedConsumer(ctx, l.options.Stream, cfg)
		if err != nil {
			fail(err)
			return
		}
		if end && c.CachedInfo().NumPending == 0 {
			return
		}
		messages, err := c.Messages(jetstream.PullMaxMessages(readAhead))
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
				fail(err)
				return
			}
			out, meta, err := receivedOf(m)
			if err != nil {
				fail(err)
				return
			}
			if !yield(out, nil) || end && meta.NumPending == 0 {
				return
			}
		}
	}
}

func (l *Log) decode(m received) (out engine.Message, err error) {
	if out.Unit, out.UID, err = l.parse(m.subject); err != nil {
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
