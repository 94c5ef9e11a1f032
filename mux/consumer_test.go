package mux_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/internal/seedtest"
	"github.com/gvrwatch/gvrwatch/mux"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

const consumerSeeds = seedtest.Default(80) // with each Overflow

// TestConsumer: a program with a database handles what it is told in any order but
// that of each object, acks it, and is killed and started again. In the end its
// database has what the server has.
func TestConsumer(t *testing.T) {
	for _, overflow := range []mux.Overflow{mux.Latest, mux.Block} {
		t.Run(fmt.Sprint(overflow), func(t *testing.T) {
			consumerSeeds.Play(t, func(t *testing.T, n uint64) {
				synctest.Test(t, func(t *testing.T) { newConsumer(t, n, overflow).play() })
			})
		})
	}
}

type consumer struct {
	*testing.T
	*rand.Rand
	overflow mux.Overflow
	srv      *streamtest.Server
	store    *checkpoint.Memory
	options  stream.Options
	red      bool              // only such objects are of interest
	rewinds  bool              // the server does, now and then, in the first run
	database map[string]string // UID@VERSION by NAMESPACE/NAME
	log      []string

	// Of the run.
	events  []stream.Event
	handled []bool
}

func newConsumer(t *testing.T, seed uint64, overflow mux.Overflow) *consumer {
	c := &consumer{T: t, Rand: rand.New(rand.NewPCG(seed, 11)), overflow: overflow,
		srv: streamtest.NewServer(widgets()), store: checkpoint.NewMemory(), database: map[string]string{}}
	switch c.IntN(4) {
	case 0:
		c.options.LabelSelector, c.red = "colour=red", true
	case 1:
		c.options.Select, c.red = func(m stream.Meta) bool { return m.GetLabels()["colour"] == "red" }, true
	}
	if c.IntN(3) == 0 {
		c.options.Namespaces = []string{"one", "two"}
	}
	if c.IntN(2) == 0 {
		c.options.InitialList, c.options.PageSize = stream.ListPaged, 2
	}
	c.rewinds = c.IntN(4) == 0
	return c
}

func (c *consumer) note(format string, args ...any) {
	c.log = append(c.log, fmt.Sprintf(format, args...))
}

func (c *consumer) play() {
	const runs = 4
	for run := range runs {
		c.write(10)
		if c.IntN(3) == 0 {
			c.do("compact")
		}
		c.run(run == runs-1)
		c.rewinds = false // what a run that was killed has told, the next one need not know
	}
	l, err := c.srv.Client().Resource(widgets().GroupVersionResource).List(c.Context(), metav1.ListOptions{})
	if err != nil {
		c.Fatal(err)
	}
	want := map[string]string{}
	for _, o := range l.Items {
		if !c.red || o.GetLabels()["colour"] == "red" {
			want[o.GetNamespace()+"/"+o.GetName()] = string(o.GetUID()) + "@" + o.GetResourceVersion()
		}
	}
	if !maps.Equal(want, c.database) {
		c.Errorf("the database has %v\nwant %v\n%+v\n%s", c.database, want, c.options, strings.Join(c.log, "\n"))
	}
}

func (c *consumer) do(what string) {
	c.note("%s", what)
	if err := c.srv.Do(what); err != nil {
		c.Error(err)
	}
}

func (c *consumer) write(most int) {
	for range c.IntN(most) {
		ns, name := []string{"one", "two"}[c.IntN(2)], fmt.Sprint("o", c.IntN(3))
		if c.IntN(3) == 0 {
			_, err := c.srv.Delete(widgets(), ns, name)
			c.note("delete %s/%s: %v", ns, name, err == nil)
			continue
		}
		colour := []string{"red", "blue"}[c.IntN(2)]
		c.srv.Put(widgets(), ns, name, "labels.colour="+colour, fmt.Sprint("spec.n=", c.IntN(1000)))
		c.note("put %s/%s %s @%s", ns, name, colour, c.srv.ResourceVersion())
	}
}

// run is one of the program, which ends with its death, or in an orderly way.
func (c *consumer) run(last bool) {
	c.store = killed(c.T, c.store)
	c.events, c.handled = nil, nil
	tracker := newTracker(c.T, c.store)
	o := c.options
	o.Checkpoint = tracker
	m := newMux(c.T, &mux.Options{Overflow: c.overflow}, newStream(c.T, c.srv, widgets(), &o))
	long, left := 20*time.Minute, 1+c.IntN(25)
	if last {
		long, left = 50*time.Minute, -1
	}
	ctx, cancel := context.WithTimeoutCause(c.Context(), long, errTimeUp)
	defer cancel()
	for ev, err := range m.Events(ctx) {
		if err != nil {
			if err != errTimeUp {
				c.Error(err)
			}
			break
		}
		c.note("told %s", streamtest.TextUID(ev))
		c.events, c.handled = append(c.events, ev), append(c.handled, false)
		if !last {
			c.disturb()
		}
		time.Sleep(time.Duration(c.IntN(2500)) * time.Millisecond)
		c.handle(last)
		if left--; left == 0 {
			break
		}
	}
	c.handle(last)
	time.Sleep(time.Duration(c.IntN(3000)) * time.Millisecond)
	if last || c.IntN(3) == 0 {
		c.note("the end")
		if err := tracker.Close(); err != nil {
			c.Error(err)
		}
		return
	}
	c.note("killed")
	c.Cleanup(func() { _ = tracker.Close() }) // what that keeps, nobody reads
}

func (c *consumer) disturb() {
	if c.IntN(2) == 0 {
		c.write(8)
	}
	if c.rewinds && c.IntN(25) == 0 {
		c.do("rewind 2 restart")
		time.Sleep(6 * time.Minute)
	}
	if c.IntN(12) == 0 {
		c.do("compact")
		c.do("close watches")
	}
}

// handle handles and acks some of what waits, or all.
func (c *consumer) handle(all bool) {
	open := map[string]bool{} // objects of which an older event waits
	for i, ev := range c.events {
		if c.handled[i] {
			continue
		}
		name := ""
		if ev.Object != nil {
			name = ev.Object.GetNamespace() + "/" + ev.Object.GetName()
		}
		if open[name] || !all && c.IntN(3) > 0 {
			open[name] = name != ""
			continue
		}
		c.handled[i] = true
		c.note("handled %s", streamtest.TextUID(ev))
		switch ev.Type {
		case stream.Added, stream.Modified:
			c.database[name] = string(ev.Object.GetUID()) + "@" + ev.ResourceVersion
		case stream.Deleted:
			if strings.HasPrefix(c.database[name], string(ev.Object.GetUID())+"@") {
				delete(c.database, name)
			}
		}
		ev.Ack()
	}
}

// killed returns what a store has, and closes it: whatever comes later is of a
// program that is dead.
func killed(t *testing.T, store *checkpoint.Memory) *checkpoint.Memory {
	t.Helper()
	next := checkpoint.NewMemory()
	for _, key := range store.Keys() {
		c, err := store.Load(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		p := c.Position
		d := checkpoint.Delta{Key: key, Identity: c.Identity, ResourceVersions: p.ResourceVersions, Put: p.Objects,
			Partial: p.Partial, Rewound: p.Rewound, Unclean: p.Unclean}
		if err := next.Commit(t.Context(), []checkpoint.Delta{d}); err != nil {
			t.Fatal(err)
		}
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	return next
}
