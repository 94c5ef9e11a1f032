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
type program struct {
	*testing.T
	signal   context.CancelFunc
	out, err *searchedOutput
	status   chan int
}

// start runs the program until a signal, or its own end.
func start(t *testing.T, args ...string) *program {
	t.Helper()
	out := newSearchedOutput()
	l := startTo(t, out, args...)
	l.out = out
	return l
}

// startTo runs it with another stdout.
func startTo(t *testing.T, out io.Writer, args ...string) *program {
	t.Helper()
	ctx, signal := context.WithTimeout(t.Context(), testTimeout)
	l := &program{T: t, signal: signal, err: newSearchedOutput(), status: make(chan int, 1)}
	go func() {
		l.status <- run(ctx, genericiooptions.IOStreams{In: strings.NewReader(""), Out: out, ErrOut: l.err}, args)
	}()
	return l
}

// says waits until stderr has a line that begins with text; writes does of stdout.
func (l *program) awaitStderr(text string) {
	l.Helper()
	if !l.err.await("gvrwatch: " + text) {
		l.signal()
		l.Fatalf("it never says %q\nstderr: %sstdout: %s", text, l.err, l.out)
	}
}

func (l *program) awaitStdout(text string) {
	l.Helper()
	if !l.out.await(text) {
		l.signal()
		l.Fatalf("it never writes %q\nstderr: %sstdout: %s", text, l.err, l.out)
	}
}

// end ends it, and returns all it has written.
func (l *program) end() (stdout, stderr string) {
	l.Helper()
	l.signal()
	return l.wait(0)
}

// wait waits for its own end.
func (l *program) wait(status int) (stdout, stderr string) {
	l.Helper()
	defer l.signal()
	if got := <-l.status; got != status {
		l.Errorf("status %d, want %d\nstderr: %s", got, status, l.err)
	}
	return l.out.String(), l.err.String()
}

// growing is what the program writes. What was waited for is not found again.
type searchedOutput struct {
	more  chan struct{} // of capacity one
	w     waiter
	found int
}

func newSearchedOutput() *searchedOutput {
	g := &searchedOutput{more: make(chan struct{}, 1)}
	g.w.complete = func(string) bool {
		select {
		case g.more <- struct{}{}:
		default:
		}
		return false
	}
	return g
}

func (g *searchedOutput) Write(b []byte) (int, error) { return g.w.Write(b) }
func (g *searchedOutput) String() string              { return g.w.String() }

func (g *searchedOutput) await(text string) bool {
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout/2)
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
	robotType     = newType("robots", "example.com", true, "all")
	roverType     = newType("rovers", "example.com", true)
	probeType     = newType("probes", "sub.example.com", true, "all", "space")
	planetType    = newType("planets", "space.io", false, "space")
	leaseType     = newType("leases", "coordination.k8s.io", true)
	namespaceType = newType("namespaces", "", false)
)

func newType(plural, group string, namespaced bool, categories ...string) gvr.Resource {
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

func (s *scripted) start(args string) *program {
	s.t.Helper()
	return start(s.t, append(strings.Fields(args), "--server", s.url)...)
}
