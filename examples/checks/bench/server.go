package main

import (
	"bufio"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/gvrwatch/gvrwatch/gvr"
)

const (
	firstVersion = 500_000_000 // resourceVersion of lists; those of objects are lower, those of events are higher
	batch        = 64 << 10    // approximate size of a write, in bytes
	// tick is the interval in which events are sent at a rate. The time until the next tick is not part of an event's
	// latency, because its stamp has the time of the write.
	tick = 500 * time.Microsecond
)

// scenario is what the server does for one measurement.
type scenario struct {
	Size    string // of an object
	Objects int    // existing ones
	// Events are all MODIFIED, of one object after the other. They begin when the peer requests it, and come as fast as
	// the peer reads or, with a Rate, so many in a second until Length is over, each stamped with its send time.
	Events, Rate int
	Length       time.Duration
}

// run is one execution of a scenario.
type run struct {
	load    scenario
	started chan struct{} // closed when the events start
}

// server implements the part of the Kubernetes API that the peers need: a list, page, watch or streaming list of pods
// or Secrets, of the cluster or a namespace. The first part of the path is the run.
type server struct {
	mu      sync.Mutex
	runs    []*run
	objects map[string][]object // by size
	frames  map[string][]*frame // by form, size and event
}

func newServer() *server {
	return &server{objects: map[string][]object{}, frames: map[string][]*frame{}}
}

// add adds a run, and returns its path.
func (s *server) add(of scenario) string {
	s.render(form{}, of.Size, watch.Added, of.Objects) // so that no snapshot waits for it
	s.mu.Lock()
	defer s.mu.Unlock()
	s.runs = append(s.runs, &run{of, make(chan struct{})})
	return fmt.Sprintf("/%d", len(s.runs)-1)
}

// render returns frames for n objects.
func (s *server) render(f form, size string, event watch.EventType, n int) []*frame {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := fmt.Sprint(f, size, event)
	for i := len(s.frames[key]); i < min(n, templates); i++ {
		if i == len(s.objects[size]) {
			s.objects[size] = append(s.objects[size], example(size, i))
		}
		s.frames[key] = append(s.frames[key], f.frame(event, s.objects[size][i]))
	}
	return s.frames[key]
}

func (s *server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /{run}/start", func(_ http.ResponseWriter, req *http.Request) { close(s.run(req).started) })
	mux.HandleFunc("GET /{run}/api/v1/{resource}", s.serve)
	mux.HandleFunc("GET /{run}/api/v1/namespaces/{namespace}/{resource}", s.serve)
	return mux
}

func (s *server) run(req *http.Request) *run {
	s.mu.Lock()
	defer s.mu.Unlock()
	i, _ := strconv.Atoi(req.PathValue("run")) // the peers know no other paths
	return s.runs[i]
}

// resource is that of the objects.
func (of scenario) resource() gvr.Resource {
	if of.Size == ofSecret {
		return secrets
	}
	return pods
}

// request says which objects a client asks for, and in which form.
type request struct {
	run         *run
	form        form
	first, step int // numbers of the objects
}

func (s *server) serve(w http.ResponseWriter, req *http.Request) {
	accept, query := req.Header.Get("Accept"), req.URL.Query()
	a := request{run: s.run(req), step: 1}
	a.form.metadata = strings.Contains(accept, "as=PartialObjectMetadata")
	a.form.proto = strings.HasPrefix(accept, runtime.ContentTypeProtobuf)
	if req.PathValue("resource") != a.run.load.resource().Resource {
		http.NotFound(w, req)
		return
	}
	if name := req.PathValue("namespace"); name != "" {
		a.step = namespaces
		for a.first < namespaces-1 && namespaceOf(a.first) != name {
			a.first++
		}
	}
	watching, _ := strconv.ParseBool(query.Get("watch"))
	if query.Get("labelSelector")+query.Get("fieldSelector") != "" {
		http.Error(w, "selectors are not supported", http.StatusBadRequest)
		return
	}
	contentType := runtime.ContentTypeJSON
	if a.form.proto {
		contentType = runtime.ContentTypeProtobuf
		if watching {
			contentType += ";stream=watch"
		}
	}
	w.Header().Set("Content-Type", contentType)
	if watching {
		s.watch(a, w, req)
	} else {
		s.list(a, w, req)
	}
}

