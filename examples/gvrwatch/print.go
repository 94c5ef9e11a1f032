package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/gvrwatch/gvrwatch/stream"
)

// eventPrinter writes one event. As a table and with -o name, SYNCED and GAP go to stderr; as JSON and YAML they go to
// stdout like all other events.
type eventPrinter interface {
	print(stream.Event) error
}

func newEventPrinter(streams genericiooptions.IOStreams, output string, several, allNamespaces bool) eventPrinter {
	switch output {
	case "json", "yaml":
		return &documentPrinter{documents{w: streams.Out, yaml: output == "yaml"}, allNamespaces}
	case "name":
		return linePrinter{streams, allNamespaces, func(ev stream.Event) error { return printName(streams.Out, ev) }}
	}
	t := newEventTable(streams.Out, output == "wide", several, allNamespaces)
	return linePrinter{streams, allNamespaces, t.print}
}

// eventDocument is an event in JSON and YAML.
type eventDocument struct {
	Type            stream.Type     `json:"type"`
	Resource        string          `json:"resource"`
	Namespace       string          `json:"namespace,omitempty"`       // see namespaceOf
	ResourceVersion string          `json:"resourceVersion,omitempty"` // SYNCED only
	Inferred        bool            `json:"inferred,omitempty"`
	Coalesced       int             `json:"coalesced,omitempty"`
	Gap             *gapDocument    `json:"gap,omitempty"`
	Invalid         string          `json:"invalid,omitempty"` // why the object has only its identity
	Object          json.RawMessage `json:"object,omitempty"`
}

type gapDocument struct {
	Reason      stream.GapReason `json:"reason"`
	From        string           `json:"from"`
	To          string           `json:"to"`
	HistoryLost bool             `json:"historyLost"`
}

// namespaceOf returns the namespace of a control event that is of one namespace although -A requests all. That
// happens if the resource may be watched only in some namespaces.
func namespaceOf(ev stream.Event, allNamespaces bool) string {
	if !allNamespaces || ev.HasObject() {
		return ""
	}
	return ev.Namespace
}

func newEventDocument(ev stream.Event, fansOut bool) eventDocument {
	d := eventDocument{
		Type: ev.Type, Resource: ev.Resource.String(), Namespace: namespaceOf(ev, fansOut),
		Inferred: ev.Inferred, Coalesced: ev.Coalesced, Object: ev.JSON,
	}
	switch {
	case ev.Object != nil:
		d.Object, _ = json.Marshal(ev.Object.Object) // decoded from JSON
	case ev.JSON != nil && !json.Valid(ev.JSON):
		d.dropObject(ev, "the server sent invalid JSON")
	}
	switch ev.Type {
	case stream.Synced:
		d.ResourceVersion = ev.ResourceVersion
	case stream.Gap:
		d.Gap = &gapDocument{ev.Gap.Reason, ev.Gap.From, ev.Gap.To, ev.Gap.HistoryLost}
	}
	return d
}

// dropObject leaves no more of the object than what identifies it, and says why.
func (d *eventDocument) dropObject(ev stream.Event, why string) {
	d.Invalid, d.Object = why, identityOf(ev)
}

// identityOf returns an object with no more than what identifies it.
func identityOf(ev stream.Event) json.RawMessage {
	m := ev.Meta()
	o := &unstructured.Unstructured{Object: map[string]any{}}
	o.SetGroupVersionKind(ev.Resource.GroupVersionKind())
	o.SetNamespace(m.GetNamespace())
	o.SetName(m.GetName())
	o.SetUID(m.GetUID())
	o.SetResourceVersion(m.GetResourceVersion())
	b, _ := json.Marshal(o.Object) // strings only
	return b
}

// documentPrinter writes events as JSON or YAML.
type documentPrinter struct {
	documents
	allNamespaces bool
}

func (p *documentPrinter) print(ev stream.Event) error {
	d := newEventDocument(ev, p.allNamespaces)
	if p.yaml && ev.JSON != nil && d.Invalid == "" {
		if _, err := ev.Decode(); err != nil { // a number that is too large, for example
			d.dropObject(ev, "the server sent an object that can't be decoded")
		}
	}
	return p.documents.print(d)
}

// linePrinter writes each object as a line of stdout, and control events to stderr.
type linePrinter struct {
	streams       genericiooptions.IOStreams
	allNamespaces bool
	printObject   func(stream.Event) error
}

func (p linePrinter) print(ev stream.Event) error {
	in := ""
	if ns := namespaceOf(ev, p.allNamespaces); ns != "" {
		in = " in the namespace " + ns
	}
	switch ev.Type {
	case stream.Synced:
		at := ""
		if ev.ResourceVersion != "" { // empty for several namespaces
			at = " at resourceVersion " + ev.ResourceVersion
		}
		printMessage(p.streams.ErrOut, "%s: synced%s%s", ev.Resource, in, at)
	case stream.Gap:
		to := ""
		if ev.Gap.To != "" {
			to = " to " + ev.Gap.To
		}
		printMessage(p.streams.ErrOut, "%s: gap%s from resourceVersion %s%s (%s): the differences follow",
			ev.Resource, in, ev.Gap.From, to, ev.Gap.Reason)
	default:
		return p.printObject(ev)
	}
	return nil
}

// printName writes what kubectl's -o name does. It does not use the printer of cli-runtime, which takes an object with
// the field items for a list.
func printName(w io.Writer, ev stream.Event) error {
	if ev.Type == stream.Deleted {
		return printLine(w, nameWithKind(ev)+" deleted")
	}
	return printLine(w, nameWithKind(ev))
}

func nameWithKind(ev stream.Event) string {
	kind := schema.GroupKind{Group: ev.Resource.Group, Kind: strings.ToLower(ev.Resource.Kind)}
	return kind.String() + "/" + ev.Object.GetName()
}

// eventTable is a table of the objects of events.
type eventTable struct {
	*table
	several, namespaces bool // several resources: names include the kind
}

func newEventTable(w io.Writer, wide, several, namespaces bool) eventTable {
	columns := []string{"EVENT   ", "NAMESPACE", "NAME", "AGE", "RESOURCE VERSION", "UID", "LABELS"}
	if !wide {
		columns = columns[:4]
	}
	if !namespaces {
		columns = slices.Delete(columns, 1, 2)
	}
	return eventTable{newTable(w, columns...), several, namespaces}
}

func (t eventTable) print(ev stream.Event) error {
	o := ev.Object
	cells := []string{
		fmt.Sprintf("%-8s", ev.Type), o.GetNamespace(), o.GetName(), age(o),
		ev.ResourceVersion, string(o.GetUID()), labelText(o.GetLabels()),
	}
	if t.several {
		cells[2] = nameWithKind(ev)
	}
	if !t.namespaces {
		cells = slices.Delete(cells, 1, 2)
	}
	if err := t.row(cells...); err != nil {
		return err
	}
	return t.Flush()
}

func age(o *unstructured.Unstructured) string {
	created := o.GetCreationTimestamp()
	if created.IsZero() {
		return "<unknown>" // an inferred DELETED has no creation time
	}
	return duration.HumanDuration(time.Since(created.Time))
}

func labelText(l map[string]string) string {
	if len(l) == 0 {
		return "<none>"
	}
	return metav1.FormatLabelSelector(&metav1.LabelSelector{MatchLabels: l})
}
