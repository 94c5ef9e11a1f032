// Package acks turns acks into commits: it finds how far a sequence of events is acked without a hole (the low-water
// mark), and writes that to the Store of a checkpoint.Tracker.
//
// Package stream calls it for each run of a Stream: Begin returns a Session, which has a Progress for each namespace,
// which makes a Mark for each event. Package mux coalesces events through their marks. The engine of a Tracker gathers
// the changes of its sessions and commits them in batches.
//
// Nothing here delivers events or knows their contents.
package acks
