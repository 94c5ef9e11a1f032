package checkpoint

import (
	"cmp"

	"k8s.io/apimachinery/pkg/types"
)

// Position is how far a sequence has been told. It is a plain value: whoever
// keeps it decides how.
type Position struct {
	// ResourceVersions holds, for each namespace that is watched ("" for the whole
	// cluster), the version up to which everything has been told. One that is
	// missing was within a snapshot: it goes on with the rest of that. Of a sequence
	// that moves between scopes (Identity.Moves) they are Versions: what "" says is of
	// all namespaces that are missing, and one within a snapshot is empty.
	ResourceVersions map[string]string
	// Objects are those that have been told, or are known not to be wanted.
	Objects []Object
	// Partial: there may be more objects, of which nothing has been told: the sequence
	// began after a version, or kept no index.
	Partial bool
	// Rewound: the server has gone back in time since, which has not been told and
	// acked to its end: ResourceVersions and Objects may be of times that are no more.
	Rewound bool
	// Unclean: more may have been told than this says (see Options.NoWriteAhead).
	Unclean bool
}

// Object is what is known of one.
type Object struct {
	Namespace, Name string
	UID             types.UID
	// ResourceVersion that was told last.
	ResourceVersion string
	// Hidden: it exists, but was not wanted (stream.Options.Select).
	Hidden bool
	// Unacked: it was about to be told as ADDED, and nobody said that it was handled.
	// If it is gone its end must be told, in case it was. There may be several of a
	// name, besides one that is not Unacked.
	Unacked bool
}

// ID tells an object from others of its name.
type ID struct {
	types.NamespacedName
	UID types.UID
}

// ID returns the object's.
func (o Object) ID() ID { return ID{o.NamespacedName(), o.UID} }

// NamespacedName is where the object is.
func (o Object) NamespacedName() types.NamespacedName {
	return types.NamespacedName{Namespace: o.Namespace, Name: o.Name}
}

func (o Object) compare(other Object) int {
	return cmp.Or(cmp.Compare(o.Namespace, other.Namespace), cmp.Compare(o.Name, other.Name), cmp.Compare(o.UID, other.UID))
}
