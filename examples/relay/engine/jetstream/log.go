package jetstream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

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
	Dir              string // the folder of the server that StartServer runs, instead of the other fields
	URL              string // of one or, separated by commas, several
	Credentials      string // a .creds file
	CA               string // PEM files
	Certificate, Key string
}

// Log is an engine.Log and an engine.Group.
type Log struct {
	options    Options
	subjects   subjects
	connection *connection
	js         jetstream.JetStream // of the connection
	reader     reader
	members    jetstream.KeyValue
	atomic     bool
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
	c, err := connect(ctx, o)
	if err != nil {
		return nil, remedied(err)
	}
	l := &Log{
		options: o, subjects: subjects{prefix: o.Prefix}, connection: c, js: c.js,
		reader: reader{js: c.js, leader: c.leader, stream: o.Stream},
	}
	began := time.Now()
	if err := l.open(ctx); err != nil {
		l.Close()
		return nil, remedied(c.denied(began, err))
	}
	return l, nil
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
	if differences := l.options.Create.differences(cfg); differences != "" && !o.ReadOnly {
		o.Logger.Warn("the stream exists, and keeps its settings", "stream", o.Stream, "differences", differences)
	}
	if l.members, err = l.bucket(ctx, o.Stream+"-members"); err != nil {
		return fmt.Errorf("open the bucket of the members: %w", err)
	}
	return nil
}

// keepMembers is for how many leases the bucket has a member that does not join again: status says how long it has been
// silent.
const keepMembers = 3

// bucket finds or creates the bucket of the members. Its TTL is that of the longest lease of those who have opened it.
func (l *Log) bucket(ctx context.Context, name string) (jetstream.KeyValue, error) {
	o := l.options
	kv, err := l.js.KeyValue(ctx, name)
	if o.ReadOnly || err != nil && !errors.Is(err, jetstream.ErrBucketNotFound) {
		return kv, err
	}
	if err == nil {
		status, err := kv.Status(ctx)
		if err != nil || status.TTL() >= keepMembers*o.Lease {
			return kv, err
		}
	}
	// In a file, because a server that restarts does not know the streams that it had in memory.
	return l.js.CreateOrUpdateKeyValue(ctx, jetstream.KeyValueConfig{
		Bucket: name, TTL: keepMembers * o.Lease, History: 1, Storage: jetstream.FileStorage, Replicas: o.Create.Copies,
	})
}

func (l *Log) create(ctx context.Context) (jetstream.Stream, error) {
	o := l.options
	cfg := jetstream.StreamConfig{
		Name: o.Stream, Subjects: l.subjects.stream(),
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
func (l *Log) Close() { l.connection.conn.Close() }

// Failed implements engine.Log.
func (l *Log) Failed() <-chan error { return l.connection.failed }

// Connected reports whether there is a connection to a server.
func (l *Log) Connected() bool { return l.connection.conn.IsConnected() }

// Limits implements engine.Log.
func (l *Log) Limits() engine.Limits {
	message := int(l.connection.conn.MaxPayload())
	if l.messageBytes > 0 {
		message = min(message, l.messageBytes)
	}
	return engine.Limits{
		Messages:     1000, // of an atomic batch (ADR-50)
		MessageBytes: max(message-maxHeader, maxHeader),
		Bytes:        32 << 20,
	}
}
