package jetstream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/gvrwatch/gvrwatch/examples/relay/engine"
)

// Options are for Connect. Zero fields have the defaults of relay.Config.
type Options struct {
	Connection     Connection
	Stream, Prefix string
	Create         Create
	Lease          time.Duration // of a member of the Group
	// ReadOnly creates nothing: it is an error if there is no stream.
	ReadOnly bool
	Logger   *slog.Logger
}

// Create says what the stream is like, if Connect creates it.
type Create struct {
	History  int // messages of each subject
	Copies   int
	MaxBytes int64
	NoAtomic bool // no atomic batches
}

// Connection says how to reach the servers.
type Connection struct {
	URL              string // of one or, separated by commas, several
	Credentials      string // a .creds file
	CA               string // PEM files
	Certificate, Key string
}

// Log is an engine.Log and an engine.Group.
type Log struct {
	options  Options
	subjects subjects
	conn     *nats.Conn
	js       jetstream.JetStream
	reader   reader
	members  jetstream.KeyValue
	atomic   bool
	reported atomic.Pointer[error] // the last error that the server has sent without a request to answer
	// messageBytes is the stream's limit for a message with its headers, or -1.
	messageBytes int
}

var (
	_ engine.Log   = (*Log)(nil)
	_ engine.Group = (*Log)(nil)
)

// Connect connects to a server and creates the stream, unless it exists. It waits for a server until ctx ends.
func Connect(ctx context.Context, o Options) (*Log, error) {
	o.Stream, o.Prefix = or(o.Stream, "K8S"), or(o.Prefix, "k8s")
	o.Create.History, o.Create.Copies = max(o.Create.History, 0), max(o.Create.Copies, 1)
	if o.Create.History == 0 {
		o.Create.History = 16
	}
	if o.Lease == 0 {
		o.Lease = 15 * time.Second
	}
	if o.Create.MaxBytes == 0 {
		o.Create.MaxBytes = -1
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	l := &Log{options: o, subjects: subjects{prefix: o.Prefix}}
	err := l.connect(ctx)
	if err != nil {
		return nil, remedied(err)
	}
	if err := l.open(ctx); err != nil {
		if denied := l.reported.Load(); denied != nil && errors.Is(err, context.DeadlineExceeded) {
			err = fmt.Errorf("%w: %w", err, *denied) // a server does not answer what it denies
		}
		l.Close()
		return nil, remedied(err)
	}
	return l, nil
}

// answer is how long to wait for an answer of the server.
const answer = 5 * time.Second

func (l *Log) connect(ctx context.Context) error {
	o := l.options
	opts := []nats.Option{
		nats.Name("gvrwatch relay"), nats.MaxReconnects(-1), nats.ReconnectWait(250 * time.Millisecond),
		nats.ReconnectJitter(250*time.Millisecond, 250*time.Millisecond), nats.ReconnectBufSize(-1),
		nats.PingInterval(5 * time.Second), nats.MaxPingsOutstanding(2),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil {
				o.Logger.Warn("disconnected from NATS", "err", err)
			}
		}),
		nats.ReconnectHandler(func(c *nats.Conn) {
			o.Logger.Info("connected to NATS again", "server", c.ConnectedAddr())
		}),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			l.reported.Store(&err)
			o.Logger.Warn("NATS reports an error", "err", err)
		}),
	}
	to := o.Connection
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
		if l.conn, err = nats.Connect(to.URL, opts...); err == nil {
			break
		}
		if !errors.Is(err, nats.ErrNoServers) && !errors.Is(err, nats.ErrTimeout) {
			return fmt.Errorf("connect to NATS at %s: %w", hosts(to.URL), err)
		}
		if !logged {
			o.Logger.Warn("no NATS server answers; trying again", "servers", hosts(to.URL), "err", err)
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return fmt.Errorf("connect to NATS at %s: %w", hosts(to.URL), err)
		}
	}
	var err error
	l.js, err = jetstream.New(l.conn, jetstream.WithDefaultTimeout(answer), jetstream.WithPublishAsyncTimeout(answer))
	if err != nil {
		return err
	}
	leader, err := l.conn.JetStream()
	l.reader = reader{js: l.js, leader: leader, stream: o.Stream}
	return err
}

