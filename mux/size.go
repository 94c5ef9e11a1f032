package mux

import (
	"github.com/gvrwatch/gvrwatch/internal/jsonsize"
	"github.com/gvrwatch/gvrwatch/stream"
)

// controlSize is what an event without an object counts for, and the rest of one
// that has an object.
const controlSize = 100

// sizeOf is how many bytes an event would take as JSON, more or less.
func sizeOf(ev *stream.Event) int64 {
	size := int64(controlSize)
	if ev.Object != nil {
		size += jsonsize.Of(ev.Object.Object)
	}
	return size
}
