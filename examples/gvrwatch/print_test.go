package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/mux"
	"github.com/gvrwatch/gvrwatch/stream"
)

func event(kind stream.Type) stream.Event {
	r := gvr.Resource{Kind: "Boat"}
	r.Group, r.Version, r.Resource = "example.com", "v1", "boats"
	ev := stream.Event{Type: kind, Resource: r}
	switch kind {
	case stream.Synced:
		ev.ResourceVersion = "7"
	case stream.Gap:
		ev.Gap = &stream.GapDetails{Reason: stream.GapExpired, From: "5", To: "7"}
	default:
		ev.Object = &unstructured.Unstructured{}
		ev.Object.SetAPIVersion("example.com/v1")
		ev.Object.SetKind("Boat")
		ev.Object.SetName("argo")
	}
	return ev
}

// coalesced returns ev as a Mux with Latest delivers it if it stands for n others of its object.
func coalesced(t *testing.T, ev stream.Event, n int) (got stream.Event) {
	t.Helper()
	begun, queued := make(chan struct{}), make(chan struct{})
	m, err := mux.New(&mux.Options{Overflow: mux.Latest}, source(func(yield func(stream.Event, error) bool) {
		yield(event(stream.Synced), nil)
		<-begun
		for range n + 1 {
			yield(ev, nil)
		}
		close(queued)
	}))
	if err != nil {
		t.Fatal(err)
	}
	for got, err = range m.Events(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if got.Type == stream.Synced {
			close(begun)
			<-queued
		}
	}
	return got
}

// source is a source of a Mux.
type source func(yield func(stream.Event, error) bool)

func (source) Key() string { return "test" }

func (s source) Events(context.Context) iter.Seq2[stream.Event, error] {
	return iter.Seq2[stream.Event, error](s)
}

// newPrinter returns a printer as of a command line without other flags than -o and, with all, -A.
func newPrinter(t *testing.T, out, errOut io.Writer, format string, all bool) eventPrinter {
	t.Helper()
	how := printing{
		streams: genericiooptions.IOStreams{Out: out, ErrOut: errOut}, namespaces: all,
		flags: printFlags{format: format, watchEvents: true},
	}
	p, err := how.newPrinter()
	if err != nil {
		t.Fatal(err)
	}
	passes, err := (&filterFlags{}).newFilter(time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	return delivered{p, &delivery{printing: how, printer: p, filter: passes}}
}

// delivered prints an event as a run does, with control events on stderr where they belong there.
type delivered struct {
	eventPrinter
	to *delivery
}

func (d delivered) print(ev stream.Event, written func()) error {
	_, err := d.to.deliver(ev, written)
	return err
}

// ack is for printers of events that need no ack.
func ack() {}

func TestPrintEvents(t *testing.T) {
	inferred := event(stream.Deleted)
	inferred.Inferred = true
	all := []stream.Event{event(stream.Added), event(stream.Gap), inferred, event(stream.Synced)}
	const control = "gvrwatch: boats.v1.example.com: gap from resourceVersion 5 to 7 (expired): " +
		"the differences follow\n" +
		"gvrwatch: boats.v1.example.com: synced at resourceVersion 7\n"
	const object = `{"apiVersion":"example.com/v1","kind":"Boat","metadata":{"name":"argo"}}`
	tests := []struct{ format, stdout, stderr, why string }{
		{"name", "boat.example.com/argo\nboat.example.com/argo deleted\n", control,
			"names go to stdout, control events to stderr"},
		{"", "EVENT      NAME   AGE\nADDED      argo   <unknown>\nDELETED    argo   <unknown>\n", control,
			"the default is a table of objects"},
		{"json", `{"type":"ADDED","resource":"boats.v1.example.com","object":` + object + `}
{"type":"GAP","resource":"boats.v1.example.com","gap":{"reason":"expired","from":"5","to":"7","historyLost":false}}
{"type":"DELETED","resource":"boats.v1.example.com","inferred":true,"object":` + object + `}
{"type":"SYNCED","resource":"boats.v1.example.com","resourceVersion":"7"}
`, "", "each event is one line of stdout, control events included"},
		{"yaml", `object:
  apiVersion: example.com/v1
  kind: Boat
  metadata:
    name: argo
resource: boats.v1.example.com
type: ADDED
---
gap:
  from: "5"
  historyLost: false
  reason: expired
  to: "7"
resource: boats.v1.example.com
type: GAP
---
inferred: true
object:
  apiVersion: example.com/v1
  kind: Boat
  metadata:
    name: argo
resource: boats.v1.example.com
type: DELETED
---
resource: boats.v1.example.com
resourceVersion: "7"
type: SYNCED
`, "", "each event is one YAML document, control events included"},
	}
	for _, tt := range tests {
		t.Run(tt.format, func(t *testing.T) {
			var out, errOut bytes.Buffer
			p := newPrinter(t, &out, &errOut, tt.format, false)
			for _, ev := range all {
				if err := p.print(ev, ack); err != nil {
					t.Error(err)
				}
			}
			if diff := cmp.Diff([]string{tt.stdout, tt.stderr}, []string{out.String(), errOut.String()}); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tt.why, diff)
			}
		})
	}
}

