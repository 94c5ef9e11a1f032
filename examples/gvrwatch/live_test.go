package main

import (
	"context"
	"io"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

// program is a run of the program in this process.
type program struct {
	*testing.T
	signal   context.CancelFunc
	out, err *searchedOutput
	status   chan int
}

// start runs the program until end is called or the program ends.
func start(t *testing.T, args ...string) *program {
	t.Helper()
	out := newSearchedOutput()
	p := startTo(t, out, args...)
	p.out = out
	return p
}

// startTo is start with another stdout.
func startTo(t *testing.T, out io.Writer, args ...string) *program {
	t.Helper()
	ctx, signal := context.WithTimeout(t.Context(), testTimeout)
	p := &program{T: t, signal: signal, err: newSearchedOutput(), status: make(chan int, 1)}
	go func() {
		p.status <- run(ctx, genericiooptions.IOStreams{In: strings.NewReader(""), Out: out, ErrOut: p.err}, args)
	}()
	return p
}

// awaitStderr waits until stderr has a line that begins with "gvrwatch: " and text. awaitStdout waits until stdout
// contains text.
func (p *program) awaitStderr(text string) {
	p.Helper()
	if !p.err.await("gvrwatch: " + text) {
		p.signal()
		p.Fatalf("stderr never has %q\nstderr: %sstdout: %s", text, p.err, p.out)
	}
}

func (p *program) awaitStdout(text string) {
	p.Helper()
	if !p.out.await(text) {
		p.signal()
		p.Fatalf("stdout never has %q\nstderr: %sstdout: %s", text, p.err, p.out)
	}
}

// end ends the program like a signal, and returns everything that it has written.
func (p *program) end() (stdout, stderr string) {
	p.Helper()
	p.signal()
	return p.wait(0)
}

// wait waits until the program has ended, and checks the exit status.
func (p *program) wait(status int) (stdout, stderr string) {
	p.Helper()
	defer p.signal()
	if got := <-p.status; got != status {
		p.Errorf("status %d, want %d\nstderr: %s", got, status, p.err)
	}
	return p.out.String(), p.err.String()
}

// searchedOutput collects what the program writes. Each await searches after the text that the previous one found.
type searchedOutput struct {
	more  chan struct{} // has capacity 1
	w     waiter
	found int
}

func newSearchedOutput() *searchedOutput {
	o := &searchedOutput{more: make(chan struct{}, 1)}
	o.w.complete = func(string) bool {
		select {
		case o.more <- struct{}{}:
		default:
		}
		return false
	}
	return o
}

func (o *searchedOutput) Write(b []byte) (int, error) { return o.w.Write(b) }
func (o *searchedOutput) String() string              { return o.w.String() }

func (o *searchedOutput) await(text string) bool {
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout/2)
	defer cancel()
	for {
		if all := o.String(); strings.Contains(all[o.found:], text) {
			o.found += strings.Index(all[o.found:], text) + len(text)
			return true
		}
		select {
		case <-o.more:
		case <-ctx.Done():
			return false
		}
	}
}

// waiter collects what is written, and closes completed as soon as complete returns true for it.
type waiter struct {
	mu        sync.Mutex
	b         strings.Builder
	complete  func(string) bool
	completed chan bool
	once      sync.Once
}

func (w *waiter) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.b.Write(b)
	if w.complete(w.b.String()) {
		w.once.Do(func() { close(w.completed) })
	}
	return len(b), nil
}

func (w *waiter) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.b.String()
}

func (w *waiter) wait(t *testing.T) {
	t.Helper()
	select {
	case <-w.completed:
	case <-time.After(testTimeout):
		t.Fatalf("incomplete output:\n%s", w)
	}
}

// scripted is a scripted API server behind a real network listener.
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
