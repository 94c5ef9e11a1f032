// Package objects says what an object is to every package of this module, from the decoder to a Mux: an [ID], and in
// one of its states a [Version]. It holds no objects.
package objects

import (
	"cmp"

	"k8s.io/apimachinery/pkg/types"
)

// ID is the identity of an object. Two objects of one name that follow each other have different uids. A server that
// gives no uids (client-go's fake) identifies an object by its name alone.
type ID struct {
	Namespace, Name string
	UID             types.UID
}

// NamespacedName returns the namespace and the name.
func (id ID) NamespacedName() types.NamespacedName {
	return types.NamespacedName{Namespace: id.Namespace, Name: id.Name}
}

// Compare orders IDs by namespace, name and uid.
func (id ID) Compare(other ID) int {
	return cmp.Or(cmp.Compare(id.Namespace, other.Namespace), cmp.Compare(id.Name, other.Name),
		cmp.Compare(id.UID, other.UID))
}

// Version is an object in one of its states.
type Version struct {
	ID
	// ResourceVersion distinguishes the states of one object. It is empty if the state is not known.
	ResourceVersion string
}
