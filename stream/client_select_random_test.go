package stream_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/internal/seeds"
	"github.com/gvrwatch/gvrwatch/stream"
)

var selectSeeds = seeds.Flags("select-", "TestSelectsTheSame", 150)

// TestSelectsTheSame has a Stream watch what a server makes up, on client-go's
// dynamic client and on one of NewClient, and compares all there is to see of it:
// the events with their objects, Status and Position at each and once a second,
// requests, errors, and what a checkpoint has in the end. The server says what no
// API server would: only the two have to agree on it.
//
//	go test ./stream -run TestSelectsTheSame -select-seed 4711 -select-seeds 1 -v
func TestSelectsTheSame(t *testing.T) {
	selectSeeds.Play(t, func(t *testing.T, n uint64) {
		var seen [2]sighting
		for i := range seen {
			synctest.Test(t, func(t *testing.T) { seen[i] = newTwin(t, n, i == 1).run() })
		}
		if diff := cmp.Diff(seen[0], seen[1], cmpopts.IgnoreFields(sighting{}, "How", "Sent")); diff != "" {
			t.Errorf("%s (-client-go +ours):\n%s", seen[1].How, diff)
			t.Logf("the server sent\n%s", strings.Join(seen[1].Sent, "\n"))
		}
	})
}

// sighting is what was seen of a Stream.
type sighting struct {
	Events   map[string][]string // by namespace
	Statuses []string
	Requests map[string][]string
	Frames   map[string][]string
	Position string
	Kept     string
	End      string

	How  string   // for the reader
	Sent []string // likewise
}

// twin is one of two runs of the same seed.
type twin struct {
	*testing.T
	*rand.Rand
	seed uint64
	ours bool
	o    stream.Options
	c    stream.ClientOptions

	tracker *checkpoint.Tracker
	store   checkpoint.Store
	span    time.Duration
	odd     bool // versions and uids that no API server has

	mu   sync.Mutex
	seen sighting
	some map[string]*world // by namespace
}

// world is what the server makes up for those who ask for one namespace.
type world struct {
	*twin
	namespace string
	asked     uint64
	rv        uint64
	objects   map[string]*thingy
}

// thingy is an object.
type thingy struct {
	name, uid, rv, colour string
	generation            int
}

func newTwin(t *testing.T, seed uint64, ours bool) *twin {
	w := &twin{T: t, Rand: rand.New(rand.NewPCG(seed, 11)), seed: seed, ours: ours, some: map[string]*world{}}
	w.seen = sighting{Events: map[string][]string{}, Requests: map[string][]string{}, Frames: map[string][]string{}}
	w.choose()
	return w
}

func (w *twin) chance(percent int) bool { return w.IntN(100) < percent }

var selects = []struct {
	name string
	f    func(stream.Meta) bool
}{
	{"labels", func(m stream.Meta) bool { return m.GetLabels()["c"] == "red" }},
	{"name", func(m stream.Meta) bool { return m.GetName() < "c" }},
	{"namespace", func(m stream.Meta) bool { return m.GetNamespace() == "one" }},
	{"annotations", func(m stream.Meta) bool { return m.GetAnnotations()["c"] == "red" }},
	{"generation", func(m stream.Meta) bool { return m.GetGeneration()%2 == 0 }},
	{"finalizers", func(m stream.Meta) bool { return slices.Contains(m.GetFinalizers(), "c/red") }},
	{"owners", func(m stream.Meta) bool {
		for _, o := range m.GetOwnerReferences() {
			if o.Name == "red" {
				return true
			}
		}
		return false
	}},
	{"version", func(m stream.Meta) bool { return strings.HasSuffix(m.GetResourceVersion(), "3") }},
	{"uid", func(m stream.Meta) bool { return strings.HasSuffix(string(m.GetUID()), "1") }},
	{"deletion", func(m stream.Meta) bool { return m.GetDeletionTimestamp() == nil }},
	{"all of it", func(m stream.Meta) bool {
		return m.GetLabels()["c"] == "red" && len(m.GetAnnotations()) > 0 && m.GetCreationTimestamp().Unix() > 0 && m.GetGeneration() > 0
	}},
	{"nothing", func(stream.Meta) bool { return false }},
}

