// Package acks turns acks into commits: it finds how far a sequence of events is acked without a hole (the low-water
// mark), and writes that to the Store of a checkpoint.Tracker.
//
// Package stream calls it for each run of a Stream: Begin returns a Session, which has a Progress for each namespace,
// which makes a Mark for each event. Package mux coalesces events through their marks. These three are doors to
//
//   - a ledger, which is what one Session knows. It only keeps books: it takes marks, passes and acks, gives out a
//     Delta when there is something to commit, and takes the outcome;
//   - the committer of the Tracker, which says when to commit, calls the Store, and retries.
//
// The committer sees of ledgers what an account has. A ledger does not know the committer: it calls a function when
// something is to be committed. Nothing here delivers events or knows their contents.
package acks
