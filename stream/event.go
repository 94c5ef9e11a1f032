package stream

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gvrwatch/gvrwatch/gvr"
)

// Type says what an Event tells. ADDED, MODIFIED and DELETED are those of the
// Kubernetes watch, from the point of view of this sequence: ADDED is an object
// it has not told of before, or not since it told DELETED.
type Type string

const (
	Added    Type = "ADDED"
	Modified Type = "MODIFIED"
	// Deleted is an object that no longer exists or no longer matches the selectors.
	Deleted Type = "DELETED"
	// Synced follows a list, once a watch is open: everything that existed at
	// ResourceVersion has been told, and what changes from there on will be.
	Synced Type = "SYNCED"
	// Gap says that the server can't tell what happened since Gap.From. Only the
	// differences to what was told before follow, then SYNCED.
	Gap Type = "GAP"
)

// Event is one step of the sequence.
type Event struct {
	Type     Type
	Resource gvr.Resource
	// Object is nil for SYNCED and GAP. It is the receiver's own to keep and change.
	Object *unstructured.Unstructured
	// ResourceVersion is the object's, or the list's for SYNCED. It is empty for
	// GAP, and where the server gave none (client-go's fakes).
	ResourceVersion string
	// Inferred says that it was found by comparing with what was told before, not
	// told by an event of the server: what differs in a list after a GAP, or the end
	// of an object that another one of the same name has replaced. The Object
	// of an inferred DELETED holds only apiVersion, kind, and of its metadata
	// namespace, name, uid and the last resourceVersion that was told.
	Inferred bool
	// Gap is nil but for GAP.
	Gap *GapDetails
}

// GapDetails says why and from where a sequence has a gap.
type GapDetails struct {
	Reason GapReason
	From   string // the resourceVersion up to which everything has been told
}

// GapReason is why the server can't tell what happened since a resourceVersion.
type GapReason string

const (
	// GapExpired: the server answered 410, or kept closing watches at that
	// version without a word (kubernetes/kubernetes#104171).
	GapExpired GapReason = "expired"
	// GapUnversioned: the watch ended and its events bore no resourceVersion to go
	// on from, as those of client-go's fakes, or one that can't follow the last.
	GapUnversioned GapReason = "unversioned"
)
