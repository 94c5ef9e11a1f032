package stream

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/internal/client/decode"
	"github.com/gvrwatch/gvrwatch/internal/friend"
	"github.com/gvrwatch/gvrwatch/internal/guard"
	"github.com/gvrwatch/gvrwatch/internal/host"
	"github.com/gvrwatch/gvrwatch/internal/invalid"
	"github.com/gvrwatch/gvrwatch/internal/typed"
)

// Type is the type of an [Event]. ADDED, MODIFIED and DELETED have the meaning that they have in a Kubernetes
// watch, but relative to what this sequence has delivered: ADDED is an object that was not delivered before, or not
// since its DELETED.
type Type string

const (
	Added    Type = "ADDED"
	Modified Type = "MODIFIED"
	// Deleted is an object that no longer exists, or no longer matches the selectors or [Options.Select].
	Deleted Type = "DELETED"
	// Bookmark reports that everything up to ResourceVersion has been delivered. It requires [Run].Bookmarks.
	Bookmark Type = "BOOKMARK"
	// Synced follows a snapshot, once a watch is open: everything that existed at ResourceVersion has been delivered,
	// and later changes will be. A run that resumes delivers it at once: see [From].
	Synced Type = "SYNCED"
	// Gap reports that events since Gap.From are lost. Only the differences from what was delivered before follow, then
	// SYNCED.
	Gap Type = "GAP"
)

// Event is one step of the sequence. Only ADDED, MODIFIED and DELETED have an object, in Object or, with [Raw], in
// JSON. [Event.Meta] and [Event.Decode] work with both. In a Mux, mux.SourceOf names the source of an event.
type Event struct {
	Type     Type
	Resource gvr.Resource
	// Namespace is the namespace of the list or watch that the event comes from: one of [Options.Namespaces], or empty
	// if the whole cluster is watched. It is empty for the SYNCED of several namespaces.
	Namespace string
	// Object is nil for BOOKMARK, SYNCED and GAP, and with [Raw]. The receiver may keep and change it. Its strings are
	// parts of longer ones: to keep a few of them in memory and not the whole object, use strings.Clone.
	Object *unstructured.Unstructured
	// JSON is the object with [Raw], else nil. The receiver may keep and change it.
	JSON json.RawMessage
	// ResourceVersion is that of the object, of the snapshot for SYNCED, and of the server's bookmark for BOOKMARK. It
	// is empty for GAP, for the SYNCED of several namespaces, and if the server sent none (client-go's fakes).
	ResourceVersion string
	// Inferred means that the event comes from a comparison with what was delivered before, not from an event of the
	// server: a difference in a snapshot after a GAP or in that of a run which resumes [UntilSynced], or the removal of
	// an object that another one of the same name has replaced. The Object of an inferred DELETED has only apiVersion,
	// kind, namespace, name, uid and the last known resourceVersion (none if a checkpoint has an entry for the object,
	// but no ack).
	Inferred bool
	// Gap is set only when Type is Gap.
	Gap *GapDetails

	envelope host.Envelope // for Ack and package mux
}

// Equal reports whether two events are the same, whatever has been acked, and whether or not they come through a Mux.
// cmp.Diff of go-cmp uses it.
func (e Event) Equal(o Event) bool {
	e.envelope = host.Envelope{Coalesced: e.envelope.Coalesced}
	o.envelope = host.Envelope{Coalesced: o.envelope.Coalesced}
	return reflect.DeepEqual(e, o)
}

// Coalesced returns how many other events of its object the event stands for, in a Mux with mux.Latest.
func (e Event) Coalesced() int { return e.envelope.Coalesced }

// Envelope returns what packages of this module have attached to the event.
func (e *Event) Envelope(friend.Access) *host.Envelope { return &e.envelope }

// HasObject reports whether the event is about an object: ADDED, MODIFIED or DELETED.
func (e Event) HasObject() bool { return e.Object != nil || e.JSON != nil }

// NamespacedName returns the namespace and name of the object. It is zero if the event has no object.
func (e Event) NamespacedName() types.NamespacedName {
	m := e.Meta()
	return types.NamespacedName{Namespace: m.GetNamespace(), Name: m.GetName()}
}

