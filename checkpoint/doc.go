// Package checkpoint records how far a program has handled the events of Streams, so that a program that is killed at
// any instruction resumes without a loss, even if it was down for longer than the server keeps its history.
//
//	c, err := gvrwatch.Connect(nil) // what kubectl would use
//	store, err := file.Open("positions.db")
//	tracker, err := c.Tracker(ctx, store, nil)
//	defer tracker.Close() // commits the last acks
//	s, err := c.Stream(ctx, "deploy", nil)
//	for ev, err := range stream.Acked(s.With(stream.Run{Checkpoint: tracker}).Events(ctx)) {
//		if err != nil {
//			return err // it is the last value
//		}
//		fmt.Println(ev) // is acked when the loop asks for the next event
//	}
//
// Close the store after the tracker, unless the program ends. Without both, the last acks come again in the next run.
//
// [NewTracker] takes a [Store]: a file (package file), a ConfigMap (package configmap), a [Memory] for tests, or one of
// your own, of which Store has an example. A run with the Tracker in stream.Run.Checkpoint resumes after the events
// that were acked. stream.Event.Ack marks an event as handled, in any order and from any goroutine. The Tracker commits
// acks in batches.
//
// # Promises
//
//   - A checkpoint never moves past an event that is not acked. Its version advances past an event only when that
//     event and all events before it are acked, and past an undelivered bookmark only when all events before it are
//     acked.
//   - Within a snapshot it has no version. It keeps the objects that were acked, in whatever order, and the next run
//     begins with a GAP and delivers what differs from them.
//   - Once the SYNCED of a snapshot is acked, its version is committed before the Stream emits the next live event. So
//     the next run misses no change without a GAP, no matter when the program is killed.
//   - A checkpoint has an entry for each object: namespace, name, uid, and the last acked version. So after an expired
//     version the next run delivers the differences, deletions among them.
//   - Before the Stream delivers a new object, the Tracker commits an entry for it that has no version. So the
//     object's deletion is reported even if its ack was never committed (see [Options].NoWriteAhead).
//   - A failed commit is retried within 3 s, and does not end the Stream. [Status] shows it.
//   - While commits fail, new objects are delivered that the Store lacks. A Store that can be marked (package file) is
//     marked before: if the program is then killed, each GAP of the next run has HistoryLost. With
//     [Options].WaitForCommits they are not delivered until a commit succeeds.
//   - A checkpoint belongs to an [Identity]: cluster, resource, namespaces and selectors. Another Stream that wants to
//     resume from it gets a [*MismatchError].
//
// # Not promised
//
// Delivery is at least once: the next run delivers again what was acked after the last commit. Memory is not bounded
// while events stay unacked, or while commits fail: watch [Status].
package checkpoint
