package recording

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/internal/friend"
	"github.com/gvrwatch/gvrwatch/stream"
)

// Header says what a run of a writer records.
type Header struct {
	Format    int       `json:"format"` // 1; a writer sets it
	Began     time.Time `json:"-"`      // the time of its line
	Program   string    `json:"program,omitempty"`
	Server    string    `json:"server,omitempty"`
	Cluster   string    `json:"cluster,omitempty"` // checkpoint.Cluster.String
	Selection Selection `json:"selection"`
	Start     Start     `json:"start"`
	Secrets   string    `json:"secrets,omitempty"` // what was done with Secrets: "redacted", "included"
}

// Selection is what was asked to be watched.
type Selection struct {
	Types         []string `json:"types,omitempty"`      // as on the command line: names, patterns, TYPE/NAME
	Exclude       []string `json:"exclude,omitempty"`    // patterns
	Namespaces    []string `json:"namespaces,omitempty"` // empty means all
	LabelSelector string   `json:"labelSelector,omitempty"`
	FieldSelector string   `json:"fieldSelector,omitempty"`
	MetadataOnly  bool     `json:"metadataOnly,omitempty"`
}

// Start says what a run knows of earlier events.
type Start string

const (
	Snapshot Start = "snapshot" // it begins with ADDED for everything that exists
	Resumed  Start = "resumed"  // it continues where the run before it ended, by a checkpoint
	Later    Start = "later"    // it has only changes after its begin
)

// Entry is a line of a recording that says what happened.
type Entry struct {
	Time time.Time // when it was delivered
	// Run is set if a run begins. Then Event is zero.
	Run *Header
	// Forgets says of a run that nothing is known of the objects before it. Changes sets it.
	Forgets bool
	// Event has its object in JSON. One without a Type says only that the writer was still there.
	Event stream.Event
	// Row has the server's columns and cells of the object: {"columns":[…],"cells":[…]}; nil if there are none.
	Row json.RawMessage
}

// line is a line of a file. The first one of each run has the type RUN. Before the first event of a resource in a run
// is one of the type RESOURCE. The line that ends a run, and those that an idle writer writes, have the type ALIVE.
type line struct {
	Type       stream.Type     `json:"type"`
	Time       time.Time       `json:"time"`
	Run        *Header         `json:"run,omitempty"`
	Resource   string          `json:"resource,omitempty"`   // gvr.Resource.String
	Definition *definition     `json:"definition,omitempty"` // with RESOURCE
	Namespace  string          `json:"namespace,omitempty"`  // stream.Event.Namespace
	Version    string          `json:"resourceVersion,omitempty"`
	Inferred   bool            `json:"inferred,omitempty"`
	Coalesced  int             `json:"coalesced,omitempty"`
	Gap        *gap            `json:"gap,omitempty"`
	Columns    json.RawMessage `json:"columns,omitempty"` // if they are not those of the row before
	Cells      json.RawMessage `json:"cells,omitempty"`
	Object     json.RawMessage `json:"object,omitempty"`
	Text       *string         `json:"text,omitempty"` // an object that is no JSON, as a server sent it
}

const (
	typeRun      stream.Type = "RUN"
	typeResource stream.Type = "RESOURCE"
	typeAlive    stream.Type = "ALIVE"
)

// format is that of the files that this package writes, and the newest that it reads.
const format = 1

// definition is a gvr.Resource.
type definition struct {
	Group      string   `json:"group,omitempty"`
	Version    string   `json:"version"`
	Plural     string   `json:"plural"`
	Kind       string   `json:"kind"`
	Singular   string   `json:"singular,omitempty"`
	ShortNames []string `json:"shortNames,omitempty"`
	Categories []string `json:"categories,omitempty"`
	Namespaced bool     `json:"namespaced"`
}

func definitionOf(r gvr.Resource) *definition {
	return &definition{
		r.Group, r.Version, r.Resource, r.Kind, r.Singular, r.ShortNames, r.Categories, r.Namespaced,
	}
}

