// Package factory has the informers of package informer behind client-go's interface of a factory of dynamic informers.
// It is a package of its own because that interface's package compiles the typed clients of all resources: package
// informer with all that it imports is less than half as large.
//
// What the informers promise, and what not, is in the documentation of package
// [github.com/gvrwatch/gvrwatch/stream/informer].
package factory
