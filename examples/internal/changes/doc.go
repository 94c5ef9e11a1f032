// Package changes finds what has changed in an object since its last event, and which field managers changed it, for
// the tool's -o diff and the demo. [Differ] keeps the last state of each object, compressed. [Compare] is the pure
// comparison of two states.
package changes