// list sends all objects, or a page of them. A continue token is the number of the next object.
func (s *server) list(a request, w http.ResponseWriter, req *http.Request) {
	select {
	case <-a.run.started: // a peer that lists again has lost its watch: its figures would be wrong
		http.Error(w, "lists are not possible once the events have started", http.StatusInternalServerError)
		return
	default:
	}
	limit, _ := strconv.Atoi(req.URL.Query().Get("limit"))
	n, _ := strconv.Atoi(req.URL.Query().Get("continue"))
	n = max(n, a.first)
	end, m := a.run.load.Objects, metav1.ListMeta{ResourceVersion: strconv.Itoa(firstVersion)}
	if next := n + limit*a.step; limit > 0 && next < end {
		m.Continue, m.RemainingItemCount = strconv.Itoa(next), new(int64((end-next+a.step-1)/a.step))
		end = next
	}
	a.form.item = true
	items := s.render(a.form, a.run.load.Size, watch.Added, a.run.load.Objects)
	size := 0
	for i := n; i < end; i += a.step {
		size += len(items[i%templates].text)
	}
	out := bufio.NewWriterSize(w, batch)
	out.Write(a.form.listHead(a.run.load.resource().Kind, m, size))
	for i := n; i < end; i += a.step {
		if i > n && !a.form.proto {
			out.WriteByte(',')
		}
		out.Write(a.existing(out.AvailableBuffer(), items, i))
	}
	if !a.form.proto {
		out.WriteString("]}\n")
	}
	out.Flush() // an error means that the client has gone
}

// existing appends the frame of the n-th object, at a version below those of the events.
func (a request) existing(to []byte, of []*frame, n int) []byte {
	return of[n%templates].append(to, n, firstVersion-a.run.load.Objects+n, 0, time.Time{})
}

// watch sends the existing objects if the request asks for initial events. Then it waits for the start, sends the
// events and a bookmark, and ends when the client goes.
func (s *server) watch(a request, w http.ResponseWriter, req *http.Request) {
	initial, _ := strconv.ParseBool(req.URL.Query().Get("sendInitialEvents"))
	if v := req.URL.Query().Get("resourceVersion"); !initial && v != strconv.Itoa(firstVersion) {
		http.Error(w, "the events begin after the list", http.StatusInternalServerError)
		return
	}
	// Both before the answer, because the peer may start the events at once.
	added, modified := s.render(a.form, a.run.load.Size, watch.Added, a.run.load.Objects), []*frame(nil)
	if a.run.load.Events+a.run.load.Rate > 0 {
		modified = s.render(a.form, a.run.load.Size, watch.Modified, a.run.load.Objects)
	}
	out := &body{*bufio.NewWriterSize(w, batch), w}
	out.flush()
	if initial {
		for n := a.first; n < a.run.load.Objects; n += a.step {
			out.Write(a.existing(out.AvailableBuffer(), added, n))
		}
		out.Write(a.bookmark(firstVersion, metav1.InitialEventsAnnotationKey))
		out.flush()
	}
	select {
	case <-a.run.started:
		version := a.send(out, modified)
		out.Write(a.bookmark(version+1, "example.com/end"))
		out.flush()
		<-req.Context().Done()
	case <-req.Context().Done():
	}
}

// bookmark returns the frame of a bookmark with an annotation.
func (a request) bookmark(version int, annotation string) []byte {
	o := object(&corev1.Pod{})
	if a.run.load.Size == ofSecret {
		o = &corev1.Secret{}
	}
	o.GetObjectKind().SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(a.run.load.resource().Kind))
	o.SetResourceVersion(strconv.Itoa(version))
	o.SetAnnotations(map[string]string{annotation: "true"})
	return a.form.encode(watch.Bookmark, o)
}

// body is the answer to a watch. It is sent in large writes.
type body struct {
	bufio.Writer
	to http.ResponseWriter
}

func (b *body) flush() error {
	return errors.Join(b.Flush(), http.NewResponseController(b.to).Flush())
}

// send sends the events, and returns the version of the last one. The namespaces take turns. Like a kube-apiserver it
// does not flush while there are more. Those at a rate end with some that have no stamp, which end the measurement.
func (a request) send(out *body, of []*frame) (version int) {
	load := a.run.load
	objects, event, err := (load.Objects-a.first+a.step-1)/a.step, 0, error(nil)
	write := func(end int, stamped bool) {
		var at time.Time
		for ; event < end && err == nil; event++ {
			if stamped {
				at = time.Now()
			}
			n := a.first + event%objects*a.step
			version = firstVersion + 1 + a.first + event*a.step
			_, err = out.Write(of[n%templates].append(out.AvailableBuffer(), n, version, event, at))
		}
	}
	for began := time.Now(); load.Rate > 0 && time.Since(began) < load.Length && err == nil; time.Sleep(tick) {
		write(int(time.Since(began).Seconds()*float64(load.Rate)), true)
		err = out.flush()
	}
	if load.Rate > 0 {
		write(event+canaryEvery, false)
	}
	write((load.Events-a.first+a.step-1)/a.step, false)
	return version
}
