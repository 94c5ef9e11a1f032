package jetstream

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/synadia-io/orbit.go/jetstreamext"
)

// cause adds to an error of a request that began at a time what has caused it, where the server says that only
// elsewhere: it does not answer a request without permission, and drops a batch that it can't store without a reason.
func (l *Log) cause(ctx context.Context, began time.Time, err error) error {
	api := (jetstream.JetStreamError)(nil)
	answered := errors.As(err, &api) && api.APIError() != nil
	incomplete := answered && api.APIError().ErrorCode == jetstreamext.JSErrCodeBatchPublishIncomplete
	if answered && !incomplete || ctx.Err() != nil {
		return err
	}
	if r, ok := l.refused.Load().(refusal); ok && !r.at.Before(began) {
		return fmt.Errorf("%w: %w", r.err, err)
	}
	if !l.Connected() {
		return fmt.Errorf("no NATS server answers: %w", err)
	}
	if found := l.probe(ctx); found != nil {
		return fmt.Errorf("%w: %w", found, err)
	}
	if incomplete {
		return fmt.Errorf("NATS can't store a batch, as a rule because its disk is full (its log says why; it may have to "+
			"start again when there is space): %w", err)
	}
	return err
}

// probe publishes what no stream accepts, and returns an error if the server says more than that.
func (l *Log) probe(ctx context.Context) error {
	m := &nats.Msg{Subject: l.subjects.prefix + "-position.probe", Header: nats.Header{
		jetstream.ExpectedLastSubjSeqHeader: {strconv.FormatUint(math.MaxUint64, 10)},
	}}
	_, err := l.js.PublishMsg(ctx, m, jetstream.WithRetryAttempts(0))
	api := (jetstream.JetStreamError)(nil)
	if !errors.As(err, &api) || api.APIError() == nil {
		return nil
	}
	switch api.APIError().ErrorCode {
	case jetstream.JSErrCodeStreamWrongLastSequence, wrongLastSequenceConstant:
		return nil
	}
	return err
}
