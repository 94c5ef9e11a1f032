package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/gvrwatch/gvrwatch/examples/gvrwatch/internal/screen"
	"github.com/gvrwatch/gvrwatch/examples/gvrwatch/internal/tables"
	"github.com/gvrwatch/gvrwatch/stream"
)

// printFlags say what is printed, and how.
type printFlags struct {
	output            string
	metadataOnly      bool
	showLabels        bool
	labelColumns      []string
	noHeaders         bool
	watchEvents       bool
	eventsAsked       bool // --output-watch-events was given
	showManagedFields bool
	timestamps        bool
	color             screen.Color
	status            bool

	format, template string // the two parts of output
}

func (o *printFlags) addFlags(f *pflag.FlagSet) {
	f.StringVarP(&o.output, "output", "o", "", "Output format: "+strings.Join(outputs[1:], ", ")+".")
	f.BoolVar(&o.metadataOnly, "metadata-only", false,
		"Request only the metadata of objects, which costs the server and the network a fraction.")
	f.BoolVar(&o.showLabels, "show-labels", false, "Print all labels as the last column.")
	f.StringSliceVarP(&o.labelColumns, "label-columns", "L", nil, "Labels to print as columns, as in kubectl get.")
	f.BoolVar(&o.noHeaders, "no-headers", false, "Print no headers.")
	f.BoolVar(&o.watchEvents, "output-watch-events", true,
		"Print the type of each event. If false, tables are those of kubectl get -w, and -o json and -o yaml print "+
			"objects. Templates and custom columns get the object; with this flag, the event.")
	f.BoolVar(&o.showManagedFields, "show-managed-fields", false, "Keep managedFields in JSON, YAML and templates.")
	f.BoolVar(&o.timestamps, "timestamps", false, "Print the time at which each event is printed.")
	o.color = screen.Auto
	f.Var(&o.color, "color", "Color the output. One of: (auto, always, never). "+
		"auto is always in a terminal, unless NO_COLOR is set.")
	f.BoolVar(&o.status, "status", true, "Show a status line in a terminal.")
}

// outputs are the values of --output, without templates.
var outputs = []string{
	"", "wide", "name", "json", "yaml", "diff", "jsonpath", "jsonpath-as-json", "jsonpath-file", "go-template",
	"go-template-file", "template", "templatefile", "custom-columns", "custom-columns-file",
}

// withTemplate reports whether an output needs a template: -o jsonpath=TEMPLATE.
func withTemplate(format string) bool {
	return slices.Index(outputs, format) > slices.Index(outputs, "diff")
}

func (o *watchOptions) checkOutput() error {
	o.print.format, o.print.template, _ = strings.Cut(o.print.output, "=")
	switch {
	case !slices.Contains(outputs, o.print.format), !withTemplate(o.print.format) && o.print.format != o.print.output:
		return oneOf("output", o.print.output, outputs...)
	case withTemplate(o.print.format) && o.print.template == "":
		return fmt.Errorf("--output=%s: must have a template or a file, as in -o %s=TEMPLATE",
			o.print.output, o.print.format)
	case o.print.format == "diff" && o.print.metadataOnly:
		return errors.New("--output=diff: needs whole objects: omit --metadata-only")
	case o.print.format == "diff" && o.begin.latest:
		return errors.New("--output=diff: needs every event: omit --latest")
	case o.end.condition != "" && o.print.metadataOnly && o.end.condition != "delete" && o.end.condition != "create":
		return errors.New("--for: needs whole objects: omit --metadata-only")
	case o.exec.command != "" && o.print.output != "":
		return errors.New("--exec and --output exclude each other: the command gets JSON, and prints what it wants")
	case o.exec.command != "" && (o.print.showLabels || len(o.print.labelColumns) > 0 || o.print.noHeaders):
		return errors.New("--show-labels, --label-columns and --no-headers do not apply to --exec: it prints no table")
	case (o.print.showLabels || len(o.print.labelColumns) > 0) && !o.print.isTable():
		return errors.New("--show-labels and --label-columns apply only to the default output and -o wide")
	}
	switch {
	case o.print.timestamps && !o.print.hasTime():
		return fmt.Errorf("--timestamps does not apply to --output=%s without events", o.print.format)
	case !o.print.watchEvents && (o.print.format == "diff" || o.exec.command != ""):
		return errors.New("--output-watch-events=false does not apply to --output=diff and --exec")
	}
	_, err := o.print.newTemplate(nil, nil)
	return err
}

// hasTime reports whether the output has a place for --timestamps.
func (o *printFlags) hasTime() bool {
	switch {
	case withTemplate(o.format):
		return o.eventsAsked && o.watchEvents
	case o.isDocument():
		return o.watchEvents
	}
	return o.format != "name"
}

// isDocument reports whether the output is JSON or YAML.
func (o *printFlags) isDocument() bool { return o.format == "json" || o.format == "yaml" }

func (o *printFlags) isTable() bool { return o.format == "" || o.format == "wide" }

// hasControls reports whether SYNCED and GAP are printed to stdout. Otherwise they are lines on stderr.
func (o *printFlags) hasControls() bool { return o.isDocument() && o.watchEvents }

// serverColumns reports whether the output or the recording has the columns of the server.
func (o *watchOptions) serverColumns() bool {
	isTable := o.print.isTable() && o.exec.command == "" || o.record.file != ""
	return isTable && !o.print.metadataOnly
}

