package stream_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
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
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/internal/seedtest"
	"github.com/gvrwatch/gvrwatch/stream"
)

const selectSeeds = seedtest.Default(20)

// TestSelectsTheSame has a Stream watch what a server makes up, on client-go's dynamic
// client and on one of NewClient, and compares all there is to see of it: the events
// with their objects, Status and Position, requests, frames, errors, and what a
// checkpoint has in the end. The server says what no API server would: only the two
// have to agree on it.
//
//	go test ./stream -run TestSelectsTheSame -seed 4711 -v
func TestSelectsTheSame(t *testing.T) {
	selectSeeds.Play(t, func(t *testing.T, seed uint64) {
		runTwins(t, func() *twin { return newTwin(seed) }, variants()[seed%4], time.Duration(20+seed%60)*time.Second)
	})
}

// twin is one of two runs of the same, on two clients.
type twin struct {
	http.RoundTripper
	o     stream.Options
	store checkpoint.Store // nil without a checkpoint
	how   string           // it was chosen, for the reader
	seen  map[string][]string
}

// runTwins compares what becomes of twins on client-go's client and on v, and returns
// what the latter has seen.
func runTwins(t *testing.T, twin func() *twin, v variant, d time.Duration) string {
	t.Helper()
	var seen [2]map[string][]string
	how := ""
	for i, v := range []variant{stock, v} {
		synctest.Test(t, func(t *testing.T) {
			w := twin()
			w.seen = map[string][]string{}
			w.run(t, v, d+1) // nothing else happens at that moment
			seen[i], how = w.seen, w.how
		})
	}
	if diff := cmp.Diff(seen[0], seen[1]); diff != "" {
		t.Errorf("%s (-client-go +%s):\n%.5000s", how, v.name, diff)
	}
	return fmt.Sprint(seen[1])
}

func (w *twin) run(t *testing.T, v variant, d time.Duration) {
	if w.store != nil {
		w.o.Checkpoint = newTracker(t, w.store, checkpoint.Options{})
	}
	w.o.Trace = &stream.Trace{
		WatchClosed: func(e stream.WatchEnd) { w.note("watches", "%d %v", e.Frames, e.Err) },
		RequestDone: func(r stream.Request) {
			w.note("requests", "%s %s %d %v", r.Verb, r.ResourceVersion, r.Objects,
				r.Err)
		},
		FrameReceived: w.o.Trace.FrameReceived,
	}
	w.o.Transform = func(u *unstructured.Unstructured) { // which some of the clients don't have
		unstructured.RemoveNestedField(u.Object, "metadata", "managedFields")
	}
	s := newStream(t, v.client(t, w), &w.o)
	s.SetRandom(func(least, most time.Duration) time.Duration { return (least + most) / 2 })
	ctx, cancel := context.WithTimeoutCause(t.Context(), d, errTimeUp)
	defer cancel()
	for ev, err := range s.Events(ctx) {
		if err != nil {
			w.note("end", "%v", err)
			break
		}
		st := s.Status()
		w.note("events", "%s %s", text(ev), contentOf(ev.Object))
		w.note("states", "%s %q %v %s", st.State, st.ResourceVersion, st.Synced, positionText(s.Position()))
		ev.Ack()
	}
	w.note("end", "%s", positionText(s.Position()))
	if w.store == nil {
		return
	}
	_ = w.o.Checkpoint.Close()
	if c, err := w.store.Load(t.Context(), "widgets.example.com"); err != nil {
		t.Fatal(err)
	} else if c != nil {
		w.note("kept", "%s", positionText(c.Position))
	}
}

func (w *twin) note(what, format string, args ...any) {
	w.seen[what] = append(w.seen[what], fmt.Sprintf(format, args...))
}

var selects = map[string]func(stream.Meta) bool{
	"labels":      func(m stream.Meta) bool { return m.GetLabels()["c"] == "red" },
	"name":        func(m stream.Meta) bool { return m.GetName() < "c" },
	"namespace":   func(m stream.Meta) bool { return m.GetNamespace() == "one" },
	"annotations": func(m stream.Meta) bool { return m.GetAnnotations()["c"] == "red" },
	"uid":         func(m stream.Meta) bool { return strings.HasSuffix(string(m.GetUID()), "1") },
	"version":     func(m stream.Meta) bool { return strings.HasSuffix(m.GetResourceVersion(), "3") },
	"all of it": func(m stream.Meta) bool {
		return m.GetLabels()["c"] == "red" && len(m.GetAnnotations()) > 0 && m.GetCreationTimestamp().Unix() > 0 &&
			m.GetGeneration() > 0 && m.GetDeletionTimestamp() == nil && len(m.GetFinalizers()) > 0 &&
			len(m.GetOwnerReferences()) > 0
	},
	"nothing": func(stream.Meta) bool { return false },
}

