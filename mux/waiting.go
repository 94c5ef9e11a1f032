package mux

// waiting are sources that have something queued, in the order of their turns. One
// that has been purged may be among them.
type waiting struct {
	sources  []*source // its capacity is used round and round
	first, n int
}

func (w *waiting) push(s *source) {
	if w.n == len(w.sources) {
		more := make([]*source, max(8, 2*w.n))
		n := copy(more, w.sources[w.first:])
		copy(more[n:], w.sources[:w.first])
		w.sources, w.first = more, 0
	}
	w.sources[(w.first+w.n)%len(w.sources)] = s
	w.n++
	s.waits = true
}

func (w *waiting) pop() *source {
	s := w.sources[w.first]
	w.sources[w.first] = nil
	w.first = (w.first + 1) % len(w.sources)
	w.n--
	s.waits = false
	return s
}
