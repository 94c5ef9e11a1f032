// Package objects says what an object is to every package of this module, from the decoder to a Mux: an [ID], and in
// one of its states a [Version]. It holds no objects.
package objects

import (
	"cmp"

	"k8s.io/apimachinery/pkg/types"
)

// ID is the identity of an object. Two objects of one name that follow each other have different uids. An empty UID
// means identity by name: an object of a server that gives no uids (client-go's fake) may be any of its name.
type ID struct {
	Namespace, Name string
	UID             types.UID
}

// NamespacedName returns the namespace and the name.
func (id ID) NamespacedName() types.NamespacedName {
	return types.NamespacedName{Namespace: id.Namespace, Name: id.Name}
}

// SameUID reports whether two uids may be those of one object. The names must be the same, too.
func SameUID(a, b types.UID) bool { return a == b || a == "" || b == "" }

// Compare orders IDs by namespace, name and uid.
func (id ID) Compare(other ID) int {
	return cmp.Or(cmp.Compare(id.Namespace, other.Namespace), cmp.Compare(id.Name, other.Name),
		cmp.Compare(id.UID, other.UID))
}

// Version is an object in one of its states.
type Version struct {
	ID // embedded, because a Version is asked for the parts of its ID
	// ResourceVersion distinguishes the states of one object. It is empty if the state is not known.
	ResourceVersion string
}
