package jetstream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/synadia-io/orbit.go/jetstreamext"

	"github.com/gvrwatch/gvrwatch/examples/relay/engine"
)

// connection is that of a Log. It connects again by itself, unless it is closed for good.
type connection struct {
	conn    *nats.Conn
	js      jetstream.JetStream
	leader  nats.JetStreamContext // asks the leader of a stream, also where it has allow_direct
	probe   string                // a subject of the stream to which nothing is published
	failed  chan error            // has a value when the connection is closed for good
	refused atomic.Value          // the last refusal of the server that is no answer to a request
}

// refusal is an error that the server has sent without a request.
type refusal struct {
	err error
	at  time.Time
}

// answer is how long to wait for an answer of the server.
const answer = 5 * time.Second

func connect(ctx context.Context, o Options) (*connection, error) {
	c := &connection{probe: o.Prefix + "-position.probe", failed: make(chan error, 1)}
	opts := []nats.Option{
		nats.Name("gvrwatch relay"), nats.MaxReconnects(-1), nats.ReconnectWait(250 * time.Millisecond),
		nats.ReconnectJitter(250*time.Millisecond, 250*time.Millisecond), nats.ReconnectBufSize(-1),
		nats.PingInterval(5 * time.Second), nats.MaxPingsOutstanding(2),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil {
				o.Logger.Warn("disconnected from NATS", "err", err)
			}
		}),
		nats.ReconnectHandler(func(conn *nats.Conn) {
			o.Logger.Info("connected to NATS again", "server", conn.ConnectedAddr())
		}),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			o.Logger.Warn("NATS reports an error", "err", err)
			c.refused.Store(refusal{err, time.Now()})
		}),
		nats.ClosedHandler(func(conn *nats.Conn) {
			c.failed <- fmt.Errorf("%w: the connection to NATS is closed for good: %w", engine.ErrFailed,
				cmp.Or(conn.LastError(), nats.ErrConnectionClosed))
		}),
	}
	if !o.ReadOnly {
		// Not _INBOX, to which others may subscribe: a consumer of theirs could deliver to what they see there.
		opts = append(opts, nats.CustomInboxPrefix("_INBOX_gvrwatch-relay"))
	}
	to := o.Connection
	at := " at " + hosts(to.URL)
	if to.Dir != "" {
		to.URL, at = dialerURL, ""
		opts = append(opts, (&dialer{dir: to.Dir}).options()...)
	}
	if to.Credentials != "" {
		opts = append(opts, nats.UserCredentials(to.Credentials))
	}
	if to.CA != "" {
		opts = append(opts, nats.RootCAs(to.CA))
	}
	if to.Certificate != "" {
		opts = append(opts, nats.ClientCert(to.Certificate, to.Key))
	}
	for logged := false; ; logged = true {
		var err error
		if c.conn, err = nats.Connect(to.URL, opts...); err == nil {
			break
		}
		mayStart := errors.Is(err, nats.ErrNoServers) || errors.Is(err, nats.ErrTimeout) ||
			errors.Is(err, errNoServer) && !o.ReadOnly
		if !mayStart {
			return nil, fmt.Errorf("connect to NATS%s: %w", at, err)
		}
		if !logged {
			o.Logger.Warn("no NATS server answers; trying again", "servers", hosts(to.URL), "err", err)
		}
		select {
		case <-time.After(min(time.Second, o.Lease/5)):
		case <-ctx.Done():
			return nil, fmt.Errorf("connect to NATS%s: %w", at, err)
		}
	}
	var err error
	c.js, err = jetstream.New(c.conn, jetstream.WithDefaultTimeout(answer), jetstream.WithPublishAsyncTimeout(answer))
	if err != nil {
		return nil, err
	}
	c.leader, err = c.conn.JetStream()
	return c, err
}

// cause adds to an error of a request that began at a time what has caused it, where the server says that only
// in another place: it does not answer a request without permission, and drops a batch that it can't store without
// a reason.
func (c *connection) cause(ctx context.Context, began time.Time, err error) error {
	api := (jetstream.JetStreamError)(nil)
	answered := errors.As(err, &api) && api.APIError() != nil
	incomplete := answered && api.APIError().ErrorCode == jetstreamext.JSErrCodeBatchPublishIncomplete
	if answered && !incomplete || ctx.Err() != nil {
		return err
	}
	if denied := c.denied(began, err); denied != err {
		return denied
	}
	if !c.conn.IsConnected() {
		return fmt.Errorf("no NATS server answers: %w", err)
	}
	if errors.Is(err, nats.ErrNoResponders) {
		return fmt.Errorf("the stream is gone (a relay creates it when it starts), or has no leader: %w", err)
	}
	if found := c.ask(ctx); found != nil {
		return fmt.Errorf("%w: %w", found, err)
	}
	if incomplete {
		return fmt.Errorf("NATS can't store a batch, as a rule because its disk is full (its log says why; it "+
			"may have to start again when there is space): %w", err)
	}
	return err
}

// denied adds to an error of a request that began at a time what the server has denied since: it does not answer that.
func (c *connection) denied(began time.Time, err error) error {
	if r, ok := c.refused.Load().(refusal); ok && !r.at.Before(began) {
		return fmt.Errorf("%w: %w", err, r.err)
	}
	return err
}

// ask publishes what no stream accepts, and returns an error if the server says more than that.
func (c *connection) ask(ctx context.Context) error {
	m := &nats.Msg{Subject: c.probe, Header: nats.Header{
		jetstream.ExpectedLastSubjSeqHeader: {strconv.FormatUint(math.MaxUint64, 10)},
	}}
	_, err := c.js.PublishMsg(ctx, m, jetstream.WithRetryAttempts(0))
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
