// Package controller runs a reconcile loop without a cache. [Run] reads the events of a Stream or a Mux, queues their
// keys in client-go's workqueue, and calls a function with each key and its newest event. [Source] adds requests to the
// queue of a controller of controller-runtime instead.
//
//	reconcile := func(ctx context.Context, key controller.Key, ev stream.Event) (controller.Result, error) { ... }
//	err := controller.Run(ctx, gvrwatch.Watch(ctx, nil, "deploy", nil), reconcile, &controller.Options{Workers: 2})
//
// # Promises of Run
//
//   - Level-triggered: after the last event of a key, the key is reconciled with that event until it succeeds. Several
//     events of a key that wait become one reconcile with the newest.
//   - Ordered: no two reconciles of a key run at once, and none gets an older event than the one before.
//   - Acknowledged: an event is acked when a reconcile that began after it has succeeded, for each key that it leads
//     to. SYNCED, GAP, BOOKMARK and events that lead to no key are acked at once. With a checkpoint, the next run
//     delivers again what was not acked.
//   - Retried: errors and panics of a reconcile are retried as Options.RateLimiter says. Without a Logger, failures and
//     panics are silent.
//   - Bounded: Options.MaxPending keys wait with an event each; then the server waits. Keys that wait for
//     Result.RequeueAfter are not bounded, nor, with a checkpoint, is the memory of what was acked behind the oldest
//     event that is not.
//   - Across a gap only what differs is reconciled, because a Stream delivers only that.
//   - Run waits for its workers. The goroutine of the workqueue ends soon after.
//
// # Not promised
//
//   - A reconcile for each event. An object that is deleted and created again under its name has one key: its reconcile
//     may get ADDED with another uid and never the DELETED of the old one. A reconcile that must act on the end of an
//     object needs a finalizer, or compares the uid with that of what it has made.
//   - An order between keys, or that a reconcile runs only once for an event.
//   - Deletions after a GAP with HistoryLost, which Run and Source log.
//   - Progress while MaxPending keys fail. Events are taken in order: one that would repair a key waits behind an event
//     of another key.
//   - The last state of an object whose deletion is inferred: see [stream.Event].
package controller
