// Package jetstream is the engine.Log and engine.Group of NATS JetStream, and an embedded NATS server.
//
// One stream has everything. Its subjects are
//
//	PREFIX.CLUSTER.GROUP.RESOURCE.NAMESPACE.UID         an event of an object
//	PREFIX.CLUSTER.GROUP.RESOURCE.NAMESPACE.=           GAP and SYNCED of a unit
//	PREFIX.CLUSTER.GROUP.RESOURCE.NAMESPACE.=skipped    what NATS can't take of a unit
//	PREFIX-position.CLUSTER.GROUP.RESOURCE.NAMESPACE    the position of a unit
//
// The core group is "core", and no namespace is "-". In the other tokens a dot is "_", and what is not a letter, a
// digit or "-" is "=" and two hexadecimal digits for each byte. The stream keeps the last Options.History messages of
// each subject, without a limit in time. So the last message of an object is there while the object exists. Expire
// purges the subjects of deleted objects. A TTL of their last message could not do that: when it ends, the message
// before is the last one.
//
// # Publish
//
// The messages and the positions are one atomic batch (ADR-50, server 2.12 and later), in which each position has
// Nats-Expected-Last-Subject-Sequence: the server accepts all of it, or nothing.
//
// Where the server or the stream has no atomic batches, the messages are published first, with their IDs as
// Nats-Msg-Id, and the positions after them. A relay that dies in between publishes these messages again, and the
// server drops them if that is within the stream's window for duplicates (2 minutes). An owner whose unit was taken,
// and that does not know it yet, may add messages to the log that its successor publishes, too.
//
// A message whose subject and headers have more than 4 KiB is refused before it is sent: NATS would end the connection
// for good.
//
// # Direct gets
//
// The stream has allow_direct: any server with a copy answers a request for the last message of a subject
// ($JS.API.DIRECT.GET.STREAM.SUBJECT), so that readers of single objects do not load the leader. Such an answer may be
// older than what was acknowledged. Log does not use it: it asks the leader ($JS.API.STREAM.MSG.GET.STREAM). A stream
// without allow_direct is used as it is.
//
// # The embedded server
//
// The embedded server has one process at a time, which holds the lock of its folder. Its address and token, which
// change with each start, are in a file there. Clients read it each time they connect, and send the token only while
// the lock is held. When the process ends, another one that shares the folder runs the server. A process that is
// stopped (SIGSTOP) keeps the lock. A server that can't write its files any more is started again every 5 s: NATS
// itself takes no messages after that, even when there is space again.
//
// The embedded server writes to files, and syncs them every 10 s: a crash of the machine may lose that much, a crash of
// the process nothing.
package jetstream