func (w *twin) choose() {
	var how []string
	say := func(format string, args ...any) { how = append(how, fmt.Sprintf(format, args...)) }
	w.span = time.Duration(20+w.IntN(200)) * time.Second
	if w.chance(30) {
		w.o.Namespaces = []string{"one", "two"}
	}
	w.o.InitialList = stream.ListPaged
	if w.chance(40) {
		w.o.InitialList = stream.ListStreamed
	}
	w.odd = w.chance(25)
	say("namespaces %v, %s, odd %v", w.o.Namespaces, w.o.InitialList, w.odd)
	if w.chance(90) {
		s := selects[w.IntN(len(selects))]
		w.o.Select = s.f
		say("Select by %s", s.name)
	} else if w.chance(50) {
		w.o.Index = stream.IndexNone
	}
	switch {
	case w.chance(25):
		store := checkpoint.NewMemory()
		tr, err := checkpoint.NewTracker(store, &checkpoint.Options{Cluster: checkpoint.Cluster{UID: "test"}})
		if err != nil {
			w.Fatal(err)
		}
		w.o.Checkpoint, w.tracker, w.store = tr, tr, store
		say("checkpoint")
	case w.chance(20):
		w.o.Start = stream.Now()
		say("now")
	case w.chance(20) && len(w.o.Namespaces) == 0:
		w.o.Start = stream.After("90")
		say("after 90")
	case w.chance(20) && w.o.Index != stream.IndexNone && len(w.o.Namespaces) == 0:
		w.o.Start = stream.From(checkpoint.Position{ResourceVersions: map[string]string{"": "90"}, Objects: []checkpoint.Object{
			{Namespace: "one", Name: "a", UID: uidOf[types.UID](1, 0), ResourceVersion: "80", Hidden: w.chance(50)},
			{Namespace: "two", Name: "b", UID: uidOf[types.UID](2, 0), ResourceVersion: "89", Hidden: w.chance(50)}}})
		say("from 90")
	}
	w.o.MetadataOnly = w.chance(15)
	w.o.Bookmarks = w.chance(30)
	if w.chance(10) {
		w.o.OnExpired = stream.Fail
	}
	if w.chance(10) {
		w.o.End = stream.AtFirstClose
	}
	w.o.IdleTimeout = time.Duration(5+w.IntN(20)) * time.Second
	w.o.Timeout = 40 * time.Second
	w.o.Trace = &stream.Trace{}
	if w.chance(20) {
		w.o.Trace.FrameReceived = func(f stream.Frame) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.seen.Frames[f.Namespace] = append(w.seen.Frames[f.Namespace], fmt.Sprint(f.Type, f.ResourceVersion))
		}
		say("FrameReceived")
	}
	if w.chance(30) {
		w.c.DecodeWorkers = 3
		say("3 workers")
	}
	if w.chance(20) {
		w.c.DropManagedFields = true
		w.o.Transform = func(u *unstructured.Unstructured) {
			unstructured.RemoveNestedField(u.Object, "metadata", "managedFields")
		}
		say("no managedFields")
	}
	say("metadata %v, bookmarks %v, %q, %q, idle %v", w.o.MetadataOnly, w.o.Bookmarks, w.o.OnExpired, w.o.End, w.o.IdleTimeout)
	w.seen.How = strings.Join(how, "; ")
}

func uidOf[T ~string](n, life int) T {
	return T(fmt.Sprintf("6f7b6c1e-0000-4000-8000-%06d%06d", n, life))
}

func (w *twin) client() dynamic.Interface {
	cfg := &rest.Config{Host: "http://server", Transport: w, QPS: -1}
	if !w.ours {
		return dynamic.NewForConfigOrDie(cfg)
	}
	c, err := stream.NewClient(cfg, &w.c)
	if err != nil {
		w.Fatal(err)
	}
	return c
}

