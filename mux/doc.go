// Package mux merges many watches into one sequence.
//
// A [Mux] has sources, each with a key; a *stream.Stream is one. Each run over [Mux.Events] watches all of them.
// [SourceOf] names the source of an event. Sources can be added and removed at any time. Package mux does not choose
// what to watch; package mux/follow does, also in several clusters ([PrefixOf]). To begin, pass Streams to [New], and
// range over [Mux.Events].
//
// # Promises
//
//   - The events of a source keep their order, and all of them are delivered unless [Options].Overflow is [Latest].
//     All that package stream promises holds for the events of each Stream. A Stream that is restarted after an error
//     ([Retry]) resumes where it was, except after a GapError or a panic.
//   - Sources take turns: a source with waiting events delivers the next one after at most one event of every other
//     source.
//   - After Remove has returned, no event of the source is delivered, except the one that the loop is receiving.
//   - A source that fails does not affect the others if Options.OnError returns Drop or Retry. If it returns Fail,
//     panics, or is nil, the failure ends the run.
//   - The number and total size of the events that wait are bounded. With Latest only the number of objects bounds
//     them.
//   - No goroutine is left when the loop has ended.
//
// # Not promised
//
// There is no order between sources. With Latest, states that an object passed through while the loop was busy are not
// delivered, nor is an object that came and went meanwhile.
package mux