// Meta returns the metadata of the object, which is empty if the event has no object. With [Raw] it decodes no more of
// the JSON than it is asked for, and is empty if that is invalid.
func (e Event) Meta() Meta {
	switch {
	case e.Object != nil:
		return e.Object
	case e.JSON != nil:
		return decode.NewMeta(e.JSON)
	}
	return &unstructured.Unstructured{}
}

// Decode returns Object or, with [Raw], a new object decoded from JSON. It returns an error if the JSON is invalid, or
// if the event has no object.
func (e Event) Decode() (*unstructured.Unstructured, error) {
	switch {
	case e.Object != nil:
		return e.Object, nil
	case e.JSON == nil:
		return nil, e.noObject()
	}
	o, err := decode.Decode(e.JSON)
	if err != nil {
		return nil, e.undecodable(err)
	}
	return o, nil
}

func (e Event) noObject() error {
	return fmt.Errorf("stream: an event of type %q has no object", e.Type)
}

func (e Event) undecodable(err error) error {
	return fmt.Errorf("stream: cannot decode an object of %s: %w", e.Resource, guard.Redact(err))
}

// As decodes the object of an event into a new value of type T, such as corev1.Pod or *corev1.Pod. Names of fields are
// case-sensitive, as in a kube-apiserver. Neither apiVersion nor kind are compared with those of T. With [Raw] it costs
// the least: it decodes JSON once. Otherwise it first encodes Object, as Options.Transform has left it.
//
// With [Metadata] T may be metav1.PartialObjectMetadata. A corev1.Pod then has its metadata, and an empty spec and
// status, without an error. So has that of an inferred DELETED, in which there is little more than a name.
//
// As returns an error if the event has no object, and if the object is invalid or does not fit the type. The error
// quotes nothing of the object, unless one of T's own UnmarshalJSON or UnmarshalText does. A panic of these is passed
// on.
func As[T any](ev Event) (value T, err error) {
	switch {
	case ev.Object != nil:
		value, err = typed.Convert[T](ev.Object)
	case ev.JSON != nil:
		value, err = typed.Decode[T](ev.JSON)
	default:
		return value, ev.noObject()
	}
	if err != nil {
		return value, ev.undecodable(err)
	}
	return value, nil
}

// String describes the event in one line: "ADDED name@7", "DELETED namespace/name@9 inferred", "SYNCED @12",
// "GAP expired 5..12 history lost". It leaves out the resource, and the uid and the content of the object. What a
// terminal would not print is escaped as in Go. The form may change.
func (e Event) String() string {
	var b strings.Builder
	b.WriteString(string(e.Type) + " ")
	n := e.NamespacedName()
	if n.Namespace != "" {
		b.WriteString(n.Namespace + "/")
	}
	b.WriteString(n.Name)
	if e.ResourceVersion != "" {
		b.WriteString("@" + e.ResourceVersion)
	}
	if g := e.Gap; g != nil {
		b.WriteString(string(g.Reason) + " " + g.From + ".." + g.To)
		if g.HistoryLost {
			b.WriteString(" history lost")
		}
	}
	if e.Inferred {
		b.WriteString(" inferred")
	}
	if e.envelope.Coalesced > 0 {
		b.WriteString(" coalesced " + strconv.Itoa(e.envelope.Coalesced))
	}
	if !e.HasObject() && e.Namespace != "" {
		b.WriteString(" in " + e.Namespace)
	}
	quoted := strconv.Quote(strings.Trim(b.String(), " "))
	return quoted[1 : len(quoted)-1]
}

// GapDetails describes a loss of events: why, since when and for how long.
type GapDetails struct {
	Reason GapReason
	// From is the resourceVersion up to which everything was delivered, or empty if there is none. To is that of the
	// snapshot whose differences follow. If that snapshot breaks off, another is read, and SYNCED has the version
	// of that one.
	From, To string
	// Duration is the time since the Stream last was up to date: at the last event, bookmark or SYNCED, or when a
	// healthy watch ended.
	Duration time.Duration
	// HistoryLost means that the caller may know objects that the Stream does not know. Removals of these are not
	// reported, and those that exist may be ADDED again. They existed at a start [After] a version, or an earlier run
	// delivered them and the checkpoint may lack them: after a kill with [checkpoint.Options].NoWriteAhead or while
	// commits failed, or with a Store that keeps no objects.
	HistoryLost bool
}

