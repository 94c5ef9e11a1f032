// Package explore walks through every state that a small model can reach, where random tests sample: breadth first, so
// that a broken promise is found by the fewest steps that break it. [Walk] is the walk.
//
// The model of the protocol is a world: a server that does what servers do (server.go, moves.go, watches.go), a session
// that does what a Stream does with package protocol and package index (session.go, carrier.go), and a receiver of its
// events, which streamtest.Check judges. setups.go says what may happen in each walk.
package explore
