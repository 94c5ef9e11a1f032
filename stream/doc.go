// Package stream watches one resource and tells what happens to its objects as
// one unbroken sequence of events, whatever happens to the connection.
//
// A Stream reads a snapshot, opens a watch, says SYNCED, and goes on with what the
// watch tells. When the watch ends it opens another at the last resourceVersion it
// saw. When what happened since then can't be told any more, it says GAP, reads
// another snapshot, tells only the differences to what it told before (deletions
// among them), and says SYNCED again.
//
// # What is promised
//
// Per Stream and per range over Events; package streamtest has each of these as
// a function that recorded sequences are held to.
//
//   - Ordered: live events come in the order of their resourceVersions.
//   - Unique: no object is told twice at the same version.
//   - Reliable: between two SYNCED nothing is missing.
//   - Never silent: where something can't be told, GAP comes first, then only
//     differences, then SYNCED.
//   - Every removal is told, by uid. An object that another one of its name has
//     replaced is told as DELETED before the other is told as ADDED.
//   - Failure is never deletion: errors of the server, refused rights, and lists
//     that break off or do not fit together tell no DELETED.
//   - Resumable: From goes on where Position was taken, also past the server's
//     history; with Options.Checkpoint, where the program had acked (see below).
//   - Acknowledged: a checkpoint never passes an event that was not acked.
//   - Durable: what is kept is the outcome of one commit, or an error.
//   - Never back in time: nothing is read at resourceVersion 0; a server whose
//     versions are lower than what was told is asked again, and if it insists it has
//     gone back in time, which is a GAP, and everything is told again.
//   - Bounded blindness: a connection that has died without being closed is noticed
//     within Options.IdleTimeout.
//   - Bounded effort: failures are tried again after random waits that grow up to
//     30 s, or as the server asks; no server can make it ask for more than about five
//     things a second for long, unless the client is not of NewClient and repeats
//     requests by itself (client-go does, ten times at once after "Retry-After: 0"). Of each object only its name, uid and resourceVersion
//     are kept, in some 70 bytes.
//   - Classified: Status says at any time what it is doing and, if something is
//     wrong, what, and when it is tried again.
//
// # Restarts
//
// With Options.Checkpoint and a Store in package checkpoint, Event.Ack says what has
// been handled, and the next range, of this program or of the next one, goes on from
// there: at least once, also after a kill, and also if the server no longer knows
// what happened since. Then GAP comes, and what is different from what was acked.
//
//	store, err := file.Open("positions.db")
//	cluster, err := stream.ClusterOf(ctx, config)
//	tracker, err := checkpoint.NewTracker(store, &checkpoint.Options{Cluster: cluster})
//	s, err := stream.New(client, resource, &stream.Options{Checkpoint: tracker})
//	for ev, err := range stream.Acked(s.Events(ctx)) {
//		...
//	}
//	err = tracker.Close()
//
// A new object gets an entry in the Store before it is delivered, so that its end is
// reported even if nobody had the time to ack it. So ADDED waits for a commit: those of
// a page for one, and those that a watch has sent meanwhile (up to 100) for one. The
// entry has no resourceVersion until the object is acked: the next run delivers the
// object as ADDED if it exists, and else an inferred DELETED without a resourceVersion,
// which may be of an object that was never delivered. See
// checkpoint.Options.NoWriteAhead, and what it costs.
//
// # What is not promised
//
// Every state an object went through across a GAP (only its last), any order
// between two Streams or two namespaces, a maximum delay, and exactly-once over
// two ranges: unless Options.Start or a Checkpoint says otherwise each range begins
// with everything that exists, as ADDED. While a Store can't be written, what is told
// is not known to it: see checkpoint.Status. That a server has gone back in time is
// not noticed after a restart if it is not before what was committed.
//
// All of this takes resourceVersions for what Kubernetes says they are: every
// change of a resource has a higher one than the changes before it, and so has
// every deletion, or the object's last one. Versions that are no numbers are
// trusted to come in order, and can't show that a server has gone back in time.
// Nor can numbers, once the server has passed them again: it must be asked in
// between, which is after every end of a watch that was not planned, and after
// IdleTimeout; and only who may list can ask.
//
// An event that can't be read is asked for three times, and then gone around with
// a GAP. A list that can't be read is tried again for as long as it takes.
//
// # Many of them
//
// Package mux merges Streams into one sequence, and follows what is served. Range
// is what it asks of them: where to begin, how many snapshots at a time, and which
// namespaces to watch while those change. Between the cluster and namespaces a range
// goes on from the index alone: GAP (GapScope), the differences, SYNCED.
//
// # Clients
//
// It runs on any dynamic.Interface. NewClient makes one from a rest.Config.
// client-go's dynamic fake, which neither versions its objects nor remembers
// deletions, is recognised and allowed for, unless it is wrapped in another type.
package stream