func (w *twin) run() sighting {
	s, err := stream.New(w.client(), widgets(), &w.o)
	if err != nil {
		w.Fatal(err)
	}
	s.SetRandom(func(least, most time.Duration) time.Duration { return (least + most) / 2 })
	ctx, cancel := context.WithTimeoutCause(w.Context(), w.span, errTimeUp)
	defer cancel()
	var looking sync.WaitGroup
	looking.Go(func() {
		time.Sleep(379 * time.Microsecond) // nothing happens at such times
		for ctx.Err() == nil {
			w.look(s)
			time.Sleep(time.Second)
		}
	})
	for ev, err := range s.Events(ctx) {
		if err != nil {
			w.seen.End = err.Error()
			if errors.Is(err, errTimeUp) {
				w.seen.End = "time is up"
			}
			break
		}
		w.event(s, ev)
		ev.Ack()
	}
	cancel()
	looking.Wait()
	w.seen.Position = positionText(s.Position())
	if w.tracker != nil {
		_ = w.tracker.Close()
		c, err := w.store.Load(w.Context(), "widgets.example.com")
		if err != nil {
			w.Fatal(err)
		}
		if c != nil {
			// What is written ahead depends on what has come by then; and what this server
			// has sent and not told again after an ERROR stays so.
			c.Position.Objects = slices.DeleteFunc(c.Position.Objects, func(o checkpoint.Object) bool { return o.Unacked })
			w.seen.Kept = positionText(c.Position)
		}
	}
	return w.seen
}

func positionText(p checkpoint.Position) string {
	slices.SortFunc(p.Objects, func(a, b checkpoint.Object) int {
		return strings.Compare(fmt.Sprintf("%v", a), fmt.Sprintf("%v", b))
	})
	return fmt.Sprintf("%+v", p)
}

