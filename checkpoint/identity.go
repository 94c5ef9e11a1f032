package checkpoint

import (
	"slices"
	"strings"
)

// Identity says what a checkpoint is of. A sequence may only go on from one of the
// same.
type Identity struct {
	Cluster Cluster `json:"cluster"`
	// Group and Resource, without the version: another version of the same objects
	// is no other sequence.
	Group    string `json:"group,omitempty"`
	Resource string `json:"resource"`
	// StorageVersionHash is empty where the server did not tell it. Resources that
	// have the same are one in storage, whatever their groups.
	StorageVersionHash string   `json:"storageVersionHash,omitempty"`
	Namespaces         []string `json:"namespaces,omitempty"` // sorted; none for the whole cluster
	// Moves says that it watches at any time what it can of the Namespaces: those of
	// At, which is not compared.
	Moves         bool     `json:"moves,omitempty"`
	At            []string `json:"-"`
	LabelSelector string   `json:"labelSelector,omitempty"`
	FieldSelector string   `json:"fieldSelector,omitempty"`
	// Objects says whether those that were told are kept.
	Objects bool `json:"objects"`
}

// Cluster says which cluster.
type Cluster struct {
	// UID is that of the namespace kube-system, empty if it could not be read.
	UID string `json:"uid,omitempty"`
	// Address is the server's URL and a hash of the certificates it is trusted by.
	// It counts where a UID is not known.
	Address string `json:"address,omitempty"`
}

// String is the UID, or the address where that is not known.
func (c Cluster) String() string {
	if c.UID != "" {
		return c.UID
	}
	return c.Address
}

func (c Cluster) isZero() bool { return c == Cluster{} }

// is says whether both are one cluster, as far as anyone can know.
func (c Cluster) is(other Cluster) bool {
	if c.UID != "" && other.UID != "" {
		return c.UID == other.UID
	}
	return c.Address != "" && c.Address == other.Address
}

// differs returns what is not the same, as a *MismatchError without a key, or nil.
func (i Identity) differs(saved Identity) *MismatchError {
	switch {
	case !i.Cluster.is(saved.Cluster):
		return &MismatchError{Field: "cluster", Saved: saved.Cluster.String(), Wanted: i.Cluster.String()}
	case !i.sameStorage(saved):
		return &MismatchError{Field: "resource", Saved: saved.groupResource(), Wanted: i.groupResource()}
	case !slices.Equal(i.Namespaces, saved.Namespaces):
		return &MismatchError{Field: "namespaces", Saved: strings.Join(saved.Namespaces, ","), Wanted: strings.Join(i.Namespaces, ",")}
	case saved.Moves && !i.Moves:
		return &MismatchError{Field: "scope", Saved: "whatever can be watched", Wanted: "a fixed one"}
	case i.LabelSelector != saved.LabelSelector:
		return &MismatchError{Field: "label selector", Saved: saved.LabelSelector, Wanted: i.LabelSelector}
	case i.FieldSelector != saved.FieldSelector:
		return &MismatchError{Field: "field selector", Saved: saved.FieldSelector, Wanted: i.FieldSelector}
	case i.Objects != saved.Objects:
		return &MismatchError{Field: "index", Saved: indexText(saved.Objects), Wanted: indexText(i.Objects)}
	}
	return nil
}

func (i Identity) sameStorage(other Identity) bool {
	return i.groupResource() == other.groupResource() ||
		i.StorageVersionHash != "" && i.StorageVersionHash == other.StorageVersionHash
}

func (i Identity) groupResource() string {
	if i.Group == "" {
		return i.Resource
	}
	return i.Resource + "." + i.Group
}

// watched are the namespaces that have a Progress.
func (i Identity) watched() []string {
	namespaces := i.Namespaces
	if i.Moves {
		namespaces = i.At
	}
	if len(namespaces) == 0 {
		return []string{""}
	}
	return namespaces
}

func indexText(objects bool) string {
	if objects {
		return "objects"
	}
	return "none"
}
