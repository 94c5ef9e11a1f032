package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gvrwatch/gvrwatch/gvr"
)

// The types of lines that are no reports.
const (
	lineClient   = "CLIENT"
	lineReady    = "READY"
	linePosition = "POSITION"
	lineError    = "ERROR"
)

// lineTypes are all that the judge reads.
var lineTypes = []string{
	string(added), string(modified), string(deleted), string(synced), string(gap), lineClient, lineReady, linePosition,
	lineError,
}

// maxLine bounds the bytes of a line.
const maxLine = 16 << 20

// clientLine is a line that a client writes: docs/judge.md has its fields. The frames of a watch and what the tool
// prints with -o json are such lines.
type clientLine struct {
	Type            string      `json:"type"`
	Resource        string      `json:"resource,omitempty"`
	Namespace       string      `json:"namespace,omitempty"` // beside Object: that of the watch
	Name            string      `json:"name,omitempty"`
	UID             types.UID   `json:"uid,omitempty"`
	ResourceVersion string      `json:"resourceVersion,omitempty"`
	Inferred        bool        `json:"inferred,omitempty"`
	Gap             *lineGap    `json:"gap,omitempty"`
	Object          *lineObject `json:"object,omitempty"`
	Message         string      `json:"message,omitempty"`
	Version         string      `json:"version,omitempty"` // of the client

	// By what rules the client wants to be judged.
	Resources []string `json:"resources,omitempty"`
	Resumes   bool     `json:"resumes,omitempty"`
	Strict    bool     `json:"strict,omitempty"`
}

type lineGap struct {
	Reason      string `json:"reason"`
	From        string `json:"from,omitempty"`
	HistoryLost bool   `json:"historyLost,omitempty"`
}

// lineObject is what the judge reads of an object.
type lineObject struct {
	APIVersion string `json:"apiVersion,omitempty"`
	Kind       string `json:"kind,omitempty"`
	Message    any    `json:"message,omitempty"` // of an ERROR: a string
	Metadata   struct {
		Namespace       string    `json:"namespace,omitempty"`
		Name            string    `json:"name,omitempty"`
		UID             types.UID `json:"uid,omitempty"`
		ResourceVersion string    `json:"resourceVersion,omitempty"`
	} `json:"metadata"`
}

// lineReader makes reports of the lines of one client.
type lineReader struct {
	plurals    map[schema.GroupKind]string // known resources, such as "widgets.chaos.example.com"
	namespaced map[string]bool             // those whose objects have namespaces
	run        int                         // of the next reports

	client     clientLine // its CLIENT, or zero
	ready      bool
	synced     map[string]bool      // resources
	last       map[types.UID]string // version of the last event of each object
	unreadable int                  // lines
	problem    string               // of the first of those
}

// newLineReader returns a reader for a client that may watch some resources. The names of others are guessed.
func newLineReader(known []crdInfo) *lineReader {
	l := &lineReader{
		run: 1, plurals: map[schema.GroupKind]string{}, namespaced: map[string]bool{}, synced: map[string]bool{},
		last: map[types.UID]string{},
	}
	for _, c := range known {
		l.plurals[schema.GroupKind{Group: c.GVR.Group, Kind: c.Kind}] = c.resource()
		l.namespaced[c.resource()] = c.Namespaced
	}
	return l
}

// read returns the reports that a line makes, at a time. A line that it can't read makes none, and counts. The error is
// one that the client reports.
func (l *lineReader) read(text []byte, at time.Time) (reports []report, err error) {
	if text = bytes.TrimSpace(text); len(text) == 0 {
		return nil, nil
	}
	var one clientLine
	if err := json.Unmarshal(text, &one); err != nil {
		if one.Type == "" || slices.Contains(lineTypes, one.Type) { // others may have other fields
			l.refuse(text, err)
		}
		return nil, nil
	}
	if one.Type == lineError {
		if one.Message == "" && one.Object != nil {
			one.Message, _ = one.Object.Message.(string)
		}
		return nil, fmt.Errorf("%.300s", one.Message)
	}
	reports, err = l.reportsOf(one, at)
	if err != nil {
		l.refuse(text, err)
	}
	return reports, nil
}

func (l *lineReader) refuse(text []byte, err error) {
	if l.unreadable++; l.unreadable == 1 {
		l.problem = fmt.Sprintf("invalid line %.120q: %v", text, err)
	}
}

