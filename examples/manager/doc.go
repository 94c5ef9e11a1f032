// Command manager is a manager of controller-runtime that reconciles the metadata of all Secrets of a cluster, in one
// of three ways: with a controller.Source on a Stream, which keeps no objects, with the cache of controller-runtime, or
// with the same cache on compact informers, which is one line of options. It prints how many Secrets it has reconciled
// and the memory that this took, and then each Secret that changes.
//
//	go run ./examples/manager -with stream -server https://... -until 5000
//	go run ./examples/manager -with cache
//	go run ./examples/manager -with compact
//
// Without -server it uses the current kubeconfig.
//
//	go run ./examples/manager -measure
//
// starts a server with 100,000 Secrets and all three ways, each in a process of its own, and prints what each keeps,
// the peak of the resident memory (VmHWM), the resident memory at the end, and the live heap. None sets GOGC or
// GOMEMLIMIT; the environment may. -read makes each reconcile read the metadata: with a cache from there, with the
// stream from the server. -whole makes the caches watch and keep whole Secrets, each with 1 KB of data, as a controller
// does that reads them; the stream still watches metadata, and -read then requests the whole Secret.
package main
