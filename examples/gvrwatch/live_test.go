package main

import (
	"context"
	"io"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

// live is the program while it runs in this process.
type live struct {
	*testing.T
	signal   context.CancelFunc
	out, err *growing
	status   chan int
}

// start runs the program until a signal, or its own end.
func start(t *testing.T, args ...string) *live {
	t.Helper()
	out := newGrowing()
	l := startTo(t, out, args...)
	l.out = out
	return l
}

// startTo runs it with another stdout.
func startTo(t *testing.T, out io.Writer, args ...string) *live {
	t.Helper()
	ctx, signal := context.WithTimeout(t.Context(), patience)
	l := &live{T: t, signal: signal, err: newGrowing(), status: make(chan int, 1)}
	go func() {
		l.status <- run(ctx, genericiooptions.IOStreams{In: strings.NewReader(""), Out: out, ErrOut: l.err}, args)
	}()
	return l
}

// says waits until stderr has a line that begins with text; writes does of stdout.
func (l *live) says(text string) {
	l.Helper()
	if !l.err.await("gvrwatch: " + text) {
		l.signal()
		l.Fatalf("it never says %q\nstderr: %sstdout: %s", text, l.err, l.out)
	}
}

func (l *live) writes(text string) {
	l.Helper()
	if !l.out.await(text) {
		l.signal()
		l.Fatalf("it never writes %q\nstderr: %sstdout: %s", text, l.err, l.out)
	}
}

// end ends it, and returns all it has written.
func (l *live) end() (stdout, stderr string) {
	l.Helper()
	l.signal()
	return l.wait(0)
}

// wait waits for its own end.
func (l *live) wait(status int) (stdout, stderr string) {
	l.Helper()
	defer l.signal()
	if got := <-l.status; got != status {
		l.Errorf("status %d, want %d\nstderr: %s", got, status, l.err)
	}
	return l.out.String(), l.err.String()
}

// growing is what the program writes. What was waited for is not found again.
type growing struct {
	more  chan struct{} // of capacity one
	w     waiter
	found int
}

func newGrowing() *growing {
	g := &growing{more: make(chan struct{}, 1)}
	g.w.enough = func(string) bool {
		select {
		case g.more <- struct{}{}:
		default:
		}
		return false
	}
	return g
}

func (g *growing) Write(b []byte) (int, error) { return g.w.Write(b) }
func (g *growing) String() string              { return g.w.String() }

func (g *growing) await(text string) bool {
	ctx, cancel := context.WithTimeout(context.Background(), patience/2)
	defer cancel()
	for {
		if all := g.String(); strings.Contains(all[g.found:], text) {
			g.found += strings.Index(all[g.found:], text) + len(text)
			return true
		}
		select {
		case <-g.more:
		case <-ctx.Done():
			return false
		}
	}
}

// scripted is a server that obeys, on a real network.
type scripted struct {
	*streamtest.Server
	t   *testing.T
	url string
}

var (
	droids = kindOf("robots", "example.com", true, "all")
	rovers = kindOf("rovers", "example.com", true)
	probes = kindOf("probes", "sub.example.com", true, "all", "space")
	worlds = kindOf("planets", "space.io", false, "space")
	leases = kindOf("leases", "coordination.k8s.io", true)
	spaces = kindOf("namespaces", "", false)
)

func kindOf(plural, group string, namespaced bool, categories ...string) gvr.Resource {
	singular := strings.TrimSuffix(plural, "s")
	return gvr.Resource{
		GroupVersionResource: schema.GroupVersionResource{Group: group, Version: "v1", Resource: plural},
		Kind:                 strings.ToUpper(plural[:1]) + singular[1:], Singular: singular, Namespaced: namespaced,
		Categories: categories, Verbs: []string{"create", "delete", "get", "list", "watch"},
	}
}

func newScripted(t *testing.T, resources ...gvr.Resource) *scripted {
	t.Helper()
	s := streamtest.NewServer(resources...)
	hs := httptest.NewServer(s)
	t.Cleanup(func() {
		hs.CloseClientConnections()
		hs.Close()
	})
	return &scripted{s, t, hs.URL}
}

func (s *scripted) do(what ...string) {
	s.t.Helper()
	for _, w := range what {
		if err := s.Do(w); err != nil {
			s.t.Fatal(err)
		}
	}
}

func (s *scripted) start(args string) *live {
	s.t.Helper()
	return start(s.t, append(strings.Fields(args), "--server", s.url)...)
}
