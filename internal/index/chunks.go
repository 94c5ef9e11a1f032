package index

// chunks is a list that grows without moving its items, in chunks of 1<<bits items. Only the first chunk moves, while
// it grows to that size.
type chunks[T any] struct {
	bits   uint32
	chunks [][]T
	len    uint32 // calls of append
}

// at returns the item at a place that append has returned.
func (c *chunks[T]) at(i uint32) *T { return &c.chunks[i>>c.bits][i&(1<<c.bits-1)] }

// from returns the items from such a place to the end of its chunk.
func (c *chunks[T]) from(i uint32) []T { return c.chunks[i>>c.bits][i&(1<<c.bits-1):] }

// fits reports whether the last chunk has room for n more items.
func (c *chunks[T]) fits(n int) bool {
	last := len(c.chunks) - 1
	return last >= 0 && len(c.chunks[last])+n <= 1<<c.bits
}

// append adds items to one chunk, and returns the place of the first.
func (c *chunks[T]) append(items ...T) uint32 {
	if !c.fits(len(items)) {
		var chunk []T
		if len(c.chunks) > 0 {
			chunk = make([]T, 0, 1<<c.bits)
		}
		c.chunks = append(c.chunks, chunk)
	}
	last := len(c.chunks) - 1
	place := uint32(last)<<c.bits | uint32(len(c.chunks[last]))
	c.chunks[last] = append(c.chunks[last], items...)
	c.len++
	return place
}
