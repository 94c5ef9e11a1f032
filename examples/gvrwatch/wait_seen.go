package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/gvrwatch/gvrwatch/examples/gvrwatch/internal/readiness"
	"github.com/gvrwatch/gvrwatch/examples/gvrwatch/internal/screen"
	"github.com/gvrwatch/gvrwatch/mux"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/condition"
)

// seen is what a wait knows of the objects, for what it prints at its end. Whether the conditions are met is what
// package condition says.
type seen struct {
	session   *session
	options   *waitOptions
	objects   map[string]*seenObject // by source and uid
	sources   map[string]bool        // those that have been synced
	deletions bool                   // the condition is delete
}

// seenObject is an object that exists or, if the condition is delete, has existed.
type seenObject struct {
	resource        schema.GroupResource
	namespace, name string
	line            string // what kubectl's -o name prints
	met             bool
	notReady        string          // why, if ready is among the conditions
	json            json.RawMessage // with -o json
}

func newSeen(s *session, o *waitOptions) *seen {
	return &seen{s, o, map[string]*seenObject{}, map[string]bool{}, o.deletes()}
}

// observe notes an event, whose object it decodes. It returns an error if an object that is named does not exist, but
// must.
func (s *seen) observe(ev *stream.Event) error {
	source := mux.SourceOf(*ev)
	if ev.Type == stream.Synced && !s.sources[source] {
		s.sources[source] = true
		return s.checkNamed(source)
	}
	if !ev.HasObject() {
		return nil
	}
	meta := ev.Meta()
	namespace, name := strings.Clone(meta.GetNamespace()), strings.Clone(meta.GetName())
	// client-go's fake sets no uid.
	key := source + "\x00" + cmp.Or(string(meta.GetUID()), namespace+"/"+name)
	switch {
	case ev.Type == stream.Deleted && s.deletions && s.objects[key] != nil:
		s.objects[key].met = true
		return nil
	case ev.Type == stream.Deleted:
		delete(s.objects, key)
		return nil
	}
	o := &seenObject{
		resource: ev.Resource.GroupResource(), namespace: namespace, name: name, line: strings.Clone(nameWithKind(*ev)),
	}
	if s.options.output == "json" {
		o.json = bytes.Clone(newEventDocument(*ev, time.Now(), printFlags{}, false).Object)
	}
	s.objects[key] = o
	if !s.options.needsContent() {
		o.met = !s.deletions
		return nil
	}
	if decoded, err := ev.Decode(); err == nil { // else condition.Wait says so
		ev.Object, ev.JSON = decoded, nil
		s.evaluate(o, decoded)
	}
	return nil
}

func (s *seen) evaluate(o *seenObject, decoded *unstructured.Unstructured) {
	o.met = true
	for _, c := range s.options.conditions {
		if c == ready {
			o.notReady = readiness.Problem(decoded)
			o.met = o.met && o.notReady == ""
			continue
		}
		met, err := c.Met(decoded)
		o.met = o.met && met && err == nil
	}
}

// checkNamed returns an error if a source that has just been synced for the first time has not the object that it is
// for, and --allow-none says that this is the end.
func (s *seen) checkNamed(source string) error {
	if !s.options.allowNone || s.deletions {
		return nil
	}
	for _, f := range s.session.objects {
		if f.name == "" || f.key() != source {
			continue
		}
		namespaces := []string{""}
		if f.Namespaced {
			namespaces = s.session.namespaces()
		}
		for _, ns := range namespaces {
			if s.find(f.GroupResource(), ns, f.name) == nil {
				return apierrors.NewNotFound(f.GroupResource(), f.name)
			}
		}
	}
	return nil
}

func (s *seen) find(resource schema.GroupResource, namespace, name string) *seenObject {
	for _, o := range s.objects {
		if o.resource == resource && o.namespace == namespace && o.name == name {
			return o
		}
	}
	return nil
}

// notReady returns why the object of a target is not ready, as far as it is known.
func (s *seen) notReady(t condition.Target) string {
	if o := s.find(schema.ParseGroupResource(t.Resource), t.Namespace, t.Name); o != nil {
		return o.notReady
	}
	return ""
}

// print prints the objects that meet the conditions, once each, in the order of the command line.
func (s *seen) print(streams genericiooptions.IOStreams) error {
	var met []*seenObject
	for _, o := range s.objects {
		if o.met {
			met = append(met, o)
		}
	}
	compare := func(a, b *seenObject) int {
		return cmp.Or(cmp.Compare(s.position(a), s.position(b)), cmp.Compare(a.resource.String(), b.resource.String()),
			cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.name, b.name))
	}
	slices.SortFunc(met, compare)
	met = slices.CompactFunc(met, func(a, b *seenObject) bool { return compare(a, b) == 0 })
	out := documents{w: streams.Out}
	for _, o := range met {
		var err error
		switch s.options.output {
		case "json":
			err = out.print(o.json)
		case "name":
			err = screen.WriteLine(streams.Out, screen.Text{Text: o.line})
		default:
			err = screen.WriteLine(streams.Out, screen.Text{Text: o.line + " condition met"})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// position returns where an object is on the command line.
func (s *seen) position(o *seenObject) int {
	return slices.IndexFunc(s.session.objects, func(f found) bool {
		return f.GroupResource() == o.resource && (f.name == "" || f.name == o.name)
	})
}
