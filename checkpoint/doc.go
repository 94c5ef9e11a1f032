// Package checkpoint keeps how far sequences of events have been handled, so that
// a program can be killed at any instruction, start again, and go on without a
// loss: also if it was away for longer than the server's history reaches.
//
// A Tracker belongs to a Store. Streams that are given it (stream.Options.Checkpoint)
// mark their events; Event.Ack, in any order and from any goroutine, says that one
// has been handled. What is kept follows the events that were acked, never one
// that was not:
//
//   - The position moves over contiguous acks only. A bookmark moves it once
//     everything before it is acked, so that it moves where nothing happens, too.
//   - It stands at no version while the low-water mark is within a snapshot: the
//     objects of it that were acked are kept, in whatever order they were, and the
//     next run delivers the rest.
//   - With it there is one entry for every object, by uid: its namespace, its name, and
//     the resourceVersion that was acked last, so that after an expired version the
//     next run delivers the differences, deletions among them.
//
// Events that are never acked take memory for as long as the sequence goes on: watch
// Status. While commits fail, what is to be committed is kept, once for each object.
//
// The entry of a new object is written to the Store before the object is delivered
// (Progress.Ahead), without a resourceVersion. So its end is reported, even if its ack
// was not committed and the server has forgotten that it ever was.
//
// Acks are committed to the store in batches. What was acked after the last
// commit comes again in the next run: delivery is at least once. A commit that
// fails is tried again, shown by Status, and ends nothing.
//
// What is kept is bound to an Identity: cluster, resource, namespaces, selectors.
// Going on with another one is refused with a *MismatchError.
//
// The stores are in packages file (a file) and configmap (a ConfigMap of the
// cluster); Memory is for tests. This package imports no Kubernetes client.
package checkpoint
