package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
)

// server speaks as much of the Kubernetes API as the peers need, for pods:
//
//	POST   /runs                                  makes a run of a scenario, answers its path
//	POST   /runs/N/start                          lets its events come
//	DELETE /runs/N                                forgets it
//	GET    /runs/N/api/v1/pods                    lists, pages, watches, streaming lists,
//	GET    /runs/N/api/v1/namespaces/NS/pods      PartialObjectMetadata where it is accepted
type server struct {
	rendered templateCache

	mu   sync.Mutex
	made int
	runs map[string]*run
}

// run is a scenario that is being gone through.
type run struct {
	scenario
	once    sync.Once
	started chan struct{} // closed when the events may come
}

func newServer() *server { return &server{runs: map[string]*run{}} }

func (s *server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /runs", s.create)
	mux.HandleFunc("POST /runs/{run}/start", s.forRun(func(r *run, w http.ResponseWriter, _ *http.Request) {
		r.once.Do(func() { close(r.started) })
	}))
	mux.HandleFunc("DELETE /runs/{run}", func(_ http.ResponseWriter, req *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.runs, req.PathValue("run"))
	})
	mux.HandleFunc("GET /runs/{run}/api/v1/pods", s.forRun(s.pods))
	mux.HandleFunc("GET /runs/{run}/api/v1/namespaces/{namespace}/pods", s.forRun(s.pods))
	return mux
}

func (s *server) create(w http.ResponseWriter, req *http.Request) {
	r := &run{started: make(chan struct{})}
	if err := json.NewDecoder(req.Body).Decode(&r.scenario); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if r.Size != small && r.Size != big || r.Objects < namespaces || r.Rate > 0 && r.Length <= 0 {
		http.Error(w, fmt.Sprintf("%+v: it wants a size, %d objects or more, and with a rate a length", r.scenario, namespaces), http.StatusBadRequest)
		return
	}
	s.rendered.get(r.Size, min(r.Objects, templates)) // now, so that nobody's measurement has to wait for it
	s.mu.Lock()
	defer s.mu.Unlock()
	s.made++
	name := strconv.Itoa(s.made)
	s.runs[name] = r
	fmt.Fprint(w, "/runs/"+name)
}

// in finds the run that a request is for.
func (s *server) forRun(do func(*run, http.ResponseWriter, *http.Request)) http.HandlerFunc {
	return func(w http.ResponseWriter, req *http.Request) {
		s.mu.Lock()
		r := s.runs[req.PathValue("run")]
		s.mu.Unlock()
		if r == nil {
			http.NotFound(w, req)
			return
		}
		do(r, w, req)
	}
}

// asked is what a request for pods asks for.
type podRequest struct {
	run       *run
	metadata  bool
	namespace int // of namespaces, or -1 for all
}

// objects calls yield with the number of each object that is asked for, from the
// skip-th on.
func (a podRequest) objects(skip int, yield func(n int) bool) {
	first, step := 0, 1
	if a.namespace >= 0 {
		first, step = a.namespace, namespaces
	}
	for n := first + skip*step; n < a.run.Objects; n += step {
		if !yield(n) {
			return
		}
	}
}

// count is how many objects are asked for.
func (a podRequest) count() int {
	if a.namespace < 0 {
		return a.run.Objects
	}
	return (a.run.Objects - a.namespace + namespaces - 1) / namespaces
}

func (s *server) pods(r *run, w http.ResponseWriter, req *http.Request) {
	a := podRequest{run: r, metadata: strings.Contains(req.Header.Get("Accept"), "as=PartialObjectMetadata"), namespace: -1}
	if name := req.PathValue("namespace"); name != "" {
		i, err := strconv.Atoi(strings.TrimPrefix(name, "peers-"))
		if err != nil || name != namespaceOf(i) || i < 0 || i >= namespaces {
			http.NotFound(w, req)
			return
		}
		a.namespace = i
	}
	query := req.URL.Query()
	for _, unknown := range []string{"labelSelector", "fieldSelector"} {
		if query.Get(unknown) != "" {
			http.Error(w, "this server knows no "+unknown, http.StatusBadRequest)
			return
		}
	}
	w.Header().Set("Content-Type", "application/json")
	if watching, _ := strconv.ParseBool(query.Get("watch")); watching {
		s.watch(a, w, req)
		return
	}
	s.list(a, w, req)
}

// serve answers on a port of its own of 127.0.0.1 until ctx ends.
func serve(ctx context.Context, ready func(address string)) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	ready(listener.Addr().String())
	of := &http.Server{Handler: newServer().handler(), BaseContext: func(net.Listener) context.Context { return ctx }}
	stop := context.AfterFunc(ctx, func() { of.Close() })
	defer stop()
	if err := of.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
