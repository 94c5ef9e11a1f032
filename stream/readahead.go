package stream

import "k8s.io/apimachinery/pkg/watch"

// readAhead is how many events of a watch may be read before they are told, where
// a checkpoint is to know of new objects before: those that have come meanwhile
// are written together.
const readAhead = 100

// readAhead lets events come in while others are told.
func (c *connection) readAhead() {
	in, out, gone := c.watch.ResultChan(), make(chan watch.Event, readAhead), make(chan struct{})
	c.events, c.gone = out, gone
	go func() {
		defer close(out)
		for {
			select {
			case ev, ok := <-in:
				if !ok {
					return
				}
				select {
				case out <- ev:
				case <-gone:
					return
				}
			case <-gone:
				return
			}
		}
	}()
}

// next returns an event that has come.
func (c *connection) next() (arrival, bool) {
	if len(c.waiting) == 0 {
		return arrival{}, false
	}
	ev := c.waiting[0]
	c.waiting[0] = arrival{} // what has been told need not be kept
	c.waiting = c.waiting[1:]
	return ev, true
}

// come returns the objects of ADDED and MODIFIED that have come and have not been
// received, up to what can't be read: what follows that will not be told.
func (c *connection) come() []object {
	c.ahead = true
	defer func() { c.ahead = false }()
	for len(c.waiting) < readAhead {
		ev, ok, _ := c.fetch()
		if !ok {
			break
		}
		c.waiting = append(c.waiting, ev)
	}
	var objects []object
	for _, ev := range c.waiting {
		if ev.Type == watch.Deleted || ev.Type == watch.Bookmark {
			continue
		}
		u := unstructuredOf(ev.Object)
		if u == nil || ev.Type != watch.Added && ev.Type != watch.Modified {
			break
		}
		o, err := c.object(u)
		if err != nil {
			break
		}
		o.verdict = ev.verdict
		objects = append(objects, o)
	}
	return objects
}
