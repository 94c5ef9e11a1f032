package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/liggitt/tabwriter"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/cli-runtime/pkg/printers"
	"sigs.k8s.io/yaml"

	"github.com/gvrwatch/gvrwatch/stream"
)

// eventPrinter writes one event. As a table and with -o name, SYNCED and GAP go to stderr; as JSON and YAML they go to
// stdout like all other events.
type eventPrinter interface {
	print(stream.Event) error
}

func newEventPrinter(streams genericiooptions.IOStreams, output string, several, allNamespaces bool) eventPrinter {
	switch output {
	case "json":
		return jsonPrinter{json.NewEncoder(streams.Out), allNamespaces}
	case "yaml":
		return &yamlPrinter{w: streams.Out, allNamespaces: allNamespaces}
	case "name":
		return objectPrinter{streams, namePrinter{}, allNamespaces}
	}
	return objectPrinter{streams: streams, allNamespaces: allNamespaces, objects: &tablePrinter{
		printer: printers.NewTablePrinter(printers.PrintOptions{WithNamespace: allNamespaces, Wide: output == "wide"}),
		w:       printers.GetNewTabWriter(streams.Out),
		several: several,
	}}
}

// eventDocument is an event in JSON and YAML.
type eventDocument struct {
	Type            stream.Type                `json:"type"`
	Resource        string                     `json:"resource"`
	Namespace       string                     `json:"namespace,omitempty"`       // see namespaceOf
	ResourceVersion string                     `json:"resourceVersion,omitempty"` // SYNCED only
	Inferred        bool                       `json:"inferred,omitempty"`
	Coalesced       int                        `json:"coalesced,omitempty"`
	Gap             *gapDocument               `json:"gap,omitempty"`
	Object          *unstructured.Unstructured `json:"object,omitempty"`
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
	if !allNamespaces || ev.Object != nil {
		return ""
	}
	return ev.Namespace
}

func newEventDocument(ev stream.Event, fansOut bool) eventDocument {
	d := eventDocument{
		Type: ev.Type, Resource: ev.Resource.String(), Namespace: namespaceOf(ev, fansOut),
		Inferred: ev.Inferred, Coalesced: ev.Coalesced, Object: ev.Object,
	}
	switch ev.Type {
	case stream.Synced:
		d.ResourceVersion = ev.ResourceVersion
	case stream.Gap:
		d.Gap = &gapDocument{ev.Gap.Reason, ev.Gap.From, ev.Gap.To, ev.Gap.HistoryLost}
	}
	return d
}

type jsonPrinter struct {
	enc           *json.Encoder
	allNamespaces bool
}

func (p jsonPrinter) print(ev stream.Event) error {
	return p.enc.Encode(newEventDocument(ev, p.allNamespaces))
}

type yamlPrinter struct {
	w                      io.Writer
	started, allNamespaces bool
}

func (p *yamlPrinter) print(ev stream.Event) error {
	b, err := yaml.Marshal(newEventDocument(ev, p.allNamespaces))
	if err != nil {
		return err
	}
	if p.started {
		b = append([]byte("---\n"), b...)
	}
	p.started = true
	_, err = p.w.Write(b)
	return err
}

// objectPrinter writes objects with one of cli-runtime's printers, and control events to stderr.
type objectPrinter struct {
	streams genericiooptions.IOStreams
	objects interface {
		printObject(stream.Event, io.Writer) error
	}
	allNamespaces bool
}

func (p objectPrinter) print(ev stream.Event) error {
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
		fmt.Fprintf(p.streams.ErrOut, "gvrwatch: %s: synced%s%s\n", ev.Resource, in, at)
	case stream.Gap:
		to := ""
		if ev.Gap.To != "" {
			to = " to " + ev.Gap.To
		}
		fmt.Fprintf(p.streams.ErrOut, "gvrwatch: %s: gap%s from resourceVersion %s%s (%s): the differences follow\n",
			ev.Resource, in, ev.Gap.From, to, ev.Gap.Reason)
	default:
		return p.objects.printObject(ev, p.streams.Out)
	}
	return nil
}

type namePrinter struct{}

func (namePrinter) printObject(ev stream.Event, w io.Writer) error {
	p := printers.NamePrinter{}
	if ev.Type == stream.Deleted {
		p.Operation = "deleted"
	}
	return p.PrintObj(ev.Object, w)
}

type tablePrinter struct {
	printer printers.ResourcePrinter
	w       *tabwriter.Writer // remembers the widths of earlier rows
	several bool              // several resources: names include the kind
}

var columns = []metav1.TableColumnDefinition{
	{Name: "Name", Type: "string", Format: "name"},
	{Name: "Age", Type: "string"},
	{Name: "Resource version", Type: "string", Priority: 1},
	{Name: "Uid", Type: "string", Priority: 1},
	{Name: "Labels", Type: "string", Priority: 1},
}

func (p *tablePrinter) printObject(ev stream.Event, _ io.Writer) error {
	o := ev.Object
	name := o.GetName()
	if p.several {
		name = strings.ToLower(ev.Resource.Kind)
		if ev.Resource.Group != "" {
			name += "." + ev.Resource.Group
		}
		name += "/" + o.GetName()
	}
	table := &metav1.Table{ColumnDefinitions: columns, Rows: []metav1.TableRow{{
		Cells:  []any{name, age(o), ev.ResourceVersion, string(o.GetUID()), labelText(o.GetLabels())},
		Object: runtime.RawExtension{Object: o},
	}}}
	e := &metav1.WatchEvent{Type: string(ev.Type), Object: runtime.RawExtension{Object: table}}
	if err := p.printer.PrintObj(e, p.w); err != nil {
		return err
	}
	return p.w.Flush()
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
