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
	"github.com/gvrwatch/gvrwatch/internal/testing/seedtest"
	"github.com/gvrwatch/gvrwatch/stream"
)

const selectSeeds = seedtest.Default(20)

// TestSelectDeliversTheSameAtRandom runs a Stream twice against a randomServer, on client-go's dynamic client and on
// one of NewClient. Both runs must agree on everything that can be observed: events with their objects, Status and
// Position, requests, frames, errors, and the stored checkpoint. The server's answers need not be those of an API
// server.
//
//	go test ./stream -run TestSelectDeliversTheSameAtRandom -seed 4711 -v
func TestSelectDeliversTheSameAtRandom(t *testing.T) {
	selectSeeds.Run(t, func(t *testing.T, seed uint64) {
		runTwins(t, func() *twin { return newTwin(seed) }, variants()[seed%2], time.Duration(20+seed%60)*time.Second)
	})
}

// twin is one of two runs that differ in their client only.
type twin struct {
	http.RoundTripper
	o        setup
	store    checkpoint.Store    // nil without a checkpoint
	settings string              // for messages
	seen     map[string][]string // observations by kind
}

// runTwins runs one twin on client-go's client and one on v, compares what they observed, and returns what the latter
// did.
func runTwins(t *testing.T, twin func() *twin, v variant, d time.Duration) string {
	t.Helper()
	var seen [2]map[string][]string
	settings := ""
	for i, v := range []variant{stock, v} {
		synctest.Test(t, func(t *testing.T) {
			w := twin()
			w.seen = map[string][]string{}
			w.run(t, v, d+1) // 1 ns later, so that nothing else happens at the moment it ends
			seen[i], settings = w.seen, w.settings
		})
	}
	if diff := cmp.Diff(seen[0], seen[1]); diff != "" {
		t.Errorf("%s (-client-go +%s):\n%.5000s", settings, v.name, diff)
	}
	return fmt.Sprint(seen[1])
}

