// Package changes finds what has changed in an object since its last event, and which field managers changed it, for
// -o diff. [Differ] keeps the last state of each object, compressed. [Compare] is the pure comparison of two states.
package changes
