// Package compact compares controller-runtime's cache with the same cache whose informers are those of
// informer.NewCompact. There is no program, only tests: each row of the table configures both caches in the same way,
// lets the same objects change, and compares what both return and what their handlers are called with.
//
//	go test ./examples/checks/compact   with the controller-runtime of examples/go.mod
//	.ci/hook                            with the two minor versions before, too, in temporary modules
//
// "The same" is equality.Semantic.DeepEqual, because JSON and protobuf lose the difference between nil and empty. The
// plain cache is what is right, except that what it returns with UnsafeDisableDeepCopy must not be changed: what the
// compact cache returns may always be.
//
// The server is streamtest's. A handler before it answers in protobuf what a client requests in protobuf: built-in
// types reach the typed clients as they do from a kube-apiserver.
package compact
