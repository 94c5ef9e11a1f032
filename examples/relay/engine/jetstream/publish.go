package jetstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/synadia-io/orbit.go/jetstreamext"

	"github.com/gvrwatch/gvrwatch/examples/relay/engine"
)

// The headers of a message, for readers that do not fetch its data. Their values are escaped as in the query of a URL.
const (
	headerType    = "Gvr-Type"
	headerName    = "Gvr-Name"
	headerVersion = "Gvr-Version"
	headerID      = "Gvr-Id"
)

// maxHeader is how many bytes the subject and the headers of a message may have, and maxSubject the subject alone. NATS
// has at most 64 KiB of headers; a line of its protocol of more than 4 KiB, which has the subject and that of the
// answer, ends the connection for good.
const (
	maxHeader  = 4 << 10
	maxSubject = 3 << 10
)

// Check implements engine.Log.
func (l *Log) Check(m engine.Message) error {
	if limit := l.Limits().MessageBytes; len(m.Data) > limit {
		return fmt.Errorf("%w: a message has %d bytes, %d at most", engine.ErrTooLarge, len(m.Data), limit)
	}
	if isShort(&m, l.subjects.prefix) {
		return nil
	}
	return checkHeader(l.message(&m))
}

// isShort reports whether what identifies a message is certainly not too long, as it is with all but hostile servers.
func isShort(m *engine.Message, prefix string) bool {
	const names, escaped = 256, 3 // bytes of all names of headers, and of each byte that is escaped
	u := m.Unit
	bytes := len(prefix) + len(u.Cluster) + len(u.Group) + len(u.Resource) + len(u.Namespace) + len(m.UID) +
		len(m.Name) + len(m.ResourceVersion) + len(m.Scope) + 2*len(m.ID) // also in Nats-Msg-Id
	return names+escaped*bytes < maxSubject-ofBatch
}

// ofBatch is how many bytes the headers of a batch have at most.
const ofBatch = 256

// checkHeader returns an error if what identifies a message is too long. It has room for the headers of a batch.
func checkHeader(m *nats.Msg) error {
	bytes := ofBatch + len(m.Subject)
	for name, values := range m.Header {
		for _, value := range values {
			bytes += len(name) + len(": ") + len(value) + len("\r\n")
		}
	}
	if bytes > maxHeader || len(m.Subject) > maxSubject {
		return fmt.Errorf("%w: what identifies a message has %d bytes, %d at most", engine.ErrTooLarge, bytes,
			maxHeader)
	}
	return nil
}

// Publish implements engine.Log.
func (l *Log) Publish(ctx context.Context, parts []engine.Part) ([]uint64, error) {
	var messages, positions []*nats.Msg
	for _, p := range parts {
		for _, m := range p.Messages {
			if err := l.Check(m); err != nil {
				return nil, fmt.Errorf("publish %s: %w", p.Unit, err)
			}
			messages = append(messages, l.message(&m))
		}
		data, err := json.Marshal(p.Position)
		if err != nil {
			return nil, err
		}
		position := &nats.Msg{Subject: l.subjects.position(p.Unit), Data: data, Header: nats.Header{
			jetstream.ExpectedLastSubjSeqHeader: {strconv.FormatUint(p.Revision, 10)},
		}}
		if err := checkHeader(position); err != nil {
			return nil, fmt.Errorf("publish the position of a unit: %w", err)
		}
		positions = append(positions, position)
	}
	began := time.Now()
	var revisions []uint64
	var err error
	switch {
	case len(messages) == 0 && len(positions) == 1:
		revisions, err = l.publishEach(ctx, positions)
	case l.atomic:
		revisions, err = l.publishBatch(ctx, messages, positions)
	default:
		if err = l.publishFirst(ctx, parts, messages); err == nil {
			revisions, err = l.publishEach(ctx, positions)
		}
	}
	if api := (jetstream.JetStreamError)(nil); errors.As(err, &api) && api.APIError() != nil {
		switch api.APIError().ErrorCode {
		case jetstream.JSErrCodeStreamWrongLastSequence, wrongLastSequenceConstant:
			err = fmt.Errorf("%w: %w", engine.ErrFenced, err)
		case jetstreamext.JSErrCodeBatchPublishExceedsLimit, messageExceedsMaximum:
			err = fmt.Errorf("%w: %w", engine.ErrTooLarge, err)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("publish: %w", l.connection.cause(ctx, began, err))
	}
	return revisions, nil
}

// Error codes of nats-server that nats.go has no names for.
const (
	wrongLastSequenceConstant = 10164 // JSStreamWrongLastSequenceConstantErr
	messageExceedsMaximum     = 10054 // JSStreamMessageExceedsMaximumErr
)

func (l *Log) message(m *engine.Message) *nats.Msg {
	h := nats.Header{headerType: {string(m.Type)}, headerVersion: {url.QueryEscape(m.ResourceVersion)}}
	if m.Name != "" {
		h[headerName] = []string{url.QueryEscape(m.Name)}
	}
	h[headerID] = []string{url.QueryEscape(m.ID)}
	if !l.atomic {
		h[jetstream.MsgIDHeader] = []string{url.QueryEscape(m.Scope) + "/" + url.QueryEscape(m.ID)}
	}
	return &nats.Msg{Subject: l.subjects.message(m), Data: m.Data, Header: h}
}

// publishBatch publishes everything, or nothing.
func (l *Log) publishBatch(ctx context.Context, messages, positions []*nats.Msg) ([]uint64, error) {
	all := slices.Concat(messages, positions)
	ack, err := jetstreamext.PublishMsgBatch(ctx, l.js, all)
	if err != nil {
		return nil, err
	}
	revisions := make([]uint64, len(positions))
	for i := range positions {
		revisions[i] = ack.Sequence - uint64(len(positions)-1-i)
	}
	return revisions, nil
}

// publishFirst publishes messages without positions, if the positions are the expected ones.
func (l *Log) publishFirst(ctx context.Context, parts []engine.Part, messages []*nats.Msg) error {
	for _, p := range parts {
		if e, err := l.Position(ctx, p.Unit); err != nil {
			return err
		} else if e.Revision != p.Revision {
			return fmt.Errorf("%s: %w", p.Unit, engine.ErrFenced)
		}
	}
	var acks []jetstream.PubAckFuture
	for _, m := range messages {
		ack, err := l.js.PublishMsgAsync(m)
		if err != nil {
			return err
		}
		acks = append(acks, ack)
	}
	for _, ack := range acks {
		select {
		case <-ack.Ok():
		case err := <-ack.Err():
			return err
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// publishEach publishes positions one after the other.
func (l *Log) publishEach(ctx context.Context, positions []*nats.Msg) ([]uint64, error) {
	var revisions []uint64
	for _, m := range positions {
		ack, err := l.js.PublishMsg(ctx, m)
		if err != nil {
			return nil, err
		}
		revisions = append(revisions, ack.Sequence)
	}
	return revisions, nil
}