func (w *twin) run(t *testing.T, v variant, d time.Duration) {
	if w.store != nil {
		w.o.Checkpoint = newTracker(t, w.store, checkpoint.Options{})
	}
	w.o.Trace = &stream.Trace{
		WatchClosed: func(e stream.Request) { w.note("watches", "%d %v", e.Objects, e.Err) },
		RequestDone: func(r stream.Request) {
			w.note("requests", "%s %s %d %v", r.Verb, r.ResourceVersion, r.Objects, r.Err)
		},
		FrameReceived: w.o.Trace.FrameReceived,
	}
	s := streamOf(t, v.client(t, w), widgets(), &w.o)
	s.SetRandom(func(least, most time.Duration) time.Duration { return (least + most) / 2 })
	ctx, cancel := context.WithTimeoutCause(t.Context(), d, errTimeUp)
	defer cancel()
	for ev, err := range s.Events(ctx) {
		if err != nil {
			w.note("end", "%v", err)
			break
		}
		st := s.Status()
		w.note("events", "%s %s", text(ev), contentOf(ev))
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
		w.note("stored", "%s", positionText(c.Position))
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
	"all fields": func(m stream.Meta) bool {
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
	w.o.Requests.PagedLists = !chance(40)
	name := slices.Sorted(maps.Keys(selects))[r.IntN(len(selects))]
	if chance(10) {
		name = "none"
	}
	switch start := r.IntN(100); {
	case start < 25:
		w.store = &checkpoint.Memory{}
	case start < 40:
		w.o.Start = stream.Now()
	case start < 55:
		w.o.Start = stream.After("90")
	case start < 70:
		w.o.Start = stream.From(checkpoint.Position{ResourceVersions: map[string]string{"": "90"},
			Objects: []checkpoint.Object{
				{Namespace: "one", Name: "a", UID: types.UID(uid(1, 0)), ResourceVersion: "80"},
			}})
	}
	w.o.Bookmarks = chance(30)
	w.o.Objects = []stream.ObjectsMode{stream.Full, stream.Full, stream.Full, stream.Raw, stream.Metadata}[r.IntN(5)]
	if chance(10) {
		w.o.FailOnGap = true
	}
	w.o.Requests.IdleTimeout, w.o.Requests.WatchLifetime = time.Duration(5+r.IntN(20))*time.Second, 40*time.Second
	w.settings = fmt.Sprintf("seed %d, Select: %s, checkpoint: %v, %+v", seed, name, w.store != nil, w.o)
	w.o.Select = selects[name]
	w.o.Trace = &stream.Trace{}
	if chance(20) {
		w.o.Trace.FrameReceived = func(f stream.Event) { w.note("frames", "%s %s", f.Type, f.ResourceVersion) }
	}
	w.RoundTripper = &randomServer{seed: seed, rv: 100, objects: map[string]randomObject{}}
	return w
}

func contentOf(ev stream.Event) string {
	if !ev.HasObject() {
		return ""
	}
	u, err := ev.Decode()
	if err == nil {
		unstructured.RemoveNestedField(u.Object, "metadata", "managedFields") // some clients drop them
		var b []byte
		if b, err = json.Marshal(u.Object); err == nil {
			return string(b)
		}
	}
	return err.Error()
}

// positionText leaves out objects without a version: they depend on how much has arrived.
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

// randomServer answers at random. Its answers depend only on its seed and the requests so far.
type randomServer struct {
	mu         sync.Mutex
	*rand.Rand // for the current request
	seed       uint64
	requests   uint64
	rv         int
	objects    map[string]randomObject
}

func (g *randomServer) RoundTrip(r *http.Request) (*http.Response, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	request := describe(r)
	g.requests++
	g.Rand = rand.New(rand.NewPCG(g.seed, g.requests))
	fails := g.IntN(100)
	switch {
	case !strings.HasPrefix(request, "watch") && fails < 5:
		return respondJSON(500, failure(500, "InternalError", 0))
	case request == "probe":
		return g.list()
	case !strings.HasPrefix(request, "watch"):
		for range g.IntN(4) {
			g.change()
		}
		return g.list(slices.Sorted(maps.Keys(g.objects))...)
	case fails < 6:
		code := []int32{410, 500, 503}[fails%3]
		return respondJSON(int(code), failure(code, "Expired", 0))
	}
	return watch(g.frames(request == "watch initial")...)(r)
}

type randomObject struct {
	name, uid, rv, colour string
	generation            int
}

// uid returns the uid of the nth object in one of its incarnations.
func uid(n, incarnation int) string {
	return fmt.Sprintf("6f7b6c1e-0000-4000-8000-%06d%06d", n, incarnation)
}

func (g *randomServer) list(names ...string) (*http.Response, error) {
	items := []any{}
	for _, name := range names {
		items = append(items, json.RawMessage(g.json(g.objects[name])))
	}
	rv := g.rv
	if g.IntN(100) < 4 {
		rv -= 50 // a rewound server
	}
	return respondJSON(200, map[string]any{"apiVersion": "example.com/v1", "kind": "WidgetList", "items": items,
		"metadata": map[string]any{"resourceVersion": strconv.Itoa(rv)}})
}

// change changes one object and returns its event.
func (g *randomServer) change() string {
	g.rv += 1 + g.IntN(3)
	n := g.IntN(6)
	name := string(rune('a' + n))
	was, known := g.objects[name]
	o, kind := was, "MODIFIED"
	switch {
	case !known:
		o, kind = randomObject{name: name, uid: uid(n+1, g.rv)}, "ADDED"
		if g.IntN(8) == 0 {
			o.uid = fmt.Sprint("uid-", g.rv) // not a UUID
		}
	case g.IntN(4) == 0:
		kind = "DELETED"
	case g.IntN(12) == 0: // replaced by another object, without events for it
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
			o.rv = was.rv // some servers give a deletion no version of its own
		}
	}
	return event(kind, g.json(o))
}

// json returns o as JSON, with its metadata in the order of Go's struct fields, or sorted by name.
func (g *randomServer) json(o randomObject) string {
	namespace := []string{"one", "two"}[o.name[0]%2]
	meta := []string{
		fmt.Sprintf(`"name":%q,"namespace":%q,"uid":%q,"resourceVersion":%q`, o.name, namespace, o.uid, o.rv),
		fmt.Sprintf(`"generation":%d`, o.generation), `"creationTimestamp":"2020-01-02T03:04:05Z"`,
		`"labels":{"c":"` + o.colour + `","é":"\u00e9"}`,
		`"annotations":{"c":"` + o.colour + `","j":"{\"x\":[\"}}\"]}"}`,
		`"ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"o","uid":"1"}]`,
		`"finalizers":["c/` + o.colour + `"]`,
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

func (g *randomServer) frame() string {
	kind := []string{"ADDED", "MODIFIED", "DELETED"}[g.IntN(3)]
	switch n := g.IntN(100); {
	case n < 5:
		g.rv++
		return bookmark(g.rv, "")
	case n < 11 && len(g.objects) > 0: // a replayed event, or one out of order
		o := g.objects[slices.Min(slices.Collect(maps.Keys(g.objects)))]
		if o.rv = strconv.Itoa(g.rv - g.IntN(8)); n == 10 && g.IntN(10) == 0 {
			o.rv, o.colour = oddVersions[g.IntN(len(oddVersions))], "red"
		}
		return event(kind, g.json(o))
	}
	ev := g.change()
	switch g.IntN(10) {
	case 0: // one event on two lines
		return strings.Replace(ev, `},"status"`, "}\n,\"status\"", 1)
	case 1: // the next event on the same line
		return strings.TrimSuffix(ev, "\n")
	}
	return ev
}

// frames returns what a watch sends, in the notation of script.
func (g *randomServer) frames(initial bool) (frames []string) {
	if initial {
		var b strings.Builder
		for _, name := range slices.Sorted(maps.Keys(g.objects)) {
			b.WriteString(strings.Repeat(event("ADDED", g.json(g.objects[name])), 1+g.IntN(20)/19))
		}
		if g.IntN(10) > 0 {
			b.WriteString(bookmark(g.rv, `,"annotations":{"k8s.io/initial-events-end":"true"}`))
		}
		frames = append(frames, "raw "+b.String())
	}
	for range g.IntN(12) {
		if g.IntN(3) > 0 {
			frames = append(frames, fmt.Sprint("wait ", 1+g.IntN(4000), "ms"))
		}
		var b strings.Builder
		for range 1 + g.IntN(6)*g.IntN(12) {
			b.WriteString(g.frame())
		}
		text, at := b.String(), 0
		if g.IntN(8) == 0 { // cut anywhere
			at = g.IntN(len(text))
			frames = append(frames, "raw "+text[:at], "wait 1s")
		}
		frames = append(frames, "raw "+text[at:])
	}
	ends := []string{"ERROR 410 Expired", "raw this is no JSON\n", "raw " + g.frame()[:40], "open", "reset"}
	if n := g.IntN(8); n < len(ends) {
		frames = append(frames, ends[n])
	}
	return frames
}
