package main

import "time"

// scenario is what a server does for one measurement: each has a path of its own.
type scenario struct {
	Objects int  // that exist
	Size    size // of each
	// Events, all MODIFIED, in turn of each object, that come once the peer has
	// asked for them.
	Events int
	// Rate is how many come in a second, each with the time it was sent, until
	// Length is over. Zero means as fast as they are read, and Events of them.
	Rate   int
	Length time.Duration
}

const (
	// firstVersion is the resourceVersion of the list: the objects have lower ones,
	// the events higher ones.
	firstVersion = 500_000_000
	// templates is how many objects are made one by one. More of them differ only in
	// what is theirs alone: name, uid, address, container ID.
	templates = 1000
)

// lastVersion is that of the last event of a flood. A bookmark follows it, with the
// version after that.
func (s scenario) lastVersion() int { return firstVersion + s.Events }
