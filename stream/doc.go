// Package stream watches one resource and delivers what happens to its objects as one sequence of events. The sequence
// survives closed connections, expired versions and restarts of the server.
//
// To begin, get a Stream by name from gvrwatch.Connect, in the root of the module, and range over [Stream.Events]. Or
// make a Stream with [New], of a client from [NewClient] and a resource from package discovery.
//
// A [Stream] reads a snapshot, opens a watch, emits SYNCED, and delivers the events of the watch. When the watch ends,
// it opens another one at the last resourceVersion. If the server no longer knows what happened since then, the Stream
// reads another snapshot: it emits GAP, delivers only the differences from what it delivered before, including
// deletions, and emits SYNCED again.
//
// # Promises
//
// Each promise is about one run of one Stream (a loop over [Stream.Events]), unless it says otherwise.
//
//   - Ordered: the live events of a watch are delivered in the order of their resourceVersions.
//   - Unique: no two events have the same uid, resourceVersion and type, except after a GAP with HistoryLost,
//     GapRewound or GapUnordered. Across restarts with a checkpoint, delivery is at least once: events whose
//     acks were not committed may come again.
//   - Reliable: between two SYNCED no event is missing, unless a GAP reports the loss.
//   - Never silent: where events are lost, the Stream emits GAP, then only differences, then SYNCED. If it does not
//     know enough to find all differences, the GAP has HistoryLost: see [GapDetails].
//   - Every removal is reported, by uid. When a new object takes the name of an old one, DELETED of the old object
//     precedes ADDED of the new one.
//   - Failure is never deletion: server errors, refused requests, incomplete or inconsistent lists, and answers that
//     are no list of the resource cause no DELETED.
//   - Resumable: [From] resumes where [Stream.Position] was called, even if the server no longer has the history since
//     then.
//   - Acknowledged: a checkpoint never moves past an event that was not acked.
//   - Never back in time: the Stream reads nothing at resourceVersion 0. If two answers in a row have a version lower
//     than one that was delivered, the server has gone back in time: the Stream emits GAP, then everything again.
//   - Liveness: a connection that died without being closed is detected within [Requests].IdleTimeout, and a type
//     whose objects the server can't all send within three.
//   - Durable: a commit, even an interrupted one, leaves the old checkpoint or the new one, never a mixture. A
//     checkpoint that is corrupt or locked, or does not match the Stream, is refused with a typed error.
//   - Bounded: failed requests are retried after random waits that grow up to 30 s, or as the server asks, and all
//     Streams of a client together send at most 50 of them per second. The index takes about 70 bytes per object of a
//     kube-apiserver. No goroutine is left when the loop has ended.
//   - Classified: [Stream.Status] returns the current state and, if something failed, the cause and the next try.
//
// # Not promised
//
//   - Every state of an object across a GAP: only the last one is delivered.
//   - An order between two Streams or two namespaces, or a maximum delay.
//   - Exactly once across runs. The zero [Run] begins with everything that exists, as ADDED. While commits fail, the
//     checkpoint lacks what is delivered: see [checkpoint.Options].WaitForCommits.
//   - Detection of every server that went back in time. Once the server's versions have caught up, the rewind can no
//     longer be seen, so the Stream probes (lists one object) after each unplanned end of a watch and after
//     IdleTimeout. A caller that may not list cannot probe. After a restart, only a server that is behind the last
//     commit is detected.
//
// All promises assume what Kubernetes documents: each change and each deletion has a higher resourceVersion than all
// changes before it, and a watch at a version begins with the change after it. Where an answer shows that a server does
// not keep that (aggregated APIs, virtual clusters), the Stream reads a list and emits GAP ([GapUnordered],
// [GapUnversioned]): see [Unordered]. What no answer shows stays unknown until the next list. Versions that are not
// numbers are trusted to arrive in order, and never show that a server has gone back in time.
//
// An unreadable event is requested three times and then skipped; a GAP (GapPoison) marks the place. An unreadable list
// is retried until it can be read.
//
// # Runs
//
// [Options] say what a Stream watches, and a [Run] says how one loop goes: where it begins and ends, and what is
// remembered. [Stream.Events] is the zero Run, [Stream.With] the way to others:
//
//	for ev, err := range s.With(stream.Run{Until: stream.UntilSynced}).Events(ctx) {
//
// # Restarts
//
// With a Checkpoint in its Run, [Event.Ack] marks an event as handled. The next run, in this process or a later one,
// resumes from the acks, even after a kill. Delivery is at least once. If the server no longer knows what happened
// since, the run emits GAP and the differences from what was acked. Package checkpoint has the code.
//
// ADDED waits until the Store has an entry for the object ([checkpoint.Options.NoWriteAhead]). All objects of a page
// share one commit, and so do the new ones among up to 100 events of a watch that have already arrived. If the object
// was never acked, the next run delivers ADDED if it exists. Otherwise it delivers an inferred DELETED
// ([Event].Inferred) without a resourceVersion, even if the object was never delivered.
//
// # Many resources
//
// Package mux merges Streams into one sequence. Package mux/follow adds and removes them as the server's resources and
// the caller's permissions change.
//
// # Clients
//
// A Stream accepts any dynamic.Interface; [NewClient] returns one made for watching. The Stream recognizes
// client-go's dynamic fake, unless it is wrapped in another type, and copes with its lack of resourceVersions and
// history.
//
// On a fake the Stream lists, opens the watch, and only then delivers what was listed, so that it delivers whatever
// the loop body changes. What another goroutine deletes between the two requests is lost, and with client-go before
// 0.36 also what it creates or updates there: it has to wait for an event first or, with several namespaces, for
// SYNCED. The fake panics in whoever changes an object while 100 events of its watch are unread, as in a loop body
// that makes more than 100 changes.
//
// # Errors
//
// [New] returns a [*NotWatchableError] or an [*OptionsError]. A run ends with at most one error, which [Stream.Events]
// lists: a [*RequestError], a [*GapError], a [*GaveUpError], [ErrBusy], an error of the checkpoint, or the cause of its
// context. The Stream retries all other failures.
package stream