func newTwin(seed uint64) *twin {
	r := rand.New(rand.NewPCG(seed, 11))
	chance := func(percent int) bool { return r.IntN(100) < percent }
	w := &twin{}
	if chance(40) {
		w.o.InitialList = stream.ListStreamed
	}
	name := slices.Sorted(maps.Keys(selects))[r.IntN(len(selects))]
	if chance(10) {
		name = "none"
		w.o.Index = []stream.Index{"", stream.IndexNone}[r.IntN(2)]
	}
	switch start := r.IntN(100); {
	case start < 25:
		w.store = checkpoint.NewMemory()
	case start < 40:
		w.o.Start = stream.Now()
	case start < 55:
		w.o.Start = stream.After("90")
	case start < 70 && w.o.Index != stream.IndexNone:
		w.o.Start = stream.From(checkpoint.Position{ResourceVersions: map[string]string{"": "90"},
			Objects: []checkpoint.Object{{Namespace: "one", Name: "a", UID: types.UID(uid(1, 0)),
				ResourceVersion: "80"}}})
	}
	w.o.MetadataOnly, w.o.Bookmarks = chance(15), chance(30)
	if chance(10) {
		w.o.OnExpired = stream.Fail
	}
	w.o.IdleTimeout, w.o.Timeout = time.Duration(5+r.IntN(20))*time.Second, 40*time.Second
	w.how = fmt.Sprintf("seed %d, Select: %s, checkpoint: %v, %+v", seed, name, w.store != nil, w.o)
	w.o.Select = selects[name]
	w.o.Trace = &stream.Trace{}
	if chance(20) {
		w.o.Trace.FrameReceived = func(f stream.Frame) { w.note("frames", "%s %s", f.Type, f.ResourceVersion) }
	}
	w.RoundTripper = &world{seed: seed, rv: 100, objects: map[string]thingy{}}
	return w
}

