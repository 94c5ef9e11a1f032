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
)

const key = "widgets"

var cluster = checkpoint.Cluster{UID: "cluster-1", Address: "https://one:6443"}

func widgets(namespaces ...string) checkpoint.Identity {
	return checkpoint.Identity{Group: "example.com", Resource: "widgets", Namespaces: namespaces, Objects: true}
}

// newTracker returns one of the cluster above; opts may be nil.
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
	s, err := acks.Begin(context.Background(), tracker, key, id)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func flush(t testing.TB, tracker *checkpoint.Tracker) {
	t.Helper()
	noError(t, tracker.Flush(context.Background()))
}

// store is a Memory whose commits can be made to fail, or to take their time.
type store struct {
	*checkpoint.Memory
	mu      sync.Mutex
	before  func(ctx context.Context) error // each commit; nil is no hindrance
	commits int                             // that went well
	sizes   []int                           // of those, in objects
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
			return slices.Contains(d.Gone, o)
		}); both >= 0 {
			return fmt.Errorf("%v is both put and gone", d.Put[both])
		}
		n += len(d.Put) + len(d.Gone)
	}
	s.sizes = append(s.sizes, n)
	return s.Memory.Commit(ctx, deltas)
}

func (s *store) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.commits
}

// saved is what a store holds under the key, as text.
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
// scripts of teller have them.
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

// teller tells a session what a script says, as package stream does. The words, each after "NAMESPACE/" where there are
// several:
//
//	hold            a sequence that does not begin with a snapshot
//	snapshot        one begins
//	partial         one that may leave objects out begins
//	after@9         a sequence that begins with what happens after a version
//	a:1@5           an object: in a snapshot, or as a live event
//	-a:1@5          its end
//	~a:1@5          one that is only known from now on, by the next event
//	?a:1@5          one that is only known from now on, which is no event
//	+a:1@5          one that is about to be delivered, which is written ahead
//	synced@9        the end of a snapshot
//	bookmark@9      one that is no event
//	gap             and the snapshot after it
//	ack 3           of the event, counted from 0 over all namespaces; 3-5, 5-3: of each
type teller struct {
	t       testing.TB
	session *acks.Session
	marks   []*acks.Mark
	at      map[string]string // the version of each namespace, empty in a snapshot
	partial map[string]bool
}

func newTeller(t testing.TB, s *acks.Session) *teller {
	l := &teller{t: t, session: s, at: map[string]string{}, partial: map[string]bool{}}
	if p := s.Position(); p != nil {
		for n, rv := range p.ResourceVersions {
			l.at[n], l.partial[n] = rv, p.Partial
		}
	}
	return l
}

func (l *teller) run(script string) *teller {
	l.t.Helper()
	words := strings.Fields(script)
	for i := 0; i < len(words); i++ {
		if words[i] == "ack" {
			i++
			l.ack(words[i])
			continue
		}
		l.word(words[i])
	}
	return l
}

func (l *teller) ack(which string) {
	from, to, several := strings.Cut(which, "-")
	if !several {
		to = from
	}
	i, errFrom := strconv.Atoi(from)
	last, errTo := strconv.Atoi(to)
	if errFrom != nil || errTo != nil {
		l.t.Fatalf("ack what? %q", which)
	}
	step := 1
	if last < i {
		step = -1
	}
	for ; i != last+step; i += step {
		l.marks[i].Ack()
	}
}

func (l *teller) word(w string) {
	l.t.Helper()
	namespace, rest, ok := strings.Cut(w, "/")
	if !ok {
		namespace, rest = "", w
	}
	p := l.session.Progress(namespace)
	if p == nil {
		l.t.Fatalf("%q: there is no namespace %q", w, namespace)
	}
	what, version, _ := strings.Cut(rest, "@")
	switch what {
	case "hold":
		p.DeferCommits()
	case "snapshot", "partial":
		l.at[namespace], l.partial[namespace] = "", what == "partial"
		l.pass(p, namespace)
	case "after":
		l.at[namespace], l.partial[namespace] = version, true
		l.pass(p, namespace)
	case "synced":
		l.at[namespace], l.partial[namespace] = version, false
		l.mark(p, namespace)
	case "bookmark":
		l.at[namespace] = version
		l.pass(p, namespace)
	case "gap":
		l.mark(p, namespace)
		l.at[namespace] = ""
		l.pass(p, namespace)
	default:
		l.object(p, namespace, what, version)
	}
}

func (l *teller) object(p *acks.Progress, namespace, what, version string) {
	l.t.Helper()
	id := strings.TrimLeft(what, "-?~+")
	name, uid, ok := strings.Cut(id, ":")
	if !ok {
		l.t.Fatalf("no such word: %q", what)
	}
	o := checkpoint.Object{Namespace: namespace, Name: name, UID: types.UID(uid), ResourceVersion: version}
	if what[0] == '+' {
		_ = p.WriteAhead(l.t.Context(), []checkpoint.Object{o})
		return
	}
	p.Note(acks.Change{Object: o, Gone: what[0] == '-'})
	if l.at[namespace] != "" && what[0] != '~' {
		l.at[namespace] = version
	}
	switch what[0] {
	case '~':
	case '?':
		l.pass(p, namespace)
	default:
		l.mark(p, namespace)
	}
}

func (l *teller) mark(p *acks.Progress, namespace string) {
	l.marks = append(l.marks, p.Mark(l.at[namespace], l.partial[namespace]))
}

func (l *teller) pass(p *acks.Progress, namespace string) {
	p.Pass(l.at[namespace], l.partial[namespace])
}

func (l *teller) ackAll() {
	for _, m := range slices.Backward(l.marks) {
		m.Ack()
	}
}

// noError ends a test that can't go on.
func noError(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// pass lets time pass, and what is due then be done.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}
