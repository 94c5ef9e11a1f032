// Peers runs the tests of those whose constructors ours replace: client-go's, controller-runtime's and kubectl's own
// tests, with our constructors in the place of theirs.
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
// A test with subtests does not count, unless it fails while they all pass. A spec of Ginkgo counts as a subtest if it
// has made an informer of ours, or failed.
//
// The suites of the compact informer are built with the race detector, and client-go's detector of mutations is on.
//
// # controller-runtime
//
// The specs of pkg/cache need envtest: a kube-apiserver and etcd as programs, which no Go module has. The package
// envtest in testdata has examples/devserver instead, which serves custom resources only. The five core types of the
// specs are custom resources there, and a proxy shows them under /api/v1. Lists, watches, streamed lists, selectors,
// versions and discovery are the server's own. What a kube-apiserver does in addition is missing: protobuf (typed
// objects arrive as JSON), and defaults, validation and field selectors of these types. No spec asks for it.
//
// # What does not run
//
// The specs and tests of pkg/cache in which no informer is made: of its options, of what is refused before, of
// informer_cache_unit_test.go, and those with a fake informer. pkg/cache/internal tests one wrapper of a watch;
// pkg/source and pkg/internal/source get their events from a fake informer of the tests. There is nothing to put ours
// in the place of. checks/e2e runs a Manager with our source.
//
// Nor client-go's tests of its own stores, queues, typed handlers (whose informer is a fake), reflector and requests:
// expected.txt names those it leaves out of the files that run.
package main
