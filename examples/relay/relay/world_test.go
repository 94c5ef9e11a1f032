package relay_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/gvrwatch/gvrwatch/discovery"
	"github.com/gvrwatch/gvrwatch/examples/relay/engine"
	"github.com/gvrwatch/gvrwatch/examples/relay/relay"
	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

var (
	widgets    = resource("example.com", "Widget", "widgets", true)
	gadgets    = resource("example.com", "Gadget", "gadgets", true)
	planets    = resource("example.com", "Planet", "planets", false)
	secrets    = resource("", "Secret", "secrets", true)
	namespaces = resource("", "Namespace", "namespaces", false)
)

func resource(group, kind, plural string, namespaced bool) gvr.Resource {
	return gvr.Resource{
		GroupVersionResource: schema.GroupVersionResource{Group: group, Version: "v1", Resource: plural},
		Kind:                 kind, Namespaced: namespaced, Verbs: []string{"get", "list", "watch"},
	}
}

const lease = 15 * time.Second

// world has an API server, an engine and replicas, in a bubble.
type world struct {
	t      *testing.T
	srv    *streamtest.Server
	served []gvr.Resource
	log    engine.Memory
	config relay.Config
	logger *slog.Logger
	change func(*rest.Config) // of the replicas that start
	delay  time.Duration      // of Objects of the replicas that start
	loses  int                // one in so many answers of Publish to the replicas that start is lost; none if zero

	refuses atomic.Bool // see refusing

	mu       sync.Mutex
	owners   map[string]string // by unit and epoch
	broken   []string          // promises
	replicas map[string]*replica
}

func newWorld(t *testing.T, served ...gvr.Resource) *world {
	w := &world{
		t: t, srv: streamtest.NewServer(served...), served: served,
		owners: map[string]string{}, replicas: map[string]*replica{},
		config: relay.Config{
			Selection: relay.Selection{Resources: []string{"*"}},
			Replica:   relay.Replica{Lease: metav1.Duration{Duration: lease}, Grace: metav1.Duration{Duration: lease}},
			Queue:     relay.Queue{Bytes: 1 << 20},
			NATS:      relay.NATS{URL: "none"},
		},
	}
	return w
}

// replica is a running Relay. Its engine can be cut off.
type replica struct {
	relay *relay.Relay
	end   context.CancelFunc
	done  chan struct{}
	err   error
	link  *link
}

// start starts a replica. It publishes other clusters, too.
func (w *world) start(id string, others ...*relay.Connection) *replica {
	w.t.Helper()
	cfg := w.config
	cfg.Replica.ID = id
	r := &replica{done: make(chan struct{}), link: &link{w: w, loses: w.loses, delay: w.delay}}
	ctx, end := context.WithCancel(w.t.Context())
	r.end = end
	err := cfg.Complete()
	if err != nil {
		w.t.Fatal(err)
	}
	r.relay, err = relay.New(cfg, r.link, r.link, relay.Options{
		Logger: w.logger, Connections: append(others, connection(w.t, w.srv, w.change)),
	})
	if err != nil {
		w.t.Fatal(err)
	}
	go func() {
		defer close(r.done)
		r.err = r.relay.Run(ctx)
	}()
	w.replicas[id] = r
	return r
}

