package stream

import (
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/internal/protocol"
)

// Options configure a Stream. The zero value is the default. It has 23 fields because
// each is a decision of its own.
type Options struct {
	// What to watch.

	// Namespaces to watch, each with a list and a watch of its own. Empty means the whole cluster, with one list and
	// one watch. With several, events are ordered within each namespace, GAP and BOOKMARK concern one namespace
	// ([Event.Namespace]), and SYNCED is emitted when all namespaces are synced. After two GAPs of two
	// namespaces there may be one SYNCED or two.
	Namespaces []string
	// LabelSelector in the syntax of kubectl -l. Empty selects every object.
	LabelSelector string
	// FieldSelector in the syntax of kubectl --field-selector. Only the server knows which fields a resource supports.
	// Empty selects every object.
	FieldSelector string
	// Name selects one object. It is combined with FieldSelector.
	Name string
	// InvolvedObject selects the events (v1 or events.k8s.io) about an object; empty fields match anything. It is
	// combined with FieldSelector.
	InvolvedObject *corev1.ObjectReference
	// Select reports whether to select an object, after the server's selectors and in the same way: an object that
	// stops matching is DELETED, one that starts matching is ADDED. The result must depend on the argument alone, which
	// is valid until Select returns. With several namespaces it is called from several goroutines at once.
	//
	// With a client of [NewClient] it is called before the object of a watch is decoded, so that rejected objects cost
	// little; errors in the rest of a rejected object are then not detected. Nil selects every object.
	Select func(Meta) bool

	// What is delivered.

	// Objects is how much of each object is delivered: [Full] (the default), [Raw] or [Metadata].
	Objects ObjectsMode
	// Transform may change an object just before it is delivered, for example to redact a field. The object of an
	// inferred DELETED has little more than a name. It requires decoded objects, so not [Raw]. Nil means no change.
	Transform func(*unstructured.Unstructured)
	// Bookmarks delivers BOOKMARK events. The Stream requests them from the server in any case.
	Bookmarks bool

	// Where a run begins and ends.

	// Start is where a run begins: [Snapshot] (the default), [Now], [After] or [From].
	Start Start
	// UntilSynced ends a run after its first SYNCED.
	UntilSynced bool
	// UntilClosed ends a run after SYNCED, as soon as the server has ended a watch. With several namespaces, one
	// watch is enough. If the server ends it with an error, the run yields that error. A 410 is a gap instead, and
	// does not end the run.
	UntilClosed bool

	// What is remembered.

	// Checkpoint stores which events were acked ([Event.Ack]), so that the next run of this or a later process
	// resumes from there; Start applies only to the first run. With UntilSynced, a run that resumes delivers what
	// differs from what was acked, then SYNCED. Select must be the same each time; another Select
	// needs another CheckpointKey. Nil means no checkpoint.
	Checkpoint *checkpoint.Tracker
	// CheckpointKey is the key of the checkpoint: 1 to 200 letters, digits, '-', '_' or '.'. Empty means the resource
	// and its group ("deployments.apps"), whatever the version. Two Streams of one resource with the same Tracker need
	// different keys.
	CheckpointKey string
	// NoIndex keeps no index of the delivered objects (70 bytes each). Then every GAP has HistoryLost: everything that
	// exists follows as ADDED again, and deletions during the gap are not reported. Replayed events are recognized by
	// resourceVersion alone, so initial events that the server repeats are delivered twice.
	NoIndex bool
	// FailOnGap ends a run with a [*GapError] where it would otherwise deliver GAP. With a Checkpoint each later run
	// ends in the same way, until the key is removed from the Store.
	FailOnGap bool

	// How the Stream makes its requests.

	// PagedLists reads each snapshot in pages of PageSize objects. By default the first snapshot is read as initial
	// events of the watch (a streaming list, KEP-3157), which costs the server far less memory. If the server has no
	// streaming lists, it is read in pages. So is a snapshot after a gap or from a position, unless lists are
	// forbidden.
	PagedLists bool
	// PageSize is the number of objects on a page. Zero means 500. All objects of a page are in memory at once and,
	// with a client of [NewClient], those of the next page too. Such a client limits the size of a page, and the Stream
	// then requests fewer objects. With a Checkpoint, one commit writes ahead the new objects of up to PageSize initial
	// events of a streaming list, or of 16 MiB of memory.
	PageSize int
	// Timeout is how long a watch lasts until the server ends it (timeoutSeconds), in whole seconds. Zero means a
	// random time from 5 to 10 minutes, so that many watches do not end at once; otherwise at least 1 second.
	Timeout time.Duration
	// IdleTimeout is how long a watch may be silent before it counts as dead and is replaced. Zero means 90 seconds (a
	// kube-apiserver sends a bookmark every minute); otherwise at least 1 second. A client of [NewClient] then opens
	// new connections for all later requests, unless its config has a Transport.
	IdleTimeout time.Duration
	// GiveUpAfter limits the time spent on failed requests, and on the waits between them, since a watch last was
	// healthy. After that the run ends with a [*GaveUpError]. Zero means no limit.
	GiveUpAfter time.Duration

	// What the Stream reports.

	// Trace receives callbacks. Nil disables it.
	Trace *Trace
	// Logger receives failures and retries (Warn), recoveries (Info), and every request (Debug). Nil disables logging.
	Logger *slog.Logger
}

