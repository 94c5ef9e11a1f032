// Package stream watches one resource and tells what happens to its objects as
// one unbroken sequence of events, whatever happens to the connection.
//
// A Stream lists, opens a watch, says SYNCED, and goes on with what the watch
// tells. When the watch ends it opens another at the last resourceVersion it
// saw. When the server no longer knows that version, it says GAP, lists again,
// tells only the differences to what it told before (deletions among them), and
// says SYNCED again.
//
// What is promised, per Stream and per range over Events:
//
//   - Between two SYNCED nothing is missing. Every removal is told.
//   - Live events come in the order of their resourceVersions, none of them twice.
//   - A failure is never taken for a deletion: errors of the server, refused
//     rights and lists that break off tell no DELETED.
//   - A detected break is never silent: GAP comes first.
//
// What is not promised: every state an object went through across a GAP (only
// its last), any order between two Streams, a maximum delay, and exactly-once
// over two ranges: each range begins with everything that exists, as ADDED.
//
// Nor is it promised to get past what the server sends but nobody can read: an
// event that can't be decoded is asked for again and again, with waits, and only
// the Logger hears of it.
//
// All of this takes resourceVersions for what Kubernetes says they are: every
// change of a resource has a higher one than the changes before it, and so has
// every deletion, or the object's last one. Versions that are no numbers are
// trusted to come in order.
//
// A connection that is dead without being closed is noticed when the server
// should have ended the watch: at most ten and a half minutes after it began.
//
// Of each object only its name, uid and resourceVersion are kept. It runs on
// any dynamic.Interface. client-go's dynamic fake, which neither versions its
// objects nor remembers deletions, is recognised and allowed for, unless it is
// wrapped in another type.
package stream
