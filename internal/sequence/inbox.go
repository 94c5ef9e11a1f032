package sequence

// inbox has what arrived and is not decided: requests puts it in, and delivery takes it out.
type inbox struct {
	event  objectEvent // the last one of the watch; zero if it was taken
	page   []object    // of the last page, or initial events to deliver together
	memory int64       // of the initial events in page, counted only if they are written ahead
	// coming are objects of events after event, for the checkpoint only: they arrive again as events.
	coming []object
}

// putPage replaces the page.
func (b *inbox) putPage(objects []object) { b.page, b.memory = objects, 0 }

// gather makes the last event part of the page, and returns it.
func (b *inbox) gather() object {
	o := b.takeEvent().object
	b.page = append(b.page, o)
	return o
}

// takePage takes the objects of the page.
func (b *inbox) takePage() []object {
	page := b.page
	b.putPage(nil)
	return page
}

// takeEvent takes the last event, so that its memory can be freed.
func (b *inbox) takeEvent() objectEvent {
	ev := b.event
	b.event = objectEvent{}
	return ev
}

// takeComing takes the objects of later events.
func (b *inbox) takeComing() []object {
	coming := b.coming
	b.coming = nil
	return coming
}
