// Package sequence makes one sequence of the lists and watches of a resource, in one namespace or across the cluster.
// Package stream makes its Events of this package's, and one sequence of those of several namespaces.
//
// A [Worker] has a protocol.State and five rooms:
//
//	requests   sends requests, and puts the objects that arrive into the inbox
//	inbox      has what arrived and is not decided
//	pacing     says when the next request may be sent, and when to give up
//	delivery   takes objects from the inbox, compares them with the index, and emits Events with their marks
//	report     has what Status and Position show; pacing, delivery and the Worker write it
//
// The inbox and the report are shared, and hold nothing of the other rooms. requests, pacing and delivery are given no
// value of each other. requests asks whether the index has a name, and whether events may wait, through functions.
//
// What all rooms mean by an object, and how one is received and copied, is in object.go.
//
// Nothing here decides which request follows an answer: that is package protocol.
package sequence