// open finds or creates the stream and the bucket.
func (l *Log) open(ctx context.Context) error {
	o := l.options
	asked, cancel := context.WithTimeout(ctx, answer)
	defer cancel()
	s, err := l.js.Stream(asked, o.Stream)
	if errors.Is(err, jetstream.ErrStreamNotFound) && !o.ReadOnly {
		s, err = l.create(ctx)
	}
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return fmt.Errorf("there is no stream %q: a relay creates it when it starts", o.Stream)
	}
	if err != nil {
		return fmt.Errorf("open stream %q: %w", o.Stream, l.overlap(ctx, err))
	}
	cfg := s.CachedInfo().Config
	if problem := unsuitable(cfg, o.Prefix); problem != "" {
		return fmt.Errorf("stream %q can't be used: %s", o.Stream, problem)
	}
	l.messageBytes = int(cfg.MaxMsgSize)
	if l.atomic = cfg.AllowAtomicPublish; !l.atomic && !o.ReadOnly {
		o.Logger.Warn("no atomic batches: messages may be published twice after a failure", "stream", o.Stream)
	}
	if differences := l.differences(cfg); differences != "" && !o.ReadOnly {
		o.Logger.Warn("the stream exists, and keeps its settings", "stream", o.Stream, "differences", differences)
	}
	if l.members, err = l.bucket(ctx, o.Stream+"-members"); err != nil {
		return fmt.Errorf("open the bucket of the members: %w", err)
	}
	return nil
}

// bucket finds or creates the bucket of the members. Its TTL is the longest lease of those who have opened it.
func (l *Log) bucket(ctx context.Context, name string) (jetstream.KeyValue, error) {
	o := l.options
	kv, err := l.js.KeyValue(ctx, name)
	if o.ReadOnly || err != nil && !errors.Is(err, jetstream.ErrBucketNotFound) {
		return kv, err
	}
	if err == nil {
		status, err := kv.Status(ctx)
		if err != nil || status.TTL() >= o.Lease {
			return kv, err
		}
	}
	// In a file, because a server that restarts does not know the streams that it had in memory.
	return l.js.CreateOrUpdateKeyValue(ctx, jetstream.KeyValueConfig{
		Bucket: name, TTL: o.Lease, History: 1, Storage: jetstream.FileStorage, Replicas: o.Create.Copies,
	})
}

func (l *Log) create(ctx context.Context) (jetstream.Stream, error) {
	o := l.options
	cfg := jetstream.StreamConfig{
		Name: o.Stream, Subjects: []string{l.subjects.messages(), l.subjects.positions(engine.Unit{})},
		Storage: jetstream.FileStorage, MaxMsgsPerSubject: int64(o.Create.History), MaxBytes: o.Create.MaxBytes,
		Discard: jetstream.DiscardNew, Replicas: o.Create.Copies, Duplicates: 2 * time.Minute,
		AllowAtomicPublish: !o.Create.NoAtomic, AllowDirect: true,
	}
	s, err := l.js.CreateStream(ctx, cfg)
	if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) { // another replica was faster
		return l.js.Stream(ctx, o.Stream)
	}
	return s, err
}

// Close closes the connection.
func (l *Log) Close() { l.conn.Close() }

// Connected reports whether there is a connection to a server.
func (l *Log) Connected() bool { return l.conn.IsConnected() }

// Limits implements engine.Log.
func (l *Log) Limits() engine.Limits {
	const headers = 4 << 10 // of a message, and its subject
	message := int(l.conn.MaxPayload())
	if l.messageBytes > 0 {
		message = min(message, l.messageBytes)
	}
	return engine.Limits{
		Messages:     1000, // of an atomic batch (ADR-50)
		MessageBytes: max(message-headers, headers),
		Bytes:        32 << 20,
	}
}