func connection(t *testing.T, srv *streamtest.Server, change func(*rest.Config)) *relay.Connection {
	t.Helper()
	cfg := srv.Config()
	if change != nil {
		change(cfg)
	}
	dc, err := discovery.NewClient(cfg)
	if err != nil {
		t.Fatal(err)
	}
	client, err := stream.NewClient(cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	return &relay.Connection{
		Name: "test", Config: cfg, Client: client, Resolver: discovery.NewResolver(dc, 0),
	}
}

// stop stops a replica as SIGTERM does. It can't release its units if its link is cut.
func (w *world) stop(id string) {
	w.t.Helper()
	r := w.replicas[id]
	r.end()
	<-r.done
	if r.err != nil && !r.link.isCut {
		w.t.Errorf("%s: %v", id, r.err)
	}
	delete(w.replicas, id)
}

// kill ends a replica without a word: nothing more of it arrives at the engine.
func (w *world) kill(id string) {
	w.replicas[id].link.cut(true)
	w.replicas[id].end()
	<-w.replicas[id].done
	delete(w.replicas, id)
}

func (w *world) positions() []engine.Entry {
	entries, _ := w.log.Positions(w.t.Context(), engine.Unit{}) // never fails
	return entries
}

func (w *world) stopAll() {
	for _, id := range slices.Sorted(maps.Keys(w.replicas)) {
		w.stop(id)
	}
}

// eventually waits until f returns an empty text.
func (w *world) eventually(what string, f func() string) {
	w.t.Helper()
	var problem string
	for range 600 {
		synctest.Wait()
		if problem = f(); problem == "" {
			return
		}
		time.Sleep(time.Second)
	}
	for _, e := range w.positions() {
		w.t.Logf("%+v", e)
	}
	for _, r := range w.replicas {
		w.t.Logf("%+v", r.relay.Status())
	}
	w.t.Fatalf("%s: %s", what, problem)
}

// converged waits until the last messages of all objects are the objects of the API server.
func (w *world) converged() {
	w.t.Helper()
	w.eventually("the log", w.difference)
}

func (w *world) difference() string {
	want := map[string]string{}
	for _, r := range w.served {
		h := w.srv.History(r, nil)
		for _, o := range h.At(len(h.Rewinds), "999999999") {
			want[string(o.GetUID())] = o.GetResourceVersion()
		}
	}
	got := map[string]string{}
	for _, m := range w.messages() {
		if m.Type == engine.Deleted {
			delete(got, m.UID)
		} else if m.UID != "" {
			got[m.UID] = m.ResourceVersion
		}
	}
	if maps.Equal(want, got) {
		return ""
	}
	return fmt.Sprintf("has %v, want %v", got, want)
}

func (w *world) messages() []engine.Message {
	var all []engine.Message
	for m, err := range w.log.Tail(w.t.Context(), engine.TailOptions{All: true, UntilEnd: true}) {
		if err != nil {
			w.t.Fatal(err)
		}
		all = append(all, m)
	}
	return all
}

func text(m engine.Message) string {
	name := m.Name
	if m.Unit.Namespace != "" {
		name = m.Unit.Namespace + "/" + name
	}
	s := fmt.Sprintf("%s %s %s@%s", m.Type, m.Unit.Resource, name, m.ResourceVersion)
	return strings.TrimSuffix(strings.ReplaceAll(s, " @", " "), " ")
}

// judge checks the whole log: nothing twice, versions that only grow, no deletion unreported, one owner in each epoch.
func (w *world) judge() {
	w.t.Helper()
	seen := map[string]bool{}
	last := map[string]engine.Message{}
	for i, m := range w.messages() {
		if m.UID == "" {
			continue
		}
		if seen[m.ID] {
			w.t.Errorf("message %d: %s %s is published twice", i, text(m), m.UID)
		}
		seen[m.ID] = true
		before, known := last[m.UID]
		switch {
		case known && before.Type == engine.Deleted:
			w.t.Errorf("message %d: %s %s follows its deletion", i, text(m), m.UID)
		case !known && m.Type != engine.Added, known && m.Type == engine.Added:
			w.t.Errorf("message %d: %s %s after %q", i, text(m), m.UID, before.Type)
		case m.Type == engine.Modified && number(m.ResourceVersion) <= number(before.ResourceVersion):
			w.t.Errorf("message %d: %s %s after version %s", i, text(m), m.UID, before.ResourceVersion)
		}
		last[m.UID] = m
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, b := range w.broken {
		w.t.Error(b)
	}
}

func number(version string) int {
	n, _ := strconv.Atoi(version)
	return n
}

// claimed notes who publishes in an epoch.
func (w *world) claimed(p engine.Part) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if p.Position.Owner == "" {
		return
	}
	key := fmt.Sprintf("%s epoch %d", p.Unit, p.Position.Epoch)
	if other, ok := w.owners[key]; ok && other != p.Position.Owner {
		w.broken = append(w.broken, fmt.Sprintf("%s: both %s and %s published", key, other, p.Position.Owner))
	}
	w.owners[key] = p.Position.Owner
}

// link is one replica's connection to the engine.
type link struct {
	w *world

	mu      sync.Mutex
	isCut   bool
	restore chan struct{} // closed when it works again
	loses   int
	calls   int
	delay   time.Duration // of Objects
	isDeaf  bool          // Join fails
	each    time.Duration // what a message of Publish takes; there is no answer after 5 s
	late    bool          // what has no answer in time is published nevertheless
}

var errCut = errors.New("no connection to the engine")

// cut cuts the connection: calls fail. With hang false it is restored.
func (l *link) cut(yes bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.isCut = yes
}

// pause makes calls hang until resume, as those of a stopped process do.
func (l *link) pause() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.restore = make(chan struct{})
}