func contentOf(u *unstructured.Unstructured) string {
	if u == nil {
		return ""
	}
	b, err := json.Marshal(u.Object)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// positionText leaves out entries without a version: which they are depends on what has
// come by then.
func positionText(p checkpoint.Position) string {
	var objects []string
	for _, o := range p.Objects {
		if o.ResourceVersion != "" {
			objects = append(objects, fmt.Sprintf("%+v", o))
		}
	}
	slices.Sort(objects)
	p.Objects = nil
	return fmt.Sprintf("%+v %s", p, objects)
}

// world is what the server makes up.
type world struct {
	mu         sync.Mutex
	*rand.Rand // of this request
	seed       uint64
	asked      uint64
	rv         int
	objects    map[string]thingy
}

// RoundTrip makes up an answer, which depends on nothing but the seed and what was
// asked before.
func (g *world) RoundTrip(r *http.Request) (*http.Response, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	asked := describe(r)
	g.asked++
	g.Rand = rand.New(rand.NewPCG(g.seed, g.asked))
	fails := g.IntN(100)
	switch {
	case !strings.HasPrefix(asked, "watch") && fails < 5:
		return respondJSON(500, failure(500, "InternalError", 0))
	case asked == "probe":
		return g.list()
	case !strings.HasPrefix(asked, "watch"):
		for range g.IntN(4) {
			g.change()
		}
		return g.list(slices.Sorted(maps.Keys(g.objects))...)
	case fails < 6:
		code := []int32{410, 500, 503}[fails%3]
		return respondJSON(int(code), failure(code, "Expired", 0))
	}
	return watch(g.words(asked == "watch initial")...)(r)
}

// thingy is an object.
type thingy struct {
	name, uid, rv, colour string
	generation            int
}

func uid(n, life int) string { return fmt.Sprintf("6f7b6c1e-0000-4000-8000-%06d%06d", n, life) }

func (g *world) list(names ...string) (*http.Response, error) {
	items := []any{}
	for _, name := range names {
		items = append(items, json.RawMessage(g.json(g.objects[name])))
	}
	rv := g.rv
	if g.IntN(100) < 4 {
		rv -= 50 // it has gone back in time
	}
	return respondJSON(200, map[string]any{"apiVersion": "example.com/v1", "kind": "WidgetList", "items": items,
		"metadata": map[string]any{"resourceVersion": strconv.Itoa(rv)}})
}

// change changes something, and returns the event.
func (g *world) change() string {
	g.rv += 1 + g.IntN(3)
	n := g.IntN(6)
	name := string(rune('a' + n))
	was, known := g.objects[name]
	o, kind := was, "MODIFIED"
	switch {
	case !known:
		o, kind = thingy{name: name, uid: uid(n+1, g.rv)}, "ADDED"
		if g.IntN(8) == 0 {
			o.uid = fmt.Sprint("uid-", g.rv) // no UUID
		}
	case g.IntN(4) == 0:
		kind = "DELETED"
	case g.IntN(12) == 0: // another one has the name, and nobody said so
		o.uid = uid(n+1, g.rv)
	}
	o.rv = strconv.Itoa(g.rv)
	o.generation++
	if g.IntN(3) == 0 || !known {
		o.colour = []string{"red", "blue"}[g.IntN(2)]
	}
	g.objects[name] = o
	if kind == "DELETED" {
		delete(g.objects, name)
		if g.IntN(3) == 0 {
			o.rv = was.rv // as some servers do
		}
	}
	return event(kind, g.json(o))
}

// json is the object, with its fields in the order of Go structs, or of names.
func (g *world) json(o thingy) string {
	namespace := []string{"one", "two"}[o.name[0]%2]
	meta := []string{
		fmt.Sprintf(`"name":%q,"namespace":%q,"uid":%q,"resourceVersion":%q`, o.name, namespace, o.uid, o.rv),
		fmt.Sprintf(`"generation":%d`, o.generation), `"creationTimestamp":"2020-01-02T03:04:05Z"`,
		`"labels":{"c":"` + o.colour + `","é":"\u00e9"}`, `"annotations":{"c":"` + o.colour +
			`","j":"{\"x\":[\"}}\"]}"}`,
		`"ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"o","uid":"1"}]`, `"finalizers":["c/` + o.colour +
			`"]`,
		`"managedFields":[{"manager":"m","fieldsV1":{"f:metadata":{"f:labels":{}}}}]`}
	if o.generation%3 == 2 {
		meta = append(meta, `"deletionTimestamp":"2020-01-02T03:04:06Z"`)
	}
	if g.IntN(4) == 0 {
		slices.Sort(meta)
	}
	return `{"kind":"Widget","apiVersion":"example.com/v1","metadata":{` + strings.Join(meta, ",") +
		`},"spec":{"n":1.5,"s":"}}\n{"},"status":{}}`
}

func event(kind, o string) string { return `{"type":"` + kind + `","object":` + o + "}\n" }

func bookmark(rv int, more string) string {
	return event("BOOKMARK", fmt.Sprintf(`{"kind":"Widget","apiVersion":"example.com/v1",`+
		`"metadata":{"resourceVersion":"%d"%s}}`, rv, more))
}

var oddVersions = []string{"007", "0", "x9", "18446744073709551615", "18446744073709551616", "9223372036854775808",
	"-5", "1e3", " 7", ""}

func (g *world) frame() string {
	kind := []string{"ADDED", "MODIFIED", "DELETED"}[g.IntN(3)]
	switch n := g.IntN(100); {
	case n < 5:
		g.rv++
		return bookmark(g.rv, "")
	case n < 11 && len(g.objects) > 0: // a replay, or what is out of order
		o := g.objects[slices.Min(slices.Collect(maps.Keys(g.objects)))]
		if o.rv = strconv.Itoa(g.rv - g.IntN(8)); n == 10 && g.IntN(10) == 0 {
			o.rv, o.colour = oddVersions[g.IntN(len(oddVersions))], "red"
		}
		return event(kind, g.json(o))
	}
	ev := g.change()
	switch g.IntN(10) {
	case 0: // on two lines
		return strings.Replace(ev, `},"status"`, "}\n,\"status\"", 1)
	case 1: // the next one on the same
		return strings.TrimSuffix(ev, "\n")
	}
	return ev
}

// words are what a watch sends, as the script has it.
func (g *world) words(initial bool) (words []string) {
	if initial {
		var b strings.Builder
		for _, name := range slices.Sorted(maps.Keys(g.objects)) {
			b.WriteString(strings.Repeat(event("ADDED", g.json(g.objects[name])), 1+g.IntN(20)/19))
		}
		if g.IntN(10) > 0 {
			b.WriteString(bookmark(g.rv, `,"annotations":{"k8s.io/initial-events-end":"true"}`))
		}
		words = append(words, "raw "+b.String())
	}
	for range g.IntN(12) {
		if g.IntN(3) > 0 {
			words = append(words, fmt.Sprint("wait ", 1+g.IntN(4000), "ms"))
		}
		var b strings.Builder
		for range 1 + g.IntN(6)*g.IntN(12) {
			b.WriteString(g.frame())
		}
		text, at := b.String(), 0
		if g.IntN(8) == 0 { // cut anywhere
			at = g.IntN(len(text))
			words = append(words, "raw "+text[:at], "wait 1s")
		}
		words = append(words, "raw "+text[at:])
	}
	ends := []string{"ERROR 410 Expired", "raw this is no JSON\n", "raw " + g.frame()[:40], "open", "reset"}
	if n := g.IntN(8); n < len(ends) {
		words = append(words, ends[n])
	}
	return words
}
