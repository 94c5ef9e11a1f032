// Package protocol decides which request follows which answer, and which events
// they mean. It is a state machine: [Start] returns the first [State], and [Step]
// takes a State and an [Input] to the next State and its [Output]s.
//
// It does no I/O, reads no clock, starts no goroutine and sees no object, so that every
// rule can be tested as a row of a table. Package stream drives it: it does what
// the State asks for, gives the result to Step, and delivers the Outputs in order.
// States are values. Only this package changes them.
package protocol