func (l *link) resume() {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.restore)
	l.restore = nil
}

func (l *link) check() error {
	l.mu.Lock()
	restore := l.restore
	l.mu.Unlock()
	if restore != nil {
		<-restore
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.isCut {
		return errCut
	}
	return nil
}

func (l *link) Limits() engine.Limits { return l.w.log.Limits() }

func (l *link) Check(m engine.Message) error { return l.w.log.Check(m) }

func (l *link) Failed() <-chan error { return l.w.log.Failed() }

func (l *link) Position(ctx context.Context, u engine.Unit) (engine.Entry, error) {
	if err := l.check(); err != nil {
		return engine.Entry{}, err
	}
	return l.w.log.Position(ctx, u)
}

func (l *link) Positions(ctx context.Context, u engine.Unit) ([]engine.Entry, error) {
	if err := l.check(); err != nil {
		return nil, err
	}
	return l.w.log.Positions(ctx, u)
}

// Publish loses the answers of some calls.
func (l *link) Publish(ctx context.Context, parts []engine.Part) (revisions []uint64, err error) {
	if err := l.check(); err != nil {
		return nil, err
	}
	noAnswer := errors.New("no answer within 5s")
	l.mu.Lock()
	took, late := time.Duration(0), l.late
	for _, p := range parts {
		took += l.each * time.Duration(1+len(p.Messages))
	}
	l.mu.Unlock()
	isLate := took > 5*time.Second
	if err := waitOr(ctx, min(took, 5*time.Second)); err != nil {
		return nil, err
	}
	if isLate && !late {
		return nil, noAnswer
	}
	revisions, err = l.w.log.Publish(ctx, parts)
	if err == nil && isLate {
		defer func() { revisions, err = nil, noAnswer }()
	}
	if err == nil {
		for _, p := range parts {
			l.w.claimed(p)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.calls++; err == nil && l.loses > 0 && l.calls%l.loses == 0 {
		return nil, errors.New("the answer is lost")
	}
	return revisions, err
}

func (l *link) Objects(ctx context.Context, u engine.Unit, data bool) ([]engine.Message, error) {
	if err := l.check(); err != nil {
		return nil, err
	}
	l.mu.Lock()
	delay := l.delay
	l.mu.Unlock()
	if err := waitOr(ctx, delay); err != nil {
		return nil, err
	}
	return l.w.log.Objects(ctx, u, data)
}

func (l *link) Tail(ctx context.Context, o engine.TailOptions) iter.Seq2[engine.Message, error] {
	return l.w.log.Tail(ctx, o)
}

func (l *link) Expire(ctx context.Context, before time.Time) error {
	if err := l.check(); err != nil {
		return err
	}
	return l.w.log.Expire(ctx, before)
}

func (l *link) Join(ctx context.Context, m engine.Member) error {
	if err := l.check(); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.isDeaf {
		return errCut
	}
	return l.w.log.Join(ctx, m)
}

func (l *link) Leave(ctx context.Context, id string) error {
	if err := l.check(); err != nil {
		return err
	}
	return l.w.log.Leave(ctx, id)
}

func (l *link) Members(ctx context.Context) ([]engine.Member, error) {
	if err := l.check(); err != nil {
		return nil, err
	}
	return l.w.log.Members(ctx)
}
