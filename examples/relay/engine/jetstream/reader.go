package jetstream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// silence is how long a reader waits for a message that the server has.
const silence = 10 * time.Second

// pull is how readers ask for messages. In a cluster the first request to a consumer that was made on another server
// may be lost, because the server of the connection does not know it yet. Then there is no heartbeat, and after two the
// client asks again.
//
// More messages at once would delay the answers to other requests of the connection: a slow one would seem dead.
var pull = []jetstream.PullMessagesOpt{
	jetstream.PullMaxMessages(256), jetstream.PullHeartbeat(500 * time.Millisecond),
	jetstream.WithMessagesErrOnMissingHeartbeat(false),
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

// reader reads a stream.
type reader struct {
	js     jetstream.JetStream
	leader nats.JetStreamManager
	stream string
}

// info returns what the server says of the stream, with its time.
func (r reader) info(ctx context.Context) (*jetstream.StreamInfo, error) {
	s, err := r.js.Stream(ctx, r.stream)
	if err != nil {
		return nil, fmt.Errorf("stream %q: %w", r.stream, err)
	}
	return s.CachedInfo(), nil
}

// hasRoom returns an error if the stream is gone, or full.
func (r reader) hasRoom(ctx context.Context) error {
	const least = 4 << 10 // a small message, with what the stream adds to it
	i, err := r.info(ctx)
	if err != nil {
		return err
	}
	if most := i.Config.MaxBytes; most > 0 && i.State.Bytes+least > uint64(most) {
		return fmt.Errorf("stream %q is full: it has %d bytes, max_bytes is %d (log.maxBytes when it was created)",
			r.stream, i.State.Bytes, most)
	}
	return nil
}

// newest returns the last message that matches, or nil. The leader of the stream answers: a copy may lag behind, and
// Stream.GetLastMsgForSubject asks any of them where allow_direct is set.
func (r reader) newest(ctx context.Context, filter string) (*nats.RawStreamMsg, error) {
	ctx, cancel := context.WithTimeout(ctx, answer)
	defer cancel()
	m, err := r.leader.GetLastMsg(r.stream, filter, nats.Context(ctx))
	if errors.Is(err, nats.ErrMsgNotFound) {
		return nil, nil
	}
	return m, err
}

// kind says how values are read from messages. The values of a subject have the same key, and no others have it.
type kind[T any, K comparable] struct {
	decode   func(received) (T, error)
	key      func(T) K
	subject  func(T) string
	revision func(T) uint64
}

// last returns the last message of each subject that matches, in the order of the stream. It keeps nothing else of
// them: there may be hundreds of thousands.
func last[T any, K comparable](ctx context.Context, r reader, filter string, data bool, k kind[T, K]) ([]T, error) {
	s, err := r.js.Stream(ctx, r.stream)
	if err != nil {
		return nil, err
	}
	var all []T
	found := map[K]int{} // indices in all
	sorted := true
	add := func(m received) error {
		if !data {
			m.data = nil
		}
		value, err := k.decode(m)
		if err != nil {
			return fmt.Errorf("message %d (%s) is damaged: %w", m.sequence, m.subject, err)
		}
		if i, known := found[k.key(value)]; known {
			all[i], sorted = value, false
			return nil
		}
		found[k.key(value)] = len(all)
		all = append(all, value)
		return nil
	}
	read, err := r.readLast(ctx, s, filter, data, add)
	if err != nil {
		return nil, err
	}
	known := sync.OnceValue(func() map[string]bool {
		subjects := map[string]bool{}
		for _, v := range all {
			subjects[k.subject(v)] = true
		}
		return subjects
	})
	isKnown := func(subject string) bool { return known()[subject] }
	before := len(all)
	if err := r.readMissing(ctx, s, filter, read, isKnown, add); err != nil {
		return nil, err
	}
	if len(all) > before || !sorted {
		slices.SortFunc(all, func(a, b T) int { return cmp.Compare(k.revision(a), k.revision(b)) })
	}
	return all, nil
}

// readLast calls f with the last message of each subject that matches, and with newer ones, in the order of the stream.
// It returns the sequence of
// the last message that it has read. It may miss a subject whose message was removed before it was read, because newer
// ones came: the last of these may be behind the returned sequence.
func (r reader) readLast(
	ctx context.Context, s jetstream.Stream, filter string, data bool, f func(received) error,
) (upTo uint64, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("read stream %q: %w", r.stream, cmp.Or(context.Cause(ctx), err))
		}
	}()
	newest, err := r.newest(ctx, filter)
	if err != nil || newest == nil {
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
	messages, err := c.Messages(pull...)
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
func (r reader) readMissing(
	ctx context.Context, s jetstream.Stream, filter string, read uint64, known func(subject string) bool,
	f func(received) error,
) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("read stream %q: %w", r.stream, err)
		}
	}()
	newest, err := r.newest(ctx, filter)
	if err != nil || newest == nil || newest.Sequence <= read {
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
		m, err := r.newest(ctx, subject)
		if err == nil && m != nil {
			err = f(received{m.Subject, m.Header, m.Data, m.Sequence, m.Time})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// consume yields the messages of a consumer. Until the end means until it has caught up.
func (r reader) consume(ctx context.Context, cfg jetstream.OrderedConsumerConfig, end bool) iter.Seq2[received, error] {
	return func(yield func(received, error) bool) {
		fail := func(err error) {
			yield(received{}, fmt.Errorf("read stream %q: %w", r.stream, cmp.Or(context.Cause(ctx), err)))
		}
		cfg.InactiveThreshold = 3 * silence
		c, err := r.js.OrderedConsumer(ctx, r.stream, cfg)
		if err != nil {
			fail(err)
			return
		}
		if end && c.CachedInfo().NumPending == 0 {
			return
		}
		messages, err := c.Messages(pull...)
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
