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

// Options say what a Stream watches and how. The zero value is the default.
type Options struct {
	// Namespaces to watch in, each with a list and a watch of its own. Empty means
	// all of the cluster, with one. Where there are several, the order of events
	// holds within each, GAP and BOOKMARK are of one (Event.Namespace), and SYNCED
	// comes when all are.
	Namespaces []string

	// LabelSelector in the syntax of kubectl -l. Empty means every object.
	LabelSelector string
	// FieldSelector in the syntax of kubectl --field-selector. Which fields a
	// resource knows only its server can tell. Empty means every object.
	FieldSelector string
	// Name of the only object to watch. Empty means every object. It is added to the
	// FieldSelector.
	Name string
	// InvolvedObject confines a watch of events (v1 or events.k8s.io) to those about
	// an object; fields that are empty do not count. It is added to the
	// FieldSelector.
	InvolvedObject *corev1.ObjectReference
	// Select confines the sequence to the objects it returns true for. It works as
	// a selector does, after the server's: an object that no longer passes is told
	// as DELETED, one that passes again as ADDED. It must depend on nothing but its
	// argument, and is called from several goroutines at once where several
	// namespaces are watched. With a client of NewClient it is asked before the object
	// is decoded from a watch, so that what it does not want costs next to nothing
	// (DecodeWorkers are not used then); and what it is asked about is good only until
	// it returns. What is wrong with the rest of what it does not want (a syntax error, a
	// kind that lacks) is not found out then. Nil means every object.
	Select func(Meta) bool

	// Transform may change what is delivered (drop managedFields, redact a field),
	// just before it is: also the Object of an inferred DELETED, which has little
	// more than a name. Nil means no change.
	Transform func(*unstructured.Unstructured)
	// MetadataOnly delivers apiVersion, kind and metadata alone. If the client was
	// made by NewClient, no more is sent by the server (PartialObjectMetadata).
	MetadataOnly bool
	// Bookmarks tells BOOKMARK events. (They are asked of the server in any case.)
	Bookmarks bool

	// Start says where a range begins: Snapshot (the default), Now, After, or From.
	Start Start
	// End says when a range ends by itself: Never (the default), AtFirstClose or
	// WhenSynced.
	End End

	// Checkpoint keeps how far events have been acked (Event.Ack), so that a range,
	// of this program or the next, goes on from there; Start is only for the first.
	// With WhenSynced a range that goes on tells what is different from what was
	// acked, and SYNCED. What Select says should be the same each time: another
	// Select is another sequence, and wants another key. Nil means no checkpoint.
	Checkpoint *checkpoint.Tracker
	// CheckpointKey is what the checkpoint is kept under. Empty means the resource and
	// its group, "deployments.apps", whatever the version; another stream of the same
	// resource on the same Tracker needs another one.
	CheckpointKey string

	// OnExpired says what becomes of a gap: Heal (the default) or Fail.
	OnExpired OnExpired
	// Index says what is kept of the objects told: IndexObjects (the default) or
	// IndexNone.
	Index Index
	// InitialList says how a snapshot is read: ListStreamed (the default) or
	// ListPaged.
	InitialList InitialList
	// PageSize is how many objects a page may hold. Zero means 500. The objects of a
	// page are in memory all at once, and with a client of NewClient those of the next
	// one too, which is read while this one is told: so big ones want small pages.
	PageSize int

	// Timeout after which the server is asked to end each watch (timeoutSeconds), so
	// whole seconds. Zero means a random time between 5 and 10 minutes, so that many
	// watches do not come back all at once.
	Timeout time.Duration
	// IdleTimeout is how long a watch may be silent before it is taken for dead, and
	// another one is opened where it left off. Zero means 90 seconds: a
	// kube-apiserver sends a bookmark every minute.
	IdleTimeout time.Duration
	// GiveUpAfter is how long requests may fail, or go unanswered, before the last
	// failure becomes final (*GaveUpError): the time of requests that failed and of waits
	// adds up until a watch is well again. Zero means for ever.
	GiveUpAfter time.Duration

	// Trace is told of what happens. Nil means nobody is.
	Trace *Trace
	// Logger is told of failures and retries (Warn), of their end (Info), and of
	// every request (Debug). Nil means that nothing is logged.
	Logger *slog.Logger
}