// ObjectsMode is how much of each object an Event has.
type ObjectsMode int

const (
	// Full objects are decoded into Event.Object.
	Full ObjectsMode = iota
	// Raw objects are in Event.JSON, as the server sent them, and Event.Object is nil. [Event.Meta] decodes as much of
	// the metadata as it is asked for, and [Event.Decode] the object. An object in a list gets the apiVersion and kind
	// that a server leaves out there. [ClientOptions.DropManagedFields] removes managedFields.
	//
	// With a client of [NewClient] this is several times faster than Full. Only the brackets, apiVersion, kind, name,
	// namespace, uid and resourceVersion are checked then. JSON that is invalid in the rest is delivered: Event.Decode
	// returns the error, and Event.Meta has no labels. JSON that differs from a kube-apiserver's, as with another
	// client, is decoded and encoded again.
	Raw
	// Metadata delivers apiVersion, kind, and metadata without managedFields, in Event.Object. With a client of
	// [NewClient] the server sends no more than metadata (PartialObjectMetadata), as protobuf if it can. If the Kind of
	// the Resource is empty, apiVersion and kind are then those of PartialObjectMetadata.
	Metadata
)

// Meta gives read access to the metadata of an object. It is not for concurrent use: it may decode when it is asked.
type Meta interface {
	GetNamespace() string
	GetName() string
	GetUID() types.UID
	GetResourceVersion() string
	GetGeneration() int64
	GetCreationTimestamp() metav1.Time
	GetDeletionTimestamp() *metav1.Time
	GetLabels() map[string]string
	GetAnnotations() map[string]string
	GetFinalizers() []string
	GetOwnerReferences() []metav1.OwnerReference
}

const (
	defaultIdleTimeout = 90 * time.Second
	defaultPageSize    = 500
	minWatch, maxWatch = 5 * time.Minute, 10 * time.Minute
)

// rules returns the rules of the protocol for a run that begins at from.
func (o *Options) rules(from Start, fake, noInitialEvents bool) protocol.Rules {
	streamed := !o.PagedLists && !fake
	return protocol.Rules{
		FailOnGap:         o.FailOnGap,
		NoIndex:           o.NoIndex,
		Quiet:             from.kind == startNow,
		Partial:           (from.kind == startAfter || from.position.Partial) && !o.NoIndex,
		Unclean:           from.position.Unclean,
		UntilClosed:       o.UntilClosed,
		UntilSynced:       o.UntilSynced,
		WantInitialEvents: streamed,
		InitialEvents:     streamed && !noInitialEvents,
		NoProbe:           fake,
	}
}

// Start is where a run begins. The zero Start is [Snapshot].
type Start struct {
	kind     startKind
	version  string
	position checkpoint.Position
	snapshot bool // read a snapshot even if the position has a version
}

type startKind int

const (
	startSnapshot startKind = iota
	startNow
	startAfter
	startFrom
)

// beginsSynced reports whether the first event is SYNCED. It may be for a position, too.
func (s Start) beginsSynced() bool { return s.kind == startNow || s.kind == startAfter }

// Snapshot begins with everything that exists, as ADDED, then SYNCED.
func Snapshot() Start { return Start{} }

// IsSnapshot reports whether s is [Snapshot].
func (s Start) IsSnapshot() bool { return s.kind == startSnapshot }

// IsNow reports whether s is [Now].
func (s Start) IsNow() bool { return s.kind == startNow }

// Now begins with SYNCED. Existing objects are read, so that later changes and deletions can be reported, but they are
// not delivered.
func Now() Start { return Start{kind: startNow} }

// After begins with SYNCED, then the changes after a resourceVersion. The Stream does not know the objects that existed
// at that version:
//
//   - Their MODIFIED and DELETED are delivered as the server sends them.
//   - Their deletion during a gap is not reported (the GAP has HistoryLost).
//   - If their first change makes them stop matching [Options.Select], that is not reported.
//
// [From] avoids these losses.
func After(resourceVersion string) Start { return Start{kind: startAfter, version: resourceVersion} }

// From resumes where p was taken ([Stream.Position]): with the changes since then or, if the server no longer knows
// them, with GAP and the differences. A position from within a snapshot resumes with GAP ([GapRestarted]) and the
// differences or, with [Options.NoIndex], everything again.
func From(p checkpoint.Position) Start { return Start{kind: startFrom, position: p} }
