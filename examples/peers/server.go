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

// server implements the part of the Kubernetes API that the peers need, for pods, and an API to control the runs:
//
//	POST   /runs                                  makes a run of a scenario, returns its path
//	POST   /runs/N/start                          starts its events
//	DELETE /runs/N                                removes it
//	GET    /runs/N/api/v1/pods                    list, page, watch, or streaming list
//	GET    /runs/N/api/v1/namespaces/NS/pods      the same for a namespace
//
// It sends PartialObjectMetadata to clients that accept it.
type server struct {
	rendered templateCache

	mu   sync.Mutex
	made int
	runs map[string]*run
}

// run is one execution of a scenario.
type run struct {
	scenario
	once    sync.Once
	started chan struct{} // closed when the events start
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
		problem := fmt.Sprintf("invalid scenario %+v: must have a size, at least %d objects, and a length with a rate",
			r.scenario, namespaces)
		http.Error(w, problem, http.StatusBadRequest)
		return
	}
	s.rendered.get(r.Size, min(r.Objects, templates)) // now, so that no measurement waits for it
	s.mu.Lock()
	defer s.mu.Unlock()
	s.made++
	name := strconv.Itoa(s.made)
	s.runs[name] = r
	fmt.Fprint(w, "/runs/"+name)
}

// forRun calls do with the run that the request's path names.
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

// podRequest says which pods a request asks for, and in which form.
type podRequest struct {
	run       *run
	metadata  bool
	namespace int // index, or -1 for all namespaces
}

// objects calls yield with the number of each requested object, without the first skip ones.
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

// count returns the number of requested objects.
func (a podRequest) count() int {
	if a.namespace < 0 {
		return a.run.Objects
	}
	return (a.run.Objects - a.namespace + namespaces - 1) / namespaces
}

func (s *server) pods(r *run, w http.ResponseWriter, req *http.Request) {
	metadata := strings.Contains(req.Header.Get("Accept"), "as=PartialObjectMetadata")
	a := podRequest{run: r, metadata: metadata, namespace: -1}
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
			http.Error(w, unknown+" is not supported", http.StatusBadRequest)
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

// serve serves on a free port of 127.0.0.1 until ctx ends.
func serve(ctx context.Context, ready func(address string)) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	ready(listener.Addr().String())
	s := &http.Server{Handler: newServer().handler(), BaseContext: func(net.Listener) context.Context { return ctx }}
	stop := context.AfterFunc(ctx, func() { s.Close() })
	defer stop()
	if err := s.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
