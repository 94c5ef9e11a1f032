// Package checkpoint keeps how far the events of Streams have been handled, so that a program that is killed at any
// instruction resumes without a loss, even if it was away for longer than the server's history reaches.
//
// [NewTracker] takes a [Store]: a file (package file), a ConfigMap (package configmap), or a [Memory] for tests.
// Streams with the Tracker in stream.Options.Checkpoint resume where they were acked. stream.Event.Ack, in any order
// and from any goroutine, says that an event has been handled. The Tracker commits acks in batches.
//
// # Promises
//
//   - A checkpoint never passes an event that is not acked. Its version moves over contiguous acks only, and over
//     bookmarks when everything before them is acked.
//   - Within a snapshot it has no version. It keeps the objects that were acked, in whatever order, and the next run
//     delivers the rest.
//   - It has an entry for each object: namespace, name, uid, and the last acked version. So after an expired version
//     the next run delivers the differences, deletions among them.
//   - A new object's entry is committed before the object is delivered, without a version. So the object's deletion is
//     reported even if its ack was never committed (see [Options].NoWriteAhead).
//   - A failed commit is repeated, and does not end the Stream. [Status] shows it.
//   - A checkpoint belongs to an [Identity]: cluster, resource, namespaces and selectors. Another Stream that wants to
//     resume from it gets a [*MismatchError].
//
// # Not promised
//
// Delivery is at least once: the next run delivers again what was acked after the last commit. Memory is not bounded
// while events stay unacked, or while commits fail: watch [Status].
package checkpoint
