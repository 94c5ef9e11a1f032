package acks_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/internal/acks"
	"github.com/gvrwatch/gvrwatch/internal/objects"
)

const key = "widgets"

var cluster = checkpoint.Cluster{UID: "cluster-1", Address: "https://one:6443"}

func widgets(namespaces ...string) checkpoint.Identity {
	return checkpoint.Identity{Group: "example.com", Resource: "widgets", Namespaces: namespaces}
}

// newTracker returns a Tracker of the cluster above. opts may be nil.
func newTracker(t testing.TB, store checkpoint.Store, opts *checkpoint.Options) *checkpoint.Tracker {
	t.Helper()
	var o checkpoint.Options
	if opts != nil {
		o = *opts
	}
	if o.Cluster == (checkpoint.Cluster{}) {
		o.Cluster = cluster
	}
	tracker, err := checkpoint.NewTracker(store, &o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tracker.Close() })
	return tracker
}

func begin(t testing.TB, tracker *checkpoint.Tracker, id checkpoint.Identity) *acks.Session {
	t.Helper()
	s, err := acks.Begin(context.Background(), tracker, key, id, false)
	noError(t, err)
	return s
}

// runScript begins a session and runs a script. A script that begins with the word "defer" is of a deferred session.
func runScript(t testing.TB, tracker *checkpoint.Tracker, id checkpoint.Identity, script string) *acks.Session {
	t.Helper()
	script, deferred := strings.CutPrefix(script, "defer ")
	s, err := acks.Begin(context.Background(), tracker, key, id, deferred)
	noError(t, err)
	newFeeder(t, s).run(script)
	return s
}

func flush(t testing.TB, tracker *checkpoint.Tracker) {
	t.Helper()
	noError(t, tracker.Flush(context.Background()))
}

// store is a Memory whose commits can be made to fail, or to take long.
type store struct {
	*checkpoint.Memory
	mu      sync.Mutex
	before  func(ctx context.Context) error // called before each commit, whose error it may return; may be nil
	commits int                             // that succeeded
	sizes   []int                           // of those commits, in objects
}

func newStore() *store { return &store{Memory: &checkpoint.Memory{}} }

func (s *store) hinder(f func(ctx context.Context) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.before = f
}

func (s *store) fail(err error) { s.hinder(func(context.Context) error { return err }) }

func (s *store) heal() { s.hinder(nil) }

func (s *store) Commit(ctx context.Context, deltas []checkpoint.Delta) error {
	s.mu.Lock()
	before := s.before
	s.mu.Unlock()
	if before != nil {
		if err := before(ctx); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.commits++
	n := 0
	for _, d := range deltas {
		if both := slices.IndexFunc(d.Put, func(o checkpoint.Object) bool {
			o.ResourceVersion = ""
			return slices.Contains(d.Removed, o)
		}); both >= 0 {
			return fmt.Errorf("%v is both put and gone", d.Put[both])
		}
		n += len(d.Put) + len(d.Removed)
	}
	s.sizes = append(s.sizes, n)
	return s.Memory.Commit(ctx, deltas)
}

func (s *store) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.commits
}

// saved returns the position under the key in a store, as text.
func saved(t testing.TB, store checkpoint.Store) string {
	t.Helper()
	c, err := store.Load(context.Background(), key)
	if err != nil {
		t.Fatal(err)
	}
	if c == nil {
		return "nothing"
	}
	return text(&c.Position, c.Identity.Namespaces...)
}

// isSaved checks what is in a store.
func isSaved(t testing.TB, s checkpoint.Store, want, why string) {
	t.Helper()
	if diff := cmp.Diff(want, saved(t, s)); diff != "" {
		t.Errorf("%s: -want +got:\n%s", why, diff)
	}
}

// text is a position in short: the version, or that of each namespace, "-" within a snapshot, then the objects as the
// scripts of feeder do.
func text(p *checkpoint.Position, namespaces ...string) string {
	if p == nil {
		return "nothing"
	}
	orDash := func(namespace string) string {
		if rv := p.ResourceVersions[namespace]; rv != "" {
			return rv
		}
		return "-"
	}
	var words []string
	for _, n := range namespaces {
		words = append(words, n+"="+orDash(n))
	}
	if len(namespaces) == 0 {
		words = append(words, orDash(""))
		for _, n := range slices.Sorted(maps.Keys(p.ResourceVersions)) {
			if n != "" {
				words = append(words, n+"="+orDash(n))
			}
		}
	}
	if p.Partial {
		words = append(words, "partial")
	}
	if p.Unclean {
		words = append(words, "unclean")
	}
	if p.Rewound {
		words = append(words, "rewound")
	}
	for _, o := range p.Objects {
		w := fmt.Sprintf("%s:%s@%s", o.Name, o.UID, o.ResourceVersion)
		if o.ResourceVersion == "" {
			w = fmt.Sprintf("!%s:%s", o.Name, o.UID)
		}
		if o.Namespace != "" {
			w = o.Namespace + "/" + w
		}
		words = append(words, w)
	}
	return strings.Join(words, " ")
}

