package jetstream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
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
	if err := l.connect(ctx); err != nil {
		return nil, err
	}
	if err := l.open(ctx); err != nil {
		l.Close()
		return nil, err
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
	}
	if !o.ReadOnly {
		// Not _INBOX, to which others may subscribe: a consumer of theirs could deliver to what they see there.
		opts = append(opts, nats.CustomInboxPrefix("_INBOX_gvrwatch-relay"))
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
			return fmt.Errorf("connect to NATS: %w", err)
		}
		if !logged {
			o.Logger.Warn("no NATS server answers; trying again", "err", err)
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return fmt.Errorf("connect to NATS: %w", err)
		}
	}
	var err error
	l.js, err = jetstream.New(l.conn, jetstream.WithDefaultTimeout(answer), jetstream.WithPublishAsyncTimeout(answer))
	l.reader = reader{js: l.js, stream: o.Stream}
	return err
}

// open finds or creates the stream and the bucket.
func (l *Log) open(ctx context.Context) error {
	o := l.options
	s, err := l.js.Stream(ctx, o.Stream)
	if errors.Is(err, jetstream.ErrStreamNotFound) && !o.ReadOnly {
		s, err = l.create(ctx)
	}
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return fmt.Errorf("there is no stream %q: a relay creates it when it starts", o.Stream)
	}
	if err != nil {
		return fmt.Errorf("open stream %q: %w", o.Stream, err)
	}
	cfg := s.CachedInfo().Config
	if problem := unsuitable(cfg, o.Prefix); problem != "" {
		return fmt.Errorf("stream %q can't be used: %s", o.Stream, problem)
	}
	l.messageBytes = int(cfg.MaxMsgSize)
	if l.atomic = cfg.AllowAtomicPublish; !l.atomic && !o.ReadOnly {
		o.Logger.Warn("no atomic batches: messages may be published twice after a failure", "stream", o.Stream)
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
		AllowAtomicPublish: !o.Create.NoAtomic,
	}
	s, err := l.js.CreateStream(ctx, cfg)
	if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) { // another replica was faster
		return l.js.Stream(ctx, o.Stream)
	}
	return s, err
}

// unsuitable says why a stream can't keep the promises of an engine.Log. It is empty if it can.
func unsuitable(cfg jetstream.StreamConfig, prefix string) string {
	subjects := strings.Join(cfg.Subjects, " ")
	switch {
	case !strings.Contains(subjects, prefix+".>") || !strings.Contains(subjects, prefix+"-position.>"):
		return fmt.Sprintf("its subjects are %q: must include %[2]s.> and %[2]s-position.>", subjects, prefix)
	case cfg.MaxAge > 0:
		return fmt.Sprintf("max_age is %v, which removes the last states of objects: must be 0", cfg.MaxAge)
	case cfg.Discard != jetstream.DiscardNew && (cfg.MaxBytes > 0 || cfg.MaxMsgs > 0):
		return "it discards old messages when it is full: discard must be new"
	case cfg.AllowDirect && cfg.Replicas > 1:
		return "allow_direct lets a copy answer that lags behind: must be false"
	case cfg.Discard == jetstream.DiscardNew && cfg.DiscardNewPerSubject:
		return "it takes no more messages of a subject: discard_new_per_subject must be false"
	case cfg.Storage != jetstream.FileStorage:
		return "it loses everything when a server restarts: storage must be file"
	case cfg.NoAck:
		return "it does not acknowledge messages: no_ack must be false"
	case cfg.Retention != jetstream.LimitsPolicy:
		return fmt.Sprintf("retention is %s: must be limits", cfg.Retention)
	}
	return ""
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
