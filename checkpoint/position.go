package checkpoint

import (
	"cmp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// Position is how far a sequence has been told. It is a plain value: whoever
// keeps it decides how.
type Position struct {
	// ResourceVersions holds, for each namespace that is watched ("" for the whole
	// cluster), the version up to which everything has been delivered. One that is empty
	// or missing was within a snapshot, and goes on with the rest of that. That of the
	// cluster beside those of namespaces is from before they were watched one by one.
	ResourceVersions map[string]string
	// Objects are those that have been delivered.
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

// At returns the version at which a watch of a namespace, or of the cluster (""), goes on,
// empty for none. It has moved if there is none because others were watched since, or
// the namespace was watched as a part of the cluster.
func (p *Position) At(namespace string) (resourceVersion string, moved bool) {
	rv, here := p.ResourceVersions[namespace]
	_, cluster := p.ResourceVersions[""]
	if namespace == "" {
		moved = len(p.ResourceVersions) > 1 || len(p.ResourceVersions) == 1 && !cluster
	} else {
		moved = !here && cluster
	}
	if moved {
		return "", true
	}
	return rv, false
}

// Object is what is known of one.
type Object struct {
	Namespace, Name string
	UID             types.UID
	// ResourceVersion is the last one that was acked (without a checkpoint: delivered).
	// Empty means none yet: the object may have been delivered, and was never acked. If
	// it is there it is ADDED, and if it is gone DELETED.
	ResourceVersion string
}

// ID tells an object from others of its name, of which there may be several: some may
// be gone, and their end is not acked yet.
type ID struct {
	types.NamespacedName
	UID types.UID
}

func (id ID) object() Object { return Object{Namespace: id.Namespace, Name: id.Name, UID: id.UID} }

// ID returns the object's.
func (o Object) ID() ID { return ID{o.NamespacedName(), o.UID} }

// NamespacedName is where the object is.
func (o Object) NamespacedName() types.NamespacedName {
	return types.NamespacedName{Namespace: o.Namespace, Name: o.Name}
}

func (o Object) compare(other Object) int {
	return cmp.Or(cmp.Compare(o.Namespace, other.Namespace), cmp.Compare(o.Name, other.Name), cmp.Compare(o.UID, other.UID))
}

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
	LabelSelector      string   `json:"labelSelector,omitempty"`
	FieldSelector      string   `json:"fieldSelector,omitempty"`
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

func indexText(objects bool) string {
	if objects {
		return "objects"
	}
	return "none"
}
