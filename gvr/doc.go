// Package gvr defines the two names of a Kubernetes resource type: [Ref], as
// people type it ("po", "Deployment", "deployments.apps"), and [Resource], as a
// server serves it (group, version, plural, kind, scope, verbs). Begin with [ParseRef].
//
// The package does no I/O and knows no server: [ParseRef] checks the spelling of a name, not whether such a type
// exists. Package discovery resolves a Ref to a Resource. Both types are plain values; a [Ref] is comparable.
//
// The only error type is [*ParseError].
package gvr