// GapReason is the reason for a GAP.
type GapReason string

const (
	// GapExpired: the server answered 410, or repeatedly closed a watch from the same version without sending anything
	// (kubernetes/kubernetes#104171, #137089).
	GapExpired GapReason = "expired"
	// GapRewound: the server has gone back in time, as when its etcd is restored from a backup: its versions are lower
	// than those delivered. The same version may now mean another state, so everything that exists follows, known
	// objects as MODIFIED.
	GapRewound GapReason = "rewound"
	// GapFuture: the server has not reached the version that the run starts [After]. The version may be made up, or of
	// another server, or the server may have gone back in time since: the Stream can't know. Everything that exists
	// follows.
	GapFuture GapReason = "future"
	// GapPoison: the server repeatedly sent an unreadable event at the same version, which was skipped. An ERROR event
	// without a Status is unreadable, too.
	GapPoison GapReason = "poison"
	// GapUnordered: the server does not keep the rules about resourceVersions, or skips events. The watch has sent an
	// unknown object, or a newer state of a known one, at or below a version that was delivered before; or a second
	// object of a name whose first one was not deleted; or what exists, although it was to begin at a version; or
	// nothing, although lists show changes; or the versions of lists sink a second time. What was missed is among the
	// differences. See [Unordered].
	GapUnordered GapReason = "unordered"
	// GapUnversioned: there is no version to resume at. The server's lists have none, or an event had none, or one that
	// was not a number although those before were, or the client is client-go's fake, which keeps no history.
	GapUnversioned GapReason = "unversioned"
	// GapRestarted: an earlier run delivered something, and this one reads a snapshot, because the position or the
	// checkpoint has no version to resume at: the run ended, or was killed, before the ack of SYNCED was committed.
	GapRestarted GapReason = "restarted"
	// GapScope: before the GAP, the resource was watched in other namespaces or across the cluster (package
	// mux/follow, when permissions change). The differences follow.
	GapScope GapReason = "scope"
)

// Ack marks the event as handled. Events of all types must be acked, in any order, from any goroutine; acking one again
// has no effect. Without a Checkpoint in its [Run] Ack does nothing.
func (e Event) Ack() { e.envelope.Mark.Ack() }

// ErrUnmet is returned by [Until] if the sequence ends without an error before the condition is met.
var ErrUnmet = errors.New("the sequence ended before the condition was met")

var errNoSequence = invalid.New("seq", "", "must not be nil")

// Until calls cond with each event of seq until it returns true, and returns that event. It returns the first error of
// cond or seq, [ErrUnmet], or an [*OptionsError] if seq or cond is nil.
//
// The sequence begins with everything that exists, so the caller need not get the object first. At SYNCED, objects that
// cond has not received do not exist:
//
//	// Wait until the object is deleted, or does not exist in the first place.
//	found := false
//	_, err := stream.Until(s.Events(ctx), func(ev stream.Event) (bool, error) {
//		switch ev.Type {
//		case stream.Added, stream.Modified:
//			found = true
//		case stream.Deleted:
//			found = false
//			return true, nil
//		}
//		return ev.Type == stream.Synced && !found, nil
//	})
func Until(seq iter.Seq2[Event, error], cond func(Event) (bool, error)) (Event, error) {
	switch {
	case cond == nil:
		return Event{}, invalid.New("cond", "", "must not be nil")
	case seq == nil:
		return Event{}, errNoSequence
	}
	for ev, err := range seq {
		if err != nil {
			return Event{}, err
		}
		if met, err := cond(ev); met || err != nil {
			return ev, err
		}
	}
	return Event{}, ErrUnmet
}

// Acked acks each event when the loop body ends. It does not ack an event at which the body leaves the loop, by break,
// return or panic. If seq is nil, the sequence is an [*OptionsError].
func Acked(seq iter.Seq2[Event, error]) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		if seq == nil {
			yield(Event{}, errNoSequence)
			return
		}
		for ev, err := range seq {
			if !yield(ev, err) {
				return
			}
			if err == nil {
				ev.Ack()
			}
		}
	}
}
