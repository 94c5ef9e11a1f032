package streamtest

import (
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/internal/recording"
	"github.com/gvrwatch/gvrwatch/internal/testing/apiserver/store"
	"github.com/gvrwatch/gvrwatch/stream"
)

// Replay makes the changes of a recording of "gvrwatch watch --record FILE", as the package documentation describes.
// What existed when the recording began exists when Replay returns. The later changes follow, each as long after Replay
// as it was recorded after the recording began, until Close.
//
// Replay reads and checks the whole file first, and changes nothing if it returns an error: that of the file system, or
// one that says what is wrong with the recording, or that the server serves a resource of it with another kind or
// scope.
func (s *Server) Replay(file string) error {
	rec, err := readReplay(file)
	if err != nil {
		return fmt.Errorf("streamtest: replay: %w", err)
	}
	if err := s.server.Replay(rec.resources, rec.now, rec.later); err != nil {
		return fmt.Errorf("streamtest: replay %s: %w", file, err)
	}
	return nil
}

// replay is what a recording says to do.
type replay struct {
	resources  []gvr.Resource
	now, later []store.Recorded

	runs    int
	began   time.Time                                       // the first run
	leading map[schema.GroupResource]schema.GroupVersion    // whose changes count in this run
	synced  map[schema.GroupVersionResource]map[string]bool // by namespace; "" is all of them
}

func readReplay(file string) (*replay, error) {
	r, err := recording.Open(file)
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.Close() }()
	rec := &replay{synced: map[schema.GroupVersionResource]map[string]bool{}}
	for e, err := range recording.Changes(r.Entries()) {
		switch {
		case err != nil:
			return nil, err
		case e.Run != nil:
			rec.begin(e.Run)
		case e.Event.Type != "":
			if err := rec.event(e); err != nil {
				return nil, &recording.Error{Path: file, Err: err}
			}
		}
	}
	return rec, nil
}

func (rec *replay) begin(run *recording.Header) {
	if rec.runs == 0 {
		rec.began = run.Began
	}
	rec.runs++
	rec.leading = map[schema.GroupResource]schema.GroupVersion{}
}

func (rec *replay) event(e recording.Entry) error {
	ev, r := e.Event, e.Event.Resource
	synced := rec.synced[r.GroupVersionResource]
	if synced == nil {
		synced = map[string]bool{}
		rec.synced[r.GroupVersionResource] = synced
		rec.resources = append(rec.resources, r)
	}
	if _, ok := rec.leading[r.GroupResource()]; !ok {
		rec.leading[r.GroupResource()] = r.GroupVersion()
	}
	if ev.Type == stream.Synced {
		synced[ev.Namespace] = true
	}
	if !ev.HasObject() || rec.leading[r.GroupResource()] != r.GroupVersion() {
		return nil
	}
	o, err := objectOf(ev)
	if err != nil {
		return fmt.Errorf("invalid event %q of %s: %w", ev.String(), r, err)
	}
	c := store.Recorded{Type: watch.EventType(ev.Type), Resource: r, Object: o}
	if rec.runs == 1 && !synced[""] && !synced[ev.Namespace] {
		rec.now = append(rec.now, c)
		return nil
	}
	c.After = e.Time.Sub(rec.began)
	rec.later = append(rec.later, c)
	return nil
}

func objectOf(ev stream.Event) (*unstructured.Unstructured, error) {
	o, err := ev.Decode()
	switch {
	case err != nil:
		return nil, err
	case o.GetName() == "":
		return nil, errors.New("the object must have a name")
	case ev.Resource.Namespaced && o.GetNamespace() == "":
		return nil, errors.New("the object must have a namespace")
	case !ev.Resource.Namespaced && o.GetNamespace() != "":
		return nil, errors.New("the object must have no namespace")
	}
	return o, nil
}
