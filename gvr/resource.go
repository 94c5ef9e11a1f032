package gvr

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Resource describes a resource type as a server serves it, never a
// subresource. Do not modify its slices: copies of a Resource share them.
//
// Package discovery fills in all fields. A Resource that a program makes itself
// needs only a version and a plural to be watched:
//
//   - Without Verbs, list and watch are assumed.
//   - Without Namespaced, all objects can be watched, also those in namespaces,
//     but not those of chosen namespaces.
//   - Without Kind, objects of which only metadata is known (those of an inferred
//     DELETED, and of stream.Metadata) lack it, and a list whose kind
//     does not end in "List" is refused.
type Resource struct {
	schema.GroupVersionResource

	Kind       string
	Singular   string   // may be empty on old servers
	ShortNames []string // such as "po"
	Categories []string // such as "all"
	Namespaced bool     // whether its objects live in namespaces
	Verbs      []string // such as "list", "watch"; if empty, both are assumed

	// StorageVersionHash is equal for resources that share their storage, such as the same type in two groups. Only
	// legacy discovery reports it: it is empty where the server serves aggregated discovery, because
	// k8s.io/api/apidiscovery/v2 has no such field.
	StorageVersionHash string
}

// ClusterWatch reports whether the server supports a cluster-wide list and watch: of all objects of a cluster-scoped
// resource, or of all namespaces. It says nothing about the caller's permissions.
//
// Both verbs are required: only a list reports what exists at the start and what a
// gap hid, and only a watch reports what happens afterwards.
func (r Resource) ClusterWatch() bool {
	return len(r.Verbs) == 0 || slices.Contains(r.Verbs, "list") && slices.Contains(r.Verbs, "watch")
}

// NamespacedWatch reports whether the server supports a list and watch of a
// single namespace. It says nothing about the caller's permissions.
func (r Resource) NamespacedWatch() bool { return r.Namespaced && r.ClusterWatch() }

// GroupVersionKind returns the kind of the resource's objects in the resource's own group and version.
func (r Resource) GroupVersionKind() schema.GroupVersionKind {
	return r.GroupVersion().WithKind(r.Kind)
}

// Ref returns the [Ref] that names exactly this resource.
func (r Resource) Ref() Ref {
	return Ref{Group: r.Group, Version: r.Version, Name: r.Resource}
}

// String returns the spelling of [Resource.Ref]: "deployments.v1.apps", "pods.v1".
func (r Resource) String() string { return r.Ref().String() }
