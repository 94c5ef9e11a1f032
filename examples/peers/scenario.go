package main

import "time"

// scenario is what a server does for one measurement.
type scenario struct {
	Objects int  // number of existing objects
	Size    size // of each object
	// Events is the number of events. Each is MODIFIED, of one object after the other; they come once the peer has
	// requested the start.
	Events int
	// Rate is the number of events in a second, each stamped with its send time, until Length is over. Zero means
	// that Events of them come as fast as the peer reads.
	Rate   int
	Length time.Duration
}

const (
	// firstVersion is the resourceVersion of the list: the versions of objects are lower, those of events are higher.
	firstVersion = 500_000_000
	// templates is the number of different objects. Further ones are copies with their own name, uid, address and
	// container ID.
	templates = 1000
)

// lastVersion is the resourceVersion of the last event. The bookmark after it has the next version.
func (s scenario) lastVersion() int { return firstVersion + s.Events }
