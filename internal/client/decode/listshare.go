package decode

import (
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// sharedItems decodes the items of a list in several goroutines: those of a WaitGroup, and that of the Lister, which
// only finds where items end while the others have enough to do.
type sharedItems struct {
	pool *sync.Pool // of Decoders
	most int        // goroutines
	size int        // of a run at least, except the last one, in bytes

	begin int        // of the next run
	next  []byte     // the next run so far
	runs  []*itemRun // in order

	waiting chan *itemRun // nil before the first run
	working sync.WaitGroup
	memory  atomic.Int64 // of all decoded items
	failed  atomic.Bool  // apimachinery has to decode the list
}

// itemRun is a sequence of items with commas between them, and the decoded items.
type itemRun struct {
	data  []byte
	items []unstructured.Unstructured
}

// Share makes a Lister decode items in n goroutines, with Decoders from a pool. Close ends the goroutines. Until then,
// or until List has returned the list, the data must stay as it is.
func (l *Lister) Share(n int, pool *sync.Pool) {
	l.shared = &sharedItems{pool: pool, most: n, size: 32 << 10}
}

// Close ends the goroutines of a Lister and waits for them. What they have not decoded is lost.
func (l *Lister) Close() {
	if s := l.shared; s != nil {
		s.failed.Store(true)
		s.wait()
	}
}

// item finds the end of the item at i, and adds the item to the next run. For an error it returns a negative number.
func (s *sharedItems) item(d *Decoder, i int) (end int) {
	if i >= len(d.data) {
		return d.fail(ErrShort)
	}
	if d.data[i] != '{' || s.failed.Load() || s.memory.Load() > MaxMemory {
		return d.fail(ErrDeclined)
	}
	n := new(Frame).End(d.data[i:])
	if n < 0 {
		return d.fail(ErrShort)
	}
	if len(s.next) == 0 {
		s.begin = i
	}
	if s.next = d.data[s.begin : i+n]; len(s.next) >= s.size && n <= MaxObject {
		s.hand()
	}
	return i + n
}

// hand hands the next run to the goroutine that is free first, perhaps this one.
func (s *sharedItems) hand() {
	r := &itemRun{data: s.next}
	s.runs, s.next = append(s.runs, r), nil
	if s.waiting == nil {
		s.waiting = make(chan *itemRun, s.most)
		for range s.most - 1 {
			s.working.Go(s.work)
		}
	}
	select {
	case s.waiting <- r:
	default:
		s.decode(r)
	}
}

// work decodes runs until there will be no more.
func (s *sharedItems) work() {
	for r := range s.waiting {
		s.decode(r)
	}
}

func (s *sharedItems) decode(r *itemRun) {
	if s.failed.Load() {
		return
	}
	d := s.pool.Get().(*Decoder)
	defer s.pool.Put(d)
	var err error
	if r.items, err = d.itemsOf(r.data); err != nil || s.memory.Add(d.memory) > MaxMemory {
		s.failed.Store(true)
	}
	r.data = nil
}

// wait waits until all runs are decoded.
func (s *sharedItems) wait() {
	if s.waiting != nil {
		close(s.waiting)
		s.work()
		s.working.Wait()
		s.waiting = nil
	}
}

// all returns the items of all runs, or false if apimachinery has to decode the list.
func (s *sharedItems) all() ([]unstructured.Unstructured, bool) {
	if len(s.next) > 0 {
		s.hand()
	}
	s.wait()
	n := 0
	for _, r := range s.runs {
		n += len(r.items)
	}
	items := make([]unstructured.Unstructured, 0, n)
	for _, r := range s.runs {
		items = append(items, r.items...)
	}
	return items, !s.failed.Load()
}

// itemsOf decodes the items of a run.
func (d *Decoder) itemsOf(run []byte) (items []unstructured.Unstructured, err error) {
	d.begin(run)
	for i, more := 0, true; ; i = d.space(i) {
		var m map[string]any
		d.depth = 0
		if m, i = d.object(i, d.drop, root); i >= 0 {
			items = append(items, unstructured.Unstructured{Object: m})
			d.finish()
		}
		if i < 0 || i == len(run) {
			return items, d.end(i)
		}
		if i, more = d.more(i, ']'); !more {
			return nil, d.end(d.fail(ErrDeclined))
		}
	}
}
