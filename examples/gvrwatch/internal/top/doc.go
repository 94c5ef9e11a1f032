// Package top is the live view of the tool: one line an object, redrawn in place. [Model] keeps the rows, how often
// each object changes, their order, the filter, and the last changes of the objects that changed last. [View] is what
// a user sees of a Model and does with keys; it draws on any grid of cells. [Live] runs a View in a terminal.
//
// Only [Live] uses a terminal, and starts goroutines; Model and View only ask for the time. The package watches
// nothing: the caller passes the events and the texts of their cells. All texts are escaped when they come in.
package top
