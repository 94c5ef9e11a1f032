package acks

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gvrwatch/gvrwatch/checkpoint"
)

// differs returns the first difference as a *checkpoint.MismatchError without a key, or nil if a sequence of the wanted
// identity can resume from a checkpoint of the saved one.
func differs(wanted, saved checkpoint.Identity) *checkpoint.MismatchError {
	mismatch := func(field, saved, wanted string) *checkpoint.MismatchError {
		return &checkpoint.MismatchError{Field: field, Saved: saved, Wanted: wanted}
	}
	switch {
	case !sameCluster(wanted.Cluster, saved.Cluster):
		return mismatch("cluster", saved.Cluster.String(), wanted.Cluster.String())
	case !sameStorage(wanted, saved):
		return mismatch("resource", groupResource(saved), groupResource(wanted))
	case !slices.Equal(wanted.Namespaces, saved.Namespaces):
		return mismatch("namespaces", strings.Join(saved.Namespaces, ","), strings.Join(wanted.Namespaces, ","))
	case wanted.LabelSelector != saved.LabelSelector:
		return mismatch("label selector", saved.LabelSelector, wanted.LabelSelector)
	case wanted.FieldSelector != saved.FieldSelector:
		return mismatch("field selector", saved.FieldSelector, wanted.FieldSelector)
	case wanted.Shard != saved.Shard:
		return mismatch("shard", saved.Shard, wanted.Shard)
	}
	return nil
}

// sameCluster compares UIDs, and addresses if one of the UIDs is unknown.
func sameCluster(a, b checkpoint.Cluster) bool {
	if a.UID != "" && b.UID != "" {
		return a.UID == b.UID
	}
	return a.Address != "" && a.Address == b.Address
}

func sameStorage(a, b checkpoint.Identity) bool {
	return groupResource(a) == groupResource(b) ||
		a.StorageVersionHash != "" && a.StorageVersionHash == b.StorageVersionHash
}

func groupResource(i checkpoint.Identity) string {
	return schema.GroupResource{Group: i.Group, Resource: i.Resource}.String()
}
