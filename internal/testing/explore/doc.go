// Package explore walks through every state that a small model can reach, where random tests sample: breadth first, so
// that a broken promise is found by the fewest steps that break it. [Walk] is the walk.
package explore