func (w *twin) event(s *stream.Stream, ev stream.Event) {
	line := text(ev)
	if ev.Object != nil {
		b, err := json.Marshal(ev.Object.Object)
		if err != nil {
			w.Fatal(err)
		}
		line += " " + string(b)
	}
	key := ev.Namespace
	if len(w.o.Namespaces) == 0 {
		st := s.Status()
		line += fmt.Sprintf(" | %s %q %v %d | %s", st.State, st.ResourceVersion, st.Synced, st.Objects, positionText(s.Position()))
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen.Events[key] = append(w.seen.Events[key], line)
}

func (w *twin) look(s *stream.Stream) {
	st := s.Status()
	each := st.Namespaces
	if each == nil {
		each = []stream.Status{st}
	}
	line := time.Now().Format("04:05")
	for _, st := range each {
		line += fmt.Sprintf(" %s %q %v %d", st.State, st.ResourceVersion, st.Synced, st.Objects)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen.Statuses = append(w.seen.Statuses, line)
}

// RoundTrip makes up an answer, which depends on nothing but the seed and what was
// asked before.
func (w *twin) RoundTrip(r *http.Request) (*http.Response, error) {
	namespace := ""
	if _, rest, ok := strings.Cut(r.URL.Path, "/namespaces/"); ok {
		namespace, _, _ = strings.Cut(rest, "/")
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	g := w.some[namespace]
	if g == nil {
		g = &world{twin: w, namespace: namespace, rv: 100, objects: map[string]*thingy{}}
		w.some[namespace] = g
	}
	asked := describe(r)
	w.seen.Requests[namespace] = append(w.seen.Requests[namespace], asked)
	g.asked++
	rng := rand.New(rand.NewPCG(w.seed, g.asked<<8|g.number()))
	if strings.HasPrefix(asked, "watch") {
		return g.watch(rng, r, strings.HasSuffix(asked, "initial"))
	}
	return g.list(rng, asked == "probe")
}

// number is another one for each namespace.
func (g *world) number() uint64 {
	if g.namespace == "" {
		return 0
	}
	return uint64(g.namespace[0])
}

func (g *world) list(rng *rand.Rand, probe bool) (*http.Response, error) {
	if rng.IntN(100) < 5 {
		return respondJSON(500, failure(500, "InternalError", 0))
	}
	items := []any{}
	if !probe {
		for range rng.IntN(4) {
			g.change(rng)
		}
		for _, name := range slices.Sorted(mapKeys(g.objects)) {
			items = append(items, json.RawMessage(g.objects[name].json(rng, g.space(name))))
		}
	}
	rv := g.rv
	if rng.IntN(100) < 4 {
		rv -= 50 // it has gone back in time
	}
	return respondJSON(200, map[string]any{"apiVersion": "example.com/v1", "kind": "WidgetList", "items": items, "metadata": map[string]any{"resourceVersion": fmt.Sprint(rv)}})
}

func mapKeys[V any](m map[string]V) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

func (g *world) space(name string) string {
	if g.namespace != "" {
		return g.namespace
	}
	return []string{"one", "two"}[name[0]%2]
}

// change changes something, and returns the event.
func (g *world) change(rng *rand.Rand) (kind string, o *thingy) {
	g.rv += uint64(1 + rng.IntN(3))
	name := string(rune('a' + rng.IntN(6)))
	was := g.objects[name]
	rv := fmt.Sprint(g.rv)
	switch {
	case was == nil:
		o = &thingy{name: name, uid: uidOf[string](int(name[0]-'a')+1, int(g.rv))}
		if rng.IntN(8) == 0 {
			o.uid = "uid-" + rv // no UUID
		}
		kind = "ADDED"
	case rng.IntN(4) == 0:
		o, kind = &thingy{}, "DELETED"
		*o = *was
	default:
		o, kind = &thingy{}, "MODIFIED"
		*o = *was
		if rng.IntN(12) == 0 { // another one has the name, and nobody said so
			o.uid = uidOf[string](int(name[0]-'a')+1, int(g.rv))
		}
	}
	o.rv = rv
	o.generation++
	if rng.IntN(3) == 0 || was == nil {
		o.colour = []string{"red", "blue"}[rng.IntN(2)]
	}
	if kind == "DELETED" {
		delete(g.objects, name)
		if rng.IntN(3) == 0 {
			o.rv = was.rv // as some servers do
		}
	} else {
		g.objects[name] = o
	}
	return kind, o
}

var oddVersions = []string{"007", "0", "x9", "18446744073709551615", "18446744073709551616", "9223372036854775808", "99999999999999999999999", "-5", "1e3", " 7", ""}

// json is the object, with its fields in the order of Go structs, or of names.
func (o *thingy) json(rng *rand.Rand, namespace string) string {
	q := strconv.Quote
	meta := []string{
		`"name":` + q(o.name), `"namespace":` + q(namespace), `"uid":` + q(o.uid), `"resourceVersion":` + q(o.rv),
		fmt.Sprintf(`"generation":%d`, o.generation), `"creationTimestamp":"2020-01-02T03:04:05Z"`,
	}
	if o.generation%3 == 2 {
		meta = append(meta, `"deletionTimestamp":"2020-01-02T03:04:06Z"`)
	}
	meta = append(meta, `"labels":{"c":`+q(o.colour)+`,"é":"\u00e9"}`, `"annotations":{"c":`+q(o.colour)+`,"j":"{\"x\":[\"}}\"]}"}`,
		`"ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":`+q(o.colour)+`,"uid":"1"}]`, `"finalizers":["c/`+o.colour+`"]`,
		`"managedFields":[{"manager":"m","fieldsV1":{"f:metadata":{"f:labels":{}}}}]`)
	if rng.IntN(4) == 0 {
		slices.Sort(meta)
	}
	return `{"kind":"Widget","apiVersion":"example.com/v1","metadata":{` + strings.Join(meta, ",") + `},"spec":{"n":1.5,"s":"}}\n{"},"status":{}}`
}

func (g *world) frame(rng *rand.Rand) string {
	switch n := rng.IntN(100); {
	case n < 5:
		g.rv++
		return fmt.Sprintf(`{"type":"BOOKMARK","object":{"kind":"Widget","apiVersion":"example.com/v1","metadata":{"resourceVersion":"%d"}}}`+"\n", g.rv)
	case n < 10 && len(g.objects) > 0: // a replay, or what is out of order
		for _, name := range slices.Sorted(mapKeys(g.objects)) {
			o := *g.objects[name]
			o.rv = fmt.Sprint(g.rv - uint64(rng.IntN(8)))
			return event([]string{"ADDED", "MODIFIED", "DELETED"}[rng.IntN(3)], o.json(rng, g.space(name)))
		}
	case n < 14 && g.odd:
		o := thingy{name: string(rune('a' + rng.IntN(6))), uid: "odd", colour: "red", rv: oddVersions[rng.IntN(len(oddVersions))], generation: rng.IntN(3)}
		if was := g.objects[o.name]; was != nil && rng.IntN(2) == 0 {
			o.uid = was.uid
		}
		return event([]string{"ADDED", "MODIFIED", "DELETED"}[rng.IntN(3)], o.json(rng, g.space(o.name)))
	}
	kind, o := g.change(rng)
	return event(kind, o.json(rng, g.space(o.name)))
}

func event(kind, o string) string { return `{"type":"` + kind + `","object":` + o + "}\n" }

// watch answers with pieces, between which time passes, and an end.
func (g *world) watch(rng *rand.Rand, r *http.Request, initial bool) (*http.Response, error) {
	if n := rng.IntN(100); n < 6 {
		code := []int32{410, 500, 503}[n%3]
		return respondJSON(int(code), failure(code, "Expired", 0))
	}
	var pieces []string
	if initial {
		var b strings.Builder
		for _, name := range slices.Sorted(mapKeys(g.objects)) {
			b.WriteString(event("ADDED", g.objects[name].json(rng, g.space(name))))
			if rng.IntN(20) == 0 {
				b.WriteString(event("ADDED", g.objects[name].json(rng, g.space(name))))
			}
		}
		if rng.IntN(10) > 0 {
			fmt.Fprintf(&b, `{"type":"BOOKMARK","object":{"kind":"Widget","apiVersion":"example.com/v1","metadata":{"resourceVersion":"%d","annotations":{"k8s.io/initial-events-end":"true"}}}}`+"\n", g.rv)
		}
		pieces = append(pieces, b.String())
	}
	for range rng.IntN(12) {
		var b strings.Builder
		for range 1 + rng.IntN(6)*rng.IntN(12) {
			b.WriteString(g.frame(rng))
		}
		if text := b.String(); rng.IntN(8) == 0 { // cut anywhere
			at := rng.IntN(len(text))
			pieces = append(pieces, text[:at], text[at:])
		} else {
			pieces = append(pieces, text)
		}
	}
	end := rng.IntN(8)
	switch end {
	case 0:
		pieces = append(pieces, `{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"too old","reason":"Expired","code":410}}`+"\n")
	case 1:
		pieces = append(pieces, "this is no JSON\n")
	case 2:
		pieces = append(pieces, g.frame(rng)[:40])
	}
	g.seen.Sent = append(g.seen.Sent, fmt.Sprintf("--- %s %q, then %d", g.namespace, describe(r), end))
	waits := make([]time.Duration, len(pieces)+1)
	for i := range waits {
		waits[i] = time.Duration(1+rng.IntN(4000))*time.Millisecond + time.Duration(g.number())*time.Microsecond // the others do nothing then
		if rng.IntN(3) == 0 {
			waits[i] = 0
		}
	}
	for i, p := range pieces {
		g.seen.Sent = append(g.seen.Sent, waits[i].String(), p)
	}
	pr, pw := io.Pipe()
	go func() {
		for i, p := range pieces {
			if !waitFor(r.Context(), waits[i]) {
				_ = pw.CloseWithError(context.Cause(r.Context()))
				return
			}
			if _, err := io.WriteString(pw, p); err != nil {
				return
			}
		}
		if !waitFor(r.Context(), waits[len(pieces)]) {
			_ = pw.CloseWithError(context.Cause(r.Context()))
			return
		}
		switch end {
		case 3: // half-open
			<-r.Context().Done()
			_ = pw.CloseWithError(context.Cause(r.Context()))
		case 4:
			_ = pw.CloseWithError(errors.New("read: connection reset by peer"))
		default:
			_ = pw.Close()
		}
	}()
	return respond(200, pr)
}

func waitFor(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}
