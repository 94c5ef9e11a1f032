// Peers runs the tests of those whose constructors ours replace: client-go's and kubectl's own tests, with our
// constructors in the place of theirs.
//
//	go run ./examples/checks/peers                  all suites
//	go run ./examples/checks/peers -suite watch     one of them
//	go run ./examples/checks/peers -suite watch -v  prints what tests print that fail, and keeps the temporary module
//
// It makes a temporary module with the versions of examples/go.mod, copies a suite's test files into it from the Go
// module cache, adds the shim of that suite (testdata), which defines the names that the tests use in terms of ours,
// builds them, and runs each top-level test in a process of its own. The Go module proxy has all that is needed, and
// nothing else is. Nothing of theirs is in this repository, and nothing of theirs is changed but what the edits in
// suites.go say.
//
// For each suite it prints how many tests ran and passed, and which differ, with the reasons that expected.txt gives.
// The exit status is 1 if a test fails that is not on the list, if one on the list passes or does not run, if a test
// of the files did not run at all, or if one passed that never called a constructor of ours.
//
// A test with subtests does not count, unless it fails while they all pass.
//
// # What does not run
//
// No suite of controller-runtime. The specs of pkg/cache, where cache.Options.NewInformer could be ours, need envtest:
// a kube-apiserver and etcd as programs, which no Go module has, and Pods, which examples/devserver does not serve.
// pkg/cache/internal tests one wrapper of a watch; pkg/source and pkg/internal/source get their events from a fake
// informer of the tests. There is nothing to put ours in the place of. checks/e2e runs a Manager with our source.
//
// Nor client-go's tests of its own stores, queues, reflector and requests: expected.txt names those it leaves out of
// the files that run.
package main