func (d *definition) resource() gvr.Resource {
	return gvr.Resource{
		GroupVersionResource: schema.GroupVersionResource{Group: d.Group, Version: d.Version, Resource: d.Plural},
		Kind:                 d.Kind, Singular: d.Singular, ShortNames: d.ShortNames, Categories: d.Categories,
		Namespaced: d.Namespaced,
	}
}

type gap struct {
	Reason      stream.GapReason `json:"reason"`
	From        string           `json:"from,omitempty"`
	To          string           `json:"to,omitempty"`
	Seconds     float64          `json:"seconds,omitempty"`
	HistoryLost bool             `json:"historyLost,omitempty"`
}

// lineOf returns the line of an event, without columns and cells.
func lineOf(at time.Time, ev stream.Event) line {
	l := line{
		Type: ev.Type, Time: at.UTC(), Resource: ev.Resource.String(), Namespace: ev.Namespace,
		Version: ev.ResourceVersion, Inferred: ev.Inferred, Coalesced: ev.Coalesced(), Object: ev.JSON,
	}
	switch {
	case ev.Object != nil:
		l.Object, _ = json.Marshal(ev.Object.Object) // decoded from JSON
	case ev.JSON != nil && !json.Valid(ev.JSON):
		text := string(ev.JSON)
		l.Object, l.Text = nil, &text
	}
	if g := ev.Gap; g != nil {
		l.Gap = &gap{g.Reason, g.From, g.To, g.Duration.Seconds(), g.HistoryLost}
	}
	return l
}

// event returns the event of a line.
func (l *line) event(r gvr.Resource) stream.Event {
	ev := stream.Event{
		Type: l.Type, Resource: r, Namespace: l.Namespace, JSON: l.Object,
		ResourceVersion: l.Version, Inferred: l.Inferred,
	}
	if l.Text != nil {
		ev.JSON = json.RawMessage(*l.Text)
	}
	if l.Gap != nil {
		ev.Gap = &stream.GapDetails{
			Reason: l.Gap.Reason, From: l.Gap.From, To: l.Gap.To, HistoryLost: l.Gap.HistoryLost,
			Duration: time.Duration(l.Gap.Seconds * float64(time.Second)),
		}
	}
	ev.Envelope(friend.Access{}).Coalesced = l.Coalesced
	return ev
}

// check returns what is wrong with a line that is JSON.
func (l *line) check() error {
	object := l.Object != nil || l.Text != nil
	switch l.Type {
	case typeRun:
		if l.Run == nil {
			return errors.New("a RUN must have a run")
		}
		if l.Run.Format < 1 || l.Run.Format > format {
			return fmt.Errorf("its format is %d: this program reads format %d", l.Run.Format, format)
		}
	case typeResource:
		if d := l.Definition; d == nil || d.Version == "" || d.Plural == "" || d.Kind == "" {
			return errors.New("a RESOURCE must have a definition with version, plural and kind")
		}
	case stream.Gap:
		if l.Gap == nil {
			return errors.New("a GAP must have a gap")
		}
	case stream.Added, stream.Modified, stream.Deleted, stream.Synced, stream.Bookmark, typeAlive:
	default:
		return errors.New("its type is unknown")
	}
	if !object && hasObject(l.Type) {
		return fmt.Errorf("a line of the type %s must have an object", l.Type)
	}
	if object && !hasObject(l.Type) {
		return errors.New("only ADDED, MODIFIED and DELETED have an object")
	}
	return nil
}

// Error is returned if a file is no recording, or is damaged. It is not returned for a file that ends within a line, as
// a killed writer leaves it.
type Error struct {
	Path string
	Line int // of the decompressed text, from 1; 0 for the file as a whole
	Err  error
}

func (e *Error) Error() string {
	where := ""
	if e.Line > 0 {
		where = fmt.Sprintf(" line %d", e.Line)
	}
	return fmt.Sprintf("invalid recording %s%s: %v", e.Path, where, e.Err)
}

func (e *Error) Unwrap() error { return e.Err }

func hasObject(t stream.Type) bool {
	return t == stream.Added || t == stream.Modified || t == stream.Deleted
}
