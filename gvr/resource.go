package gvr

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Resource is a resource type as a server serves it. It never stands for a
// subresource. Its slices are not to be changed: values are shared.
type Resource struct {
	schema.GroupVersionResource

	Kind       string
	Singular   string   // may be empty on old servers
	ShortNames []string // such as "po"
	Categories []string // such as "all"
	Namespaced bool     // its objects live in namespaces
	Verbs      []string // such as "list", "watch"

	// StorageVersionHash is equal for resources that are one and the same in
	// storage. Servers tell it in legacy discovery only: it is empty where
	// aggregated discovery answered (k8s.io/api/apidiscovery/v2 has no such field).
	StorageVersionHash string
}

// ClusterWatch says whether the server allows a watch across the whole
// cluster: of all objects of a cluster-scoped resource, or of all namespaces.
// Whether the caller may do so is for the server's authorization to say.
func (r Resource) ClusterWatch() bool { return r.listWatch() }

// NamespacedWatch says whether the server allows a watch inside one namespace.
func (r Resource) NamespacedWatch() bool { return r.Namespaced && r.listWatch() }

// A watch without a list can't say what exists when it starts, nor find what
// it missed; a list without a watch tells nothing afterwards.
func (r Resource) listWatch() bool {
	return slices.Contains(r.Verbs, "list") && slices.Contains(r.Verbs, "watch")
}

// GroupVersionKind is the kind of the resource's objects, in the resource's
// own group and version.
func (r Resource) GroupVersionKind() schema.GroupVersionKind {
	return r.GroupVersion().WithKind(r.Kind)
}

// Ref names exactly this resource.
func (r Resource) Ref() Ref {
	return Ref{Group: r.Group, Version: r.Version, Name: r.Resource}
}

// String names the resource as Ref does: "deployments.v1.apps", "pods.v1".
func (r Resource) String() string { return r.Ref().String() }