// feeder feeds a session with a script, as package stream does with events. The words, each after "NAMESPACE/" where
// there are several:
//
//	defer           the sequence does not begin with a snapshot
//	snapshot        a snapshot begins
//	partial         a snapshot begins that may leave objects out
//	after@9         the sequence begins after a version
//	a:1@5           an object: in a snapshot, or as a live event
//	-a:1@5          its DELETED
//	~a:1@5          an object that is noted in the next event
//	?a:1@5          an object that is noted without an event
//	+a:1@5          an object that is written ahead, because it is about to be delivered
//	synced@9        the end of a snapshot
//	bookmark@9      a bookmark without an event
//	rewound         the server has gone back in time
//	gap             GAP, and the beginning of the snapshot after it
//	ack 3           the ack of event 3, counted from 0 over all namespaces; 3-5 and 5-3: of each of them in that order
type feeder struct {
	t       testing.TB
	session *acks.Session
	marks   []*acks.Mark
	at      map[string]string // the version of each namespace, empty in a snapshot
	partial map[string]bool
}

func newFeeder(t testing.TB, s *acks.Session) *feeder {
	fd := &feeder{t: t, session: s, at: map[string]string{}, partial: map[string]bool{}}
	if p := s.Position(); p != nil {
		for n, rv := range p.ResourceVersions {
			fd.at[n], fd.partial[n] = rv, p.Partial
		}
	}
	return fd
}

func (fd *feeder) run(script string) *feeder {
	fd.t.Helper()
	words := strings.Fields(script)
	for i := 0; i < len(words); i++ {
		if words[i] == "ack" {
			i++
			fd.ack(words[i])
			continue
		}
		fd.word(words[i])
	}
	return fd
}

func (fd *feeder) ack(which string) {
	from, to, several := strings.Cut(which, "-")
	if !several {
		to = from
	}
	i, errFrom := strconv.Atoi(from)
	last, errTo := strconv.Atoi(to)
	if errFrom != nil || errTo != nil {
		fd.t.Fatalf("invalid ack %q", which)
	}
	step := 1
	if last < i {
		step = -1
	}
	for ; i != last+step; i += step {
		fd.marks[i].Ack()
	}
}

func (fd *feeder) word(w string) {
	fd.t.Helper()
	namespace, rest, ok := strings.Cut(w, "/")
	if !ok {
		namespace, rest = "", w
	}
	p := fd.session.Progress(namespace)
	if p == nil {
		fd.t.Fatalf("%q: there is no namespace %q", w, namespace)
	}
	what, version, _ := strings.Cut(rest, "@")
	switch what {
	case "snapshot", "partial":
		fd.at[namespace], fd.partial[namespace] = "", what == "partial"
		fd.pass(p, namespace)
	case "after":
		fd.at[namespace], fd.partial[namespace] = version, true
		fd.pass(p, namespace)
	case "synced":
		fd.at[namespace], fd.partial[namespace] = version, false
		fd.mark(p, namespace)
	case "bookmark":
		fd.at[namespace] = version
		fd.pass(p, namespace)
	case "rewound":
		noError(fd.t, p.Rewound(fd.t.Context()))
	case "gap":
		fd.mark(p, namespace)
		fd.at[namespace] = ""
		fd.pass(p, namespace)
	default:
		fd.object(p, namespace, what, version)
	}
}

func (fd *feeder) object(p *acks.Progress, namespace, what, version string) {
	fd.t.Helper()
	id := strings.TrimLeft(what, "-?~+")
	name, uid, ok := strings.Cut(id, ":")
	if !ok {
		fd.t.Fatalf("invalid word %q", what)
	}
	object := objects.ID{Namespace: namespace, Name: name, UID: types.UID(uid)}
	if what[0] == '+' {
		_ = p.WriteAhead(fd.t.Context(), []objects.ID{object})
		return
	}
	p.Note(acks.Change{Version: objects.Version{ID: object, ResourceVersion: version}, Gone: what[0] == '-'})
	if fd.at[namespace] != "" && what[0] != '~' {
		fd.at[namespace] = version
	}
	switch what[0] {
	case '~':
	case '?':
		fd.pass(p, namespace)
	default:
		fd.mark(p, namespace)
	}
}

func (fd *feeder) mark(p *acks.Progress, namespace string) {
	fd.marks = append(fd.marks, p.Mark(fd.at[namespace], fd.partial[namespace]))
}

func (fd *feeder) pass(p *acks.Progress, namespace string) {
	p.Pass(fd.at[namespace], fd.partial[namespace])
}

func (fd *feeder) ackAll() {
	for _, m := range slices.Backward(fd.marks) {
		m.Ack()
	}
}

// noError ends the test if there is an error.
func noError(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// pass waits, and then until all goroutines are blocked.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}
