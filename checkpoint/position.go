package checkpoint

import (
	"cmp"

	"k8s.io/apimachinery/pkg/types"
)

// Position is a place in the events of a Stream, from which it can resume. It is a plain value and can be stored
// anywhere.
type Position struct {
	// ResourceVersions holds, for each watched namespace ("" is the whole cluster), the version up to which
	// everything was delivered (with a Tracker: acked). If a namespace's version is empty, the namespace was within a
	// snapshot, and resumes with a GAP and the differences. If it is missing, nothing was delivered, unless Objects
	// has objects of the namespace. If there are entries for namespaces, an entry for the cluster is from an earlier
	// time, before the Stream watched single namespaces.
	ResourceVersions map[string]string
	// Objects are the objects that exist, as far as they were delivered.
	Objects []Object
	// Partial means that Objects may lack some existing objects, because the Stream started after a version or the
	// Store keeps no objects.
	Partial bool
	// Rewound means that the server has gone back in time, and that the GAP and the snapshot which report it are not
	// yet acked. ResourceVersions and Objects may then be from a history that no longer exists.
	Rewound bool
	// Unclean means that more objects may have been delivered than Objects has: those that an earlier run delivered
	// after its last commit (see Options.NoWriteAhead), or while commits failed. Until a snapshot has been delivered,
	// each GAP of a run that resumes has HistoryLost.
	Unclean bool
}

// At returns the version at which a watch of a namespace, or of the cluster (""), resumes. It is empty if the position
// has none, or if scopeMoved is true: the Stream has watched single namespaces instead of the cluster, or the cluster
// instead of the namespace.
func (p *Position) At(namespace string) (resourceVersion string, scopeMoved bool) {
	rv, here := p.ResourceVersions[namespace]
	_, cluster := p.ResourceVersions[""]
	if namespace == "" {
		scopeMoved = len(p.ResourceVersions) > 1 || len(p.ResourceVersions) == 1 && !cluster
	} else {
		scopeMoved = !here && cluster
	}
	if scopeMoved {
		return "", true
	}
	return rv, false
}

// Object is the entry for one object. A name has several entries while the deletion of earlier objects of that name is
// not acked.
type Object struct {
	Namespace, Name string
	UID             types.UID
	// ResourceVersion is the last version that was acked (without a Tracker: delivered). It is empty if no version
	// was acked. Then it is unknown whether the object was delivered, and the next run reports the object as ADDED if
	// it exists, and otherwise as DELETED.
	ResourceVersion string
}

// NamespacedName returns the object's namespace and name.
func (o Object) NamespacedName() types.NamespacedName {
	return types.NamespacedName{Namespace: o.Namespace, Name: o.Name}
}

func (o Object) compare(other Object) int {
	return cmp.Or(
		cmp.Compare(o.Namespace, other.Namespace), cmp.Compare(o.Name, other.Name), cmp.Compare(o.UID, other.UID))
}

// Identity says which Stream a checkpoint belongs to. Only a Stream with a matching Identity can resume from it.
type Identity struct {
	Cluster Cluster `json:"cluster"`
	// Group and Resource come without the version, because every version has the same objects.
	Group    string `json:"group,omitempty"`
	Resource string `json:"resource"`
	// StorageVersionHash is empty if the server does not publish it. Two resources with the same hash have the same
	// objects, whatever their groups.
	StorageVersionHash string   `json:"storageVersionHash,omitempty"`
	Namespaces         []string `json:"namespaces,omitempty"` // sorted; none for the whole cluster
	LabelSelector      string   `json:"labelSelector,omitempty"`
	FieldSelector      string   `json:"fieldSelector,omitempty"`
	// Shard is reserved for Streams that watch one part of the objects that the other fields select. It is empty: each
	// Stream watches all of them.
	Shard string `json:"shard,omitempty"`
}

// Cluster identifies a cluster.
type Cluster struct {
	// UID is the uid of the namespace kube-system. It is empty if it could not be read.
	UID string `json:"uid,omitempty"`
	// Address is the server's URL and a hash of the certificates that the client trusts. It is compared if one of the
	// UIDs is unknown.
	Address string `json:"address,omitempty"`
}

// String returns the UID, or the Address if there is no UID.
func (c Cluster) String() string { return cmp.Or(c.UID, c.Address) }
