// Command manager is a manager of controller-runtime that reconciles the metadata of all Secrets of a cluster, in one
// of two ways: with a controller.Source on a Stream, which keeps no objects, or with the cache of controller-runtime.
// It prints how many Secrets it has reconciled and the memory that this took, and then each Secret that changes.
//
//	go run ./examples/manager -with stream -server https://... -until 5000
//	go run ./examples/manager -with cache
//
// Without -server it uses the current kubeconfig.
//
//	go run ./examples/manager -measure
//
// starts a server with 100,000 Secrets and both ways, each in a process of its own, and prints the peak of the resident
// memory (VmHWM), the resident memory at the end, and the live heap. Neither sets GOGC or GOMEMLIMIT; the environment
// may. -read makes each reconcile read the metadata: with the cache from there, with the stream from the server.
package main
