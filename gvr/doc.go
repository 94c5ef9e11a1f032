// Package gvr holds the two names of a Kubernetes resource type: Ref, as
// people type it ("po", "Deployment", "deployments.apps"), and Resource, as a
// server serves it (group, version, resource, kind, scope, verbs).
//
// The package does no I/O. A Ref becomes a Resource through package discovery.
package gvr
