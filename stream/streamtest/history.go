package streamtest

import (
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/internal/testing/apiserver/door"
	"github.com/gvrwatch/gvrwatch/internal/testing/apiserver/script"
	"github.com/gvrwatch/gvrwatch/internal/testing/apiserver/store"
	"github.com/gvrwatch/gvrwatch/stream"
)

// History is what really happened to the objects that a Stream with some Options watches.
type History struct {
	Changes []Change // in the order in which they happened, including those that a rewind undid
	// Rewinds are the moments at which the whole server went back in time, with At and ResourceVersion only: epoch i>0
	// begins with Rewinds[i-1], when the objects were again what they had been at that version.
	Rewinds  []Change
	Requests []Request // for this resource, in any namespace
	Err      error     // a selector did not parse, so that there are no Changes; Check returns it
}

// Change is one change of an object.
type Change struct {
	Type            watch.EventType            // ADDED, MODIFIED, DELETED
	Object          *unstructured.Unstructured // as a watch sends it
	ResourceVersion string
	Epoch           int // how often the server had gone back in time before
	At              time.Time
}

// Request is what a client requested. Nothing in it changes but Code.
type Request struct {
	At time.Time
	// Verb is list, watch, get, create, update or delete; "discovery" for /version, /api, /apis and what is below
	// them; empty for other paths; otherwise the HTTP method in lower case.
	Verb string
	// Resource is "widgets.v1.example.com", as gvr.Resource.String writes it, or empty. Path is always set.
	Resource, Path, Namespace, Name string

	ResourceVersion, ResourceVersionMatch string
	Limit                                 int64
	Continue                              string
	SendInitialEvents                     bool // present and true
	Bookmarks                             bool
	TimeoutSeconds                        int64
	LabelSelector, FieldSelector          string
	Metadata                              bool // for PartialObjectMetadata
	Protobuf                              bool // answered in protobuf
	// Code is the HTTP status of the answer: 0 until there is one, and if the connection was refused or broken before.
	Code int
}

// IsProbe reports whether the request is a list of one object, as a Stream sends it before it resumes a watch.
func (r Request) IsProbe() bool { return r.Verb == "list" && r.Limit == script.ProbeLimit }

// At returns what existed at a version in an epoch, from 0 to len(Rewinds). A version after the last one of the epoch
// means the end of the epoch. In any other epoch, or at what is not a version, nothing existed.
func (h History) At(epoch int, rv string) map[types.NamespacedName]*unstructured.Unstructured {
	objects := map[types.NamespacedName]*unstructured.Unstructured{}
	if epoch < 0 || epoch > len(h.Rewinds) {
		return objects
	}
	t := timelines(h, "", &CheckOptions{})[epoch]
	for _, e := range t[:t.position(rv)] {
		if objects[e.key] = e.object; !e.exists {
			delete(objects, e.key)
		}
	}
	return objects
}

// History returns what a watch of r would have received if it had missed nothing: an object that begins to match is
// ADDED, one that no longer matches is DELETED. Of the options, Namespaces, LabelSelector, FieldSelector and Name
// count; nil selects every object.
func (s *Server) History(r gvr.Resource, o *stream.Options) History {
	var of store.Selection
	if o != nil {
		of = store.Selection{Namespaces: o.Namespaces, Labels: o.LabelSelector, Fields: o.FieldSelector, Name: o.Name}
	}
	log, err := s.server.Log(r, of)
	return History{changes(log.Changes), changes(log.Rewinds), requests(log.Requests), err}
}

func changes(log []store.Change) (all []Change) {
	for _, c := range log {
		all = append(all, Change(c))
	}
	return all
}

// Requests returns all requests so far, in the order of their arrival.
func (s *Server) Requests() []Request { return requests(s.server.Requests()) }

func requests(log []door.Request) (all []Request) {
	for _, r := range log {
		all = append(all, Request{
			At: r.At, Verb: r.Verb, Resource: r.Resource, Path: r.Path, Namespace: r.Namespace, Name: r.Name,
			ResourceVersion: r.ResourceVersion, ResourceVersionMatch: string(r.ResourceVersionMatch),
			Limit: r.Limit, Continue: r.Continue,
			SendInitialEvents: r.Initial(), Bookmarks: r.AllowWatchBookmarks, TimeoutSeconds: r.Seconds(),
			LabelSelector: r.LabelSelector, FieldSelector: r.FieldSelector,
			Metadata: r.Metadata, Protobuf: r.Protobuf, Code: r.Code,
		})
	}
	return all
}
