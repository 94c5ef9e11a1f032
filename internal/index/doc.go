// Package index remembers which objects a sequence has delivered, each with the version that was delivered last, so
// that a snapshot can be reported as differences: what is new, what has changed, and what is gone.
//
// An [Index] has one entry for each uid, which it returns as an [objects.Version]. It does not keep the objects. The
// usual entry is packed into 32 bytes and its name, and holds no pointer that the garbage collector follows.
//
// Package sequence drives an Index from the events and snapshots of one namespace, or of the cluster. The package does
// no I/O and makes no events: it calls a function with each [Change].
package index
