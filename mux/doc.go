// Package mux merges many watches into one sequence.
//
// A [Mux] has sources, each with a key: a *stream.Stream is one. Ranging over
// [Mux.Events] watches them all; each event says which source it is of
// (Event.Source). Sources can be added and removed at any time.
//
// # What is promised
//
//   - What a source tells is told in its order, and unless it was asked to be merged
//     ([Latest]) all of it: what package stream promises of a Stream holds for the
//     events of each source. A source that is tried again ([Retry]) goes on, if it is
//     a Stream, where it was.
//   - Sources take turns: from when an event of one begins to wait, each other one
//     is told at most once before it, however much it has to tell.
//   - After Remove has returned nothing of the source is told. (What the loop body is
//     handling, or just about to be given, counts as told.)
//   - One source that fails does not touch the others, unless Options.OnError says so,
//     which without an OnError it does.
//   - What waits is bounded: with [Block] by number and size, with [Latest] by the
//     number of objects.
//   - No goroutine is left when the loop has ended, however that was.
//
// # What is not promised
//
// Any order between sources; and with Latest the states that an object went through
// while the loop was busy, or that it ever was, if it came and went meanwhile.
package mux
