// Package protocol decides which request follows an answer, and which events to emit for it. It is a state machine:
// [Start] returns the first [State], and [Step] takes a State and an [Input] to the next State, with [Outputs].
//
// It does no I/O, reads no clock, starts no goroutine and sees no objects, so each rule is tested as a row of a table.
// Package sequence drives it: it does what the State asks for, passes the result to Step, and carries out the Outputs.
// States are values without pointers to anything that changes, and only this package makes one of another.
package protocol
