// Package sequence makes one sequence of the lists and watches of a resource, in one namespace or across the cluster.
// Package stream makes Events of its [Step]s, and one sequence of those of several namespaces.
//
// A [Worker] has five rooms and a protocol.State. No room has a name by which it could reach into another one:
//
//	requests   sends requests, and puts the objects that arrive into the inbox
//	inbox      has what arrived and is not decided
//	pacing     says when the next request may be sent, and when to give up
//	delivery   takes objects from the inbox, compares them with the index, and emits Steps with their marks
//	report     has what Status and Position show
//
// Nothing here decides which request follows an answer: that is package protocol.
package sequence
