package stream

import (
	"log/slog"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// Options say what a Stream watches, and how it makes its requests. A [Run] says how one loop goes. The zero value is
// the default.
type Options struct {
	// Namespaces to watch, each with a list and a watch of its own. None, or one empty name, means the whole cluster,
	// with one list and one watch. With several, events are ordered within each namespace, GAP and BOOKMARK concern one
	// namespace ([Event.Namespace]), and SYNCED is emitted when all namespaces are synced. After two GAPs of two
	// namespaces there may be one SYNCED or two.
	Namespaces []string
	// LabelSelector in the syntax of kubectl -l. Empty selects every object.
	LabelSelector string
	// FieldSelector in the syntax of kubectl --field-selector. Only the server knows which fields a resource supports.
	// Empty selects every object. [InvolvedObject] makes one that selects the Events about an object.
	FieldSelector string
	// Name selects one object. It is combined with FieldSelector.
	Name string
	// Select reports whether to select an object, after the server's selectors and in the same way: an object that
	// stops matching is DELETED, one that starts matching is ADDED. The result must depend on the argument alone, which
	// is valid until Select returns. With several namespaces it is called from several goroutines at once.
	//
	// With a client of [NewClient] it is called before the object of a watch is decoded, so that rejected objects cost
	// little; errors in the rest of a rejected object are then not detected. Nil selects every object.
	Select func(Meta) bool

	// Objects is how much of each object is delivered: [Full] (the default), [Raw] or [Metadata].
	Objects ObjectsMode
	// Transform may change an object just before it is delivered, for example to redact a field. The object of an
	// inferred DELETED has little more than a name. It requires decoded objects, so not [Raw]. Nil means no change.
	Transform func(*unstructured.Unstructured)

	// Requests says how the Stream makes its requests.
	Requests Requests
	// Trace receives callbacks. Nil disables it.
	Trace *Trace
	// Logger receives failures and retries (Warn), recoveries (Info), and every request (Debug). Nil disables logging.
	Logger *slog.Logger
}

// Requests say how a Stream makes its requests. The zero value is the default.
type Requests struct {
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
	// WatchLifetime is how long a watch lasts until the server ends it (timeoutSeconds), in whole seconds. Zero means a
	// random time from 5 to 10 minutes, so that many watches do not end at once; otherwise at least 1 second.
	WatchLifetime time.Duration
	// IdleTimeout is how long a watch may be silent before it counts as dead and is replaced. Zero means 90 seconds (a
	// kube-apiserver sends a bookmark every minute); otherwise at least 1 second. A client of [NewClient] then opens
	// new connections for all later requests, unless its config has a Transport.
	IdleTimeout time.Duration
	// GiveUpAfter limits the time spent on failed requests, and on the waits between them, since a watch last was
	// healthy. After that the run ends with a [*GaveUpError]. Zero means no limit.
	GiveUpAfter time.Duration
}

// ObjectsMode is how much of each object an Event has.
type ObjectsMode string

const (
	// Full objects are decoded into Event.Object.
	Full ObjectsMode = ""
	// Raw objects are in Event.JSON, as the server sent them, and Event.Object is nil. [Event.Meta] decodes as much of
	// the metadata as it is asked for, and [Event.Decode] the object. An object in a list gets the apiVersion and kind
	// that a server leaves out there. [ClientOptions.DropManagedFields] removes managedFields.
	//
	// With a client of [NewClient] this is several times faster than Full. Only apiVersion, kind, name, namespace, uid
	// and resourceVersion are checked then; of a key that is there twice, the first may count. JSON that is invalid in
	// the rest is delivered: Event.Decode returns the error, and Event.Meta has no labels. Its brackets may not match,
	// or something may follow the object, because the line end of an event also ends its object. Whoever writes the
	// JSON into another document must decode it first. JSON that differs from a kube-apiserver's, as with another
	// client, is decoded and encoded again.
	Raw ObjectsMode = "raw"
	// Metadata delivers apiVersion, kind, and metadata without managedFields, in Event.Object. With a client of
	// [NewClient] the server sends no more than metadata (PartialObjectMetadata), as protobuf if it can. If the Kind of
	// the Resource is empty, apiVersion and kind are then those of PartialObjectMetadata.
	Metadata ObjectsMode = "metadata"
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
)