func (o *printFlags) needsManagedFields() bool { return o.showManagedFields || o.format == "diff" }

// objectsMode returns how much of an object the output needs.
func (o *watchOptions) objectsMode() stream.ObjectsMode {
	switch {
	case o.print.metadataOnly:
		return stream.Metadata
	case o.end.condition != "", o.filter.needsContent(), o.record.file != "", o.print.format != "name":
		return stream.Raw
	}
	return stream.Metadata
}

// eventPrinter prints the objects of events; as JSON and YAML other events, too.
type eventPrinter interface {
	// print prints an event. It calls written when the event has been written, perhaps later and in another goroutine.
	print(ev stream.Event, written func()) error
	// flush writes what has not been written.
	flush() error
}

// printing says how to print the events of a run.
type printing struct {
	streams    genericiooptions.IOStreams
	flags      printFlags
	columns    *tables.Tables   // nil for the columns NAME and AGE
	several    bool             // several types
	namespaces bool             // objects of several namespaces
	clock      func() time.Time // when an event is printed; nil is time.Now
	past       bool             // the server's cells are older than clock
	finite     bool             // the run ends when everything that exists is printed
	leftOut    *int             // counts objects on which a template can't be used; may be nil
}

func (p printing) now() time.Time {
	if p.clock == nil {
		return time.Now()
	}
	return p.clock()
}

func (s *session) printing(want wanted) printing {
	return printing{
		streams: s.streams, flags: s.opts.print, columns: s.columns, several: want.several,
		namespaces: s.opts.showsNamespaces(), finite: s.opts.end.untilSynced, leftOut: &s.leftOut,
	}
}

func (p printing) newPrinter() (eventPrinter, error) {
	out := p.streams.Out
	switch p.flags.format {
	case "json", "yaml":
		return &documentPrinter{documents{w: out, yaml: p.flags.format == "yaml"}, p}, nil
	case "name":
		return namePrinter{out, p.flags.watchEvents}, nil
	case "diff":
		return newDiffPrinter(p), nil
	case "", "wide":
		return newEventTable(p), nil
	}
	t, err := p.flags.newTemplate(out, p.streams.ErrOut)
	if err != nil {
		return nil, err
	}
	t.now = p.now
	t.setFinite(p.finite)
	if p.leftOut != nil {
		t.leftOut = p.leftOut
	}
	return t, nil
}

// showsNamespaces reports whether objects of several namespaces may be printed.
func (o *watchOptions) showsNamespaces() bool {
	return o.what.allNamespaces || len(o.conn.namespaces) > 1
}

// eventDocument is an event in JSON and YAML.
type eventDocument struct {
	Type            stream.Type     `json:"type"`
	Time            string          `json:"time,omitempty"` // with --timestamps: when it was printed
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

func newEventDocument(ev stream.Event, at time.Time, flags printFlags, fansOut bool) eventDocument {
	d := eventDocument{
		Type: ev.Type, Resource: ev.Resource.String(), Namespace: namespaceOf(ev, fansOut),
		Inferred: ev.Inferred, Coalesced: ev.Coalesced(), Object: ev.JSON,
	}
	switch {
	case ev.Object != nil:
		d.Object, _ = json.Marshal(ev.Object.Object) // decoded from JSON
	case ev.JSON != nil && !json.Valid(ev.JSON):
		d.dropObject(ev, "the server sent invalid JSON")
	}
	if flags.timestamps {
		d.Time = at.UTC().Format(time.RFC3339Nano)
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
	documents documents
	printing  printing
}

func (p *documentPrinter) print(ev stream.Event, written func()) error {
	document := p.document(ev)
	var err error
	if p.printing.flags.watchEvents {
		err = p.documents.print(document)
	} else {
		err = p.documents.print(document.Object)
	}
	if err == nil {
		written()
	}
	return err
}

func (p *documentPrinter) flush() error { return nil }

func (p *documentPrinter) document(ev stream.Event) eventDocument {
	d := newEventDocument(ev, p.printing.now(), p.printing.flags, p.printing.namespaces)
	if p.documents.yaml && ev.JSON != nil && d.Invalid == "" {
		o, err := ev.Decode()
		switch {
		case err != nil: // a number that is too large, for example
			d.dropObject(ev, "the server sent an object that can't be decoded")
		case roomAfter(mostResult, o.Object, 2) < 0: // indentation grows with the square of the depth
			d.dropObject(ev, "the object is larger than 32 MiB as YAML")
		}
	}
	return d
}

// namePrinter writes what kubectl's -o name does, and "deleted" after a DELETED if events are printed. It does not use
// the printer of cli-runtime, which takes an object with the field items for a list.
type namePrinter struct {
	out    io.Writer
	events bool
}

func (p namePrinter) print(ev stream.Event, written func()) error {
	line := nameWithKind(ev)
	if ev.Type == stream.Deleted && p.events {
		line += " deleted"
	}
	err := screen.WriteLine(p.out, screen.Text{Text: line})
	if err == nil {
		written()
	}
	return err
}

func (p namePrinter) flush() error { return nil }

func nameWithKind(ev stream.Event) string {
	kind := schema.GroupKind{Group: ev.Resource.Group, Kind: strings.ToLower(ev.Resource.Kind)}
	return kind.String() + "/" + ev.Meta().GetName()
}

// styles are those of the types of events.
var styles = map[stream.Type]screen.Style{
	stream.Added: screen.Green, stream.Modified: screen.Yellow, stream.Deleted: screen.Red,
}
