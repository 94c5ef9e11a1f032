package sequence

// inbox has what arrived and is not decided: requests puts it in, and delivery takes it out.
type inbox struct {
	event  objectEvent // the last one of the watch; zero if it was taken
	page   []object    // of the last page, or initial events to deliver together
	memory int64       // of the initial events in page, counted only if they are written ahead
	// coming are objects of events after event, for the checkpoint only: they arrive again as events.
	coming []object
}

// putEvent replaces the last event.
func (b *inbox) putEvent(ev objectEvent) { b.event = ev }

// putPage replaces the page.
func (b *inbox) putPage(objects []object) { b.page, b.memory = objects, 0 }

// gather makes the last event part of the page.
func (b *inbox) gather() {
	b.page = append(b.page, b.event.object)
	b.dropEvent()
}

// gatherUpTo does the same, and reports whether the page has so many objects, or takes so much memory.
func (b *inbox) gatherUpTo(objects int, memory int64) (full bool) {
	b.memory += b.event.object.body.size()
	b.gather()
	return len(b.page) >= objects || b.memory >= memory
}

// takePage takes the objects of the page.
func (b *inbox) takePage() []object {
	page := b.page
	b.putPage(nil)
	return page
}

// dropEvent forgets the last event, so that its memory can be freed.
func (b *inbox) dropEvent() { b.event = objectEvent{} }

// putComing replaces the objects of later events.
func (b *inbox) putComing(objects []object) { b.coming = objects }

// takeComing takes the objects of later events.
func (b *inbox) takeComing() []object {
	coming := b.coming
	b.coming = nil
	return coming
}