func (l *lineReader) reportsOf(one clientLine, at time.Time) (reports []report, err error) {
	r := report{
		At: at, Run: l.run, Kind: Kind(one.Type), Namespace: one.Namespace, Worker: one.Namespace,
		ResourceVersion: one.ResourceVersion, Inferred: one.Inferred, Acked: true,
	}
	switch one.Type {
	case lineClient:
		return nil, l.introduce(one)
	case lineReady:
		l.ready = true
		return nil, nil
	case string(added), string(modified), string(deleted):
		if err := l.setObject(&r, one); err != nil {
			return nil, err
		}
		return []report{r}, nil
	case string(gap):
		r.Reason = reasonUnsaid
		if g := one.Gap; g != nil {
			r.Reason, r.From, r.HistoryLost = g.Reason, g.From, g.HistoryLost
		}
	case linePosition:
		r.Kind = committed
	case string(synced):
	default:
		if upper := strings.ToUpper(one.Type); upper != one.Type && slices.Contains(lineTypes, upper) {
			return nil, fmt.Errorf("invalid type %q: must be %s", one.Type, upper)
		}
		return nil, nil
	}
	if err := checkVersion(one.ResourceVersion); err != nil {
		return nil, err
	}
	resources := l.scope()
	if one.Resource != "" {
		name, err := l.resourceNamed(one.Resource)
		if err != nil {
			return nil, err
		}
		resources = []string{name}
	}
	for _, r.Resource = range resources {
		reports = append(reports, r)
		l.synced[r.Resource] = l.synced[r.Resource] || r.Kind == synced
	}
	return reports, nil
}

func (l *lineReader) introduce(one clientLine) error {
	for i, text := range one.Resources {
		var err error
		if one.Resources[i], err = l.resourceNamed(text); err != nil {
			return err
		}
	}
	l.client = one
	return nil
}

// setObject sets what a report says of an object.
func (l *lineReader) setObject(r *report, one clientLine) error {
	r.Name, r.UID, r.Worker = one.Name, one.UID, ""
	if o := one.Object; o != nil {
		m := o.Metadata
		r.Worker, r.Namespace, r.Name = one.Namespace, m.Namespace, m.Name
		r.UID, r.ResourceVersion = m.UID, m.ResourceVersion
	}
	switch {
	case r.UID == "":
		return fmt.Errorf("invalid %s without a uid: must have uid, or object.metadata.uid", one.Type)
	case one.Resource != "":
		var err error
		if r.Resource, err = l.resourceNamed(one.Resource); err != nil {
			return err
		}
	case one.Object != nil:
		kind := schema.FromAPIVersionAndKind(one.Object.APIVersion, one.Object.Kind)
		if r.Resource = l.plurals[kind.GroupKind()]; r.Resource == "" {
			plural, _ := meta.UnsafeGuessKindToResource(kind)
			var err error
			if r.Resource, err = l.resourceNamed(plural.GroupResource().String()); err != nil {
				return err
			}
		}
	default:
		return fmt.Errorf("invalid %s without a resource: must have resource, or object with apiVersion and kind",
			one.Type)
	}
	if err := checkVersion(r.ResourceVersion); err != nil {
		return err
	}
	switch {
	case r.Namespace == "" && l.namespaced[r.Resource]:
		return fmt.Errorf("invalid %s without a namespace: must have that of the object", one.Type)
	case r.ResourceVersion == "" && r.Kind != deleted:
		return fmt.Errorf("invalid %s without a resourceVersion: must have that of the object", one.Type)
	}
	if r.Kind == deleted && (r.ResourceVersion == "" || r.ResourceVersion == l.last[r.UID]) {
		r.Inferred = true
	}
	l.last[r.UID] = r.ResourceVersion
	return nil
}

// scope returns the resources that the client watches.
func (l *lineReader) scope() []string {
	if len(l.client.Resources) > 0 {
		return slices.Clone(l.client.Resources)
	}
	return slices.Sorted(maps.Values(l.plurals))
}

// unsynced returns the resources whose SYNCED is missing.
func (l *lineReader) unsynced() []string {
	return slices.DeleteFunc(l.scope(), func(name string) bool { return l.synced[name] })
}

// resourceNamed returns the name of a resource without its version. It must be one that the client may watch, if these
// are known.
func (l *lineReader) resourceNamed(text string) (string, error) {
	name, err := resourceNamed(text)
	if known := slices.Sorted(maps.Values(l.plurals)); err == nil && len(known) > 0 && !slices.Contains(known, name) {
		return "", fmt.Errorf("invalid resource %q: must be one of %s", text, strings.Join(known, ", "))
	}
	return name, err
}

// checkVersion refuses a version that none of etcd can be.
func checkVersion(text string) error {
	if text != "" && !isVersion(text) {
		return fmt.Errorf("invalid resourceVersion %.80q: must be a number", text)
	}
	return nil
}

// resourceNamed returns the name of a resource without its version.
func resourceNamed(text string) (string, error) {
	ref, err := gvr.ParseRef(strings.TrimPrefix(text, "apis/"))
	if err != nil {
		return "", err
	}
	return schema.GroupResource{Group: ref.Group, Resource: ref.Name}.String(), nil
}