// Meta is the metadata of an object, to look at.
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

// rules are what the protocol has to know of o, for a range that begins at from.
func (o *Options) rules(from Start, fake, noStreamedLists bool) protocol.Rules {
	return protocol.Rules{
		FailOnGap:    o.OnExpired == Fail,
		NoIndex:      o.Index == IndexNone,
		Quiet:        from.kind == startNow,
		Partial:      (from.kind == startAfter || from.position.Partial) && o.Index != IndexNone,
		Unclean:      from.position.Unclean,
		UntilClosed:  o.End == AtFirstClose,
		UntilSynced:  o.End == WhenSynced,
		WantStreamed: o.InitialList == ListStreamed && !fake,
		Streamed:     o.InitialList == ListStreamed && !fake && !noStreamedLists,
		NoProbe:      fake,
	}
}

// Start says where a range over Events begins. The zero Start is Snapshot.
type Start struct {
	kind     startKind
	version  string
	position checkpoint.Position
	snapshot bool // ... but with a snapshot in any case
}

type startKind int

const (
	startSnapshot startKind = iota
	startNow
	startAfter
	startFrom
)

// Snapshot begins with everything that exists, as ADDED, and SYNCED.
func Snapshot() Start { return Start{} }

// IsSnapshot says whether s is Snapshot, IsNow whether it is Now.
func (s Start) IsSnapshot() bool { return s.kind == startSnapshot }
func (s Start) IsNow() bool      { return s.kind == startNow }

// Now begins with SYNCED: what exists is read, so that its changes and its end
// can be told, but not told itself.
func Now() Start { return Start{kind: startNow} }

// After begins with SYNCED and what happened after a resourceVersion. Of objects
// that have not changed since then nothing is known: their MODIFIED and DELETED
// are told as the server tells them, and after a GAP (with HistoryLost) their end
// is not; nor is that of one that leaves Options.Select with its first change. From
// is the way to go on without that loss.
func After(resourceVersion string) Start { return Start{kind: startAfter, version: resourceVersion} }

// From goes on where p was taken (Stream.Position): with what happened after it,
// or if the server no longer knows that, with GAP and the differences. A position
// from within a snapshot goes on with the rest of the snapshot; without an index that
// is a GAP (GapRestarted), and everything once more.
func From(p checkpoint.Position) Start { return Start{kind: startFrom, position: p} }

// OnExpired says what becomes of a gap: what happened since a resourceVersion
// can't be told, because the server no longer knows it, has gone back in time, or
// sends what can't be read.
type OnExpired string

const (
	// Heal tells GAP, the differences, and SYNCED. It is the default.
	Heal OnExpired = "heal"
	// Fail ends the sequence with a *GapError.
	Fail OnExpired = "fail"
)

// End says when a sequence ends by itself, without an error.
type End string

const (
	// Never is the default: it takes ctx, Stop, a break, or a final error.
	Never End = "never"
	// AtFirstClose ends it when the server ends a watch (the first of several) that
	// had told SYNCED. If the server does so with an error, that is yielded; but a
	// 410 is a gap (OnExpired), and not the end.
	AtFirstClose End = "at first close"
	// WhenSynced ends it after the first SYNCED.
	WhenSynced End = "when synced"
)

// Index says what is kept of the objects that were told.
type Index string

const (
	// IndexObjects keeps name, uid and resourceVersion of each, some 70 bytes, so
	// that after a gap only the differences are told, deletions among them. It is
	// the default.
	IndexObjects Index = "objects"
	// IndexNone keeps nothing. After a GAP (with HistoryLost) everything that exists
	// is told again as ADDED, and what is gone is not told. Replays are recognised by
	// their resourceVersions alone, so that initial events which the server repeats
	// are told twice.
	IndexNone Index = "none"
)

// InitialList says how a snapshot is read.
type InitialList string

const (
	// ListStreamed asks for the snapshot as the initial events of the watch (a
	// streaming list, KEP-3157), which costs the server far less memory. A server
	// that turns out not to have them is asked for pages from then on. It is the
	// default. The snapshot after a gap is always read in pages, unless lists are
	// refused.
	ListStreamed InitialList = "streamed"
	// ListPaged asks for pages of Options.PageSize objects.
	ListPaged InitialList = "paged"
)