// TestPrintFanOut checks what is printed only with -A if just some namespaces may be watched, and with --latest.
func TestPrintFanOut(t *testing.T) {
	gap, synced, both, object := event(stream.Gap), event(stream.Synced), event(stream.Synced), event(stream.Modified)
	object = coalesced(t, object, 3)
	gap.Namespace, synced.Namespace, object.Namespace = "one", "one", "one"
	gap.Gap = &stream.GapDetails{Reason: stream.GapRewound, From: "5", HistoryLost: true}
	both.ResourceVersion = ""
	const argo = `{"apiVersion":"example.com/v1","kind":"Boat","metadata":{"name":"argo"}}`
	tests := []struct {
		format         string
		all            bool
		stdout, stderr string
		why            string
	}{
		{"json", true, `{"type":"GAP","resource":"boats.v1.example.com","namespace":"one",` +
			`"gap":{"reason":"rewound","from":"5","to":"","historyLost":true}}
{"type":"SYNCED","resource":"boats.v1.example.com","namespace":"one","resourceVersion":"7"}
{"type":"SYNCED","resource":"boats.v1.example.com"}
{"type":"MODIFIED","resource":"boats.v1.example.com","coalesced":3,"object":` + argo + "}\n", "",
			"with -A control events have their namespace"},
		{"json", false, `{"type":"GAP","resource":"boats.v1.example.com",` +
			`"gap":{"reason":"rewound","from":"5","to":"","historyLost":true}}
{"type":"SYNCED","resource":"boats.v1.example.com","resourceVersion":"7"}
{"type":"SYNCED","resource":"boats.v1.example.com"}
{"type":"MODIFIED","resource":"boats.v1.example.com","coalesced":3,"object":` + argo + "}\n", "",
			"without -A control events have no namespace"},
		{"name", true, "boat.example.com/argo\n", "gvrwatch: boats.v1.example.com: " +
			"gap in the namespace one from resourceVersion 5 (rewound): the differences follow\n" +
			"gvrwatch: boats.v1.example.com: synced in the namespace one at resourceVersion 7\n" +
			"gvrwatch: boats.v1.example.com: synced\n", "with -A the lines on stderr have the namespace"},
	}
	for _, tt := range tests {
		var out, errOut bytes.Buffer
		p := newPrinter(t, &out, &errOut, tt.format, tt.all)
		for _, ev := range []stream.Event{gap, synced, both, object} {
			if err := p.print(ev, ack); err != nil {
				t.Error(err)
			}
		}
		if diff := cmp.Diff([]string{tt.stdout, tt.stderr}, []string{out.String(), errOut.String()}); diff != "" {
			t.Errorf("%s, -A %v: %s (-want +got):\n%s", tt.format, tt.all, tt.why, diff)
		}
	}
}

func TestLogLines(t *testing.T) {
	var b bytes.Buffer
	log := slog.New(logHandler{w: &b})
	log.WarnContext(context.Background(), "trying again after a failure",
		"resource", "boats.v1", "after", 1234*time.Millisecond, "error", errors.New("connection\nrefused"))
	log.InfoContext(context.Background(), "watching again", "resource", "boats.v1", "resourceVersion", "5")
	log.DebugContext(context.Background(), "listing", "resource", "boats.v1")
	log.Warn("checkpoints can't be committed, trying again",
		"error", errors.New("disk\nfull"), "attempts", 2, "after", 3*time.Second)
	log.Error("checkpoint commits stopped permanently", "error", errors.New("gone"))
	log.Info("checkpoints are committed again")
	want := "gvrwatch: boats.v1: trying again in 1.2s: connection refused\ngvrwatch: boats.v1: watching again\n" +
		"gvrwatch: checkpoints can't be committed, trying again in 3s: disk full\n" +
		"gvrwatch: checkpoint commits stopped permanently: gone\ngvrwatch: checkpoints are committed again\n"
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("each record is one line without details (-want +got):\n%s", diff)
	}
	b.Reset()
	log = slog.New(logHandler{w: &b, follows: true})
	boats := schema.GroupResource{Group: "example.com", Resource: "boats"}
	for _, err := range []error{
		apierrors.NewForbidden(boats, "", nil), apierrors.NewNotFound(boats, "argo"), errors.New("refused"),
	} {
		log.Warn("trying again after a failure",
			"resource", "boats.v1", "after", time.Second, "error", fmt.Errorf("listing: %w", err))
	}
	if diff := cmp.Diff("gvrwatch: boats.v1: trying again in 1s: listing: refused\n", b.String()); diff != "" {
		t.Errorf("what statusPrinter reports must not be logged (-want +got):\n%s", diff)
	}
}
