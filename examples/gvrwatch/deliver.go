package main

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"time"

	"github.com/gvrwatch/gvrwatch/examples/gvrwatch/internal/screen"
	"github.com/gvrwatch/gvrwatch/mux"
	"github.com/gvrwatch/gvrwatch/stream"
)

// printedEvents are the events of a Mux. They are recorded and printed before they are yielded, and acked when they are
// written.
type printedEvents struct {
	*mux.Mux // condition.Wait asks it what is synced
	// deliver reports whether an event was printed. It calls ack when all is done with it.
	deliver func(ev stream.Event, ack func()) (printed bool, err error)
	limit   int // ends with errLimit after so many objects; 0 means never

	counts *counts
}

func (p printedEvents) Events(ctx context.Context) iter.Seq2[stream.Event, error] {
	return func(yield func(stream.Event, error) bool) {
		objects := 0
		for ev, err := range p.Mux.Events(ctx) {
			var failed *mux.SourceError
			if errors.As(err, &failed) {
				err = failed.Err // it names the resource
			}
			printed := false
			if err == nil {
				p.counts.add(ev)
				acked := ev
				acked.Object, acked.JSON = nil, nil // what has been printed need not wait in memory for its ack
				printed, err = p.deliver(ev, acked.Ack)
			}
			if err != nil {
				yield(stream.Event{}, err)
				return
			}
			if printed && ev.HasObject() {
				objects++
			}
			if p.limit > 0 && objects == p.limit {
				yield(stream.Event{}, errLimit)
				return
			}
			if !yield(ev, nil) {
				return
			}
		}
	}
}

// delivery is what happens with an event: it is recorded, filtered, printed and counted, in this order.
type delivery struct {
	record   *recorder // nil without --record
	recorded bool      // the events are those of a recording
	filter   *filter
	printing printing
	printer  eventPrinter
	counts   summary       // nil without --summary
	existing *existing     // nil unless only what exists is printed
	nothing  *nothingFound // nil if nobody needs to know
}

func (s *session) newDelivery(
	ctx context.Context, merged *mux.Mux, want wanted, p eventPrinter,
) (*delivery, error) {
	d := &delivery{printing: s.printing(want), printer: p, nothing: s.newNothingFound(merged, want)}
	if s.opts.get && !s.opts.print.watchEvents {
		d.existing = &existing{s.follows != nil, s.opts.showsNamespaces(), map[string]bool{}}
	}
	var err error
	if d.filter, err = s.opts.filter.newFilter(time.Now()); err != nil {
		return nil, err
	}
	if s.opts.filter.summary {
		d.counts = summary{}
	}
	if s.opts.record.file != "" {
		d.record, err = s.newRecorder(ctx, want)
	}
	return d, err
}

// deliver reports whether the event was printed. It calls ack when all is done with it, perhaps later and in another
// goroutine.
func (d *delivery) deliver(ev stream.Event, ack func()) (printed bool, err error) {
	whole := ev
	var row json.RawMessage
	if ev.JSON != nil {
		whole.JSON, row = d.printing.columns.Split(ev)
	}
	if d.record != nil {
		if ack, err = d.record.add(whole, row, ack); err != nil {
			return false, err
		}
	}
	if printed, err = d.print(ev, whole, ack); err == nil && d.nothing != nil {
		d.nothing.observe(ev)
	}
	return printed, err
}

// print prints an event as far as it is wanted. Whole is the event without its row.
func (d *delivery) print(ev, whole stream.Event, ack func()) (printed bool, err error) {
	if d.existing != nil && !d.existing.has(ev) {
		ack()
		return false, nil
	}
	out, pass := d.filter.pass(whole)
	switch {
	case !pass:
		d.observe(out)
		ack()
		return false, nil
	case !ev.HasObject() && !(d.printing.flags.hasControls() && d.filter.controls(ev.Type)):
		d.control(ev)
		ack()
		return false, nil
	}
	if d.counts != nil {
		d.counts.add(ev)
	}
	_, hasRows := d.printer.(*eventTable)
	switch {
	case d.printing.flags.format == "diff":
		return true, d.printer.print(out, ack)
	case hasRows:
		whole.JSON = ev.JSON
	case (d.record != nil || d.recorded) && !d.printing.flags.needsManagedFields():
		whole.JSON = withoutManagedFields(whole.JSON)
	}
	return true, d.printer.print(whole, ack)
}

// skip takes note of an event that is not printed, whatever the filter says.
func (d *delivery) skip(ev stream.Event) {
	if out, _ := d.filter.pass(ev); ev.HasObject() {
		d.observe(out)
	}
}

// observe shows an event that is not printed to a printer that compares states.
func (d *delivery) observe(ev stream.Event) {
	if o, ok := d.printer.(interface{ observe(stream.Event) }); ok {
		o.observe(ev)
	}
}

// control prints a control event as a line on stderr, after the objects before it. Only in a pipe, a table that ends
// soon is printed as a whole.
func (d *delivery) control(ev stream.Event) {
	in := ""
	if ns := namespaceOf(ev, d.printing.namespaces); ns != "" {
		in = " in the namespace " + ns
	}
	if !d.printing.finite || screen.IsTerminal(d.printing.streams.Out) {
		_ = d.printer.flush() // stdout remembers its error
	}
	line := func(format string, args ...any) {
		printMessage(d.printing.streams.ErrOut, "%s: "+format, append([]any{ev.Resource}, args...)...)
	}
	switch ev.Type {
	case stream.Synced:
		at := ""
		if ev.ResourceVersion != "" { // empty for several namespaces
			at = " at resourceVersion " + ev.ResourceVersion
		}
		line("synced%s%s", in, at)
	case stream.Gap:
		from, to := "", ""
		if ev.Gap.From != "" { // empty if a run was killed before its first SYNCED
			from = " from resourceVersion " + ev.Gap.From
		}
		if ev.Gap.To != "" {
			to = " to " + ev.Gap.To
		}
		line("gap%s%s%s (%s): the differences follow", in, from, to, ev.Gap.Reason)
	}
}

// end writes what has not been written, and prints the summary.
func (d *delivery) end() error {
	err := d.printer.flush()
	if d.counts != nil {
		err = errors.Join(err, d.counts.print(d.printing.streams.ErrOut))
	}
	if d.record != nil {
		err = errors.Join(err, d.record.close())
	}
	return err
}

// withoutManagedFields returns an object in JSON without metadata.managedFields. What is no object stays as it is.
func withoutManagedFields(object json.RawMessage) json.RawMessage {
	var fields, metadata map[string]json.RawMessage
	if json.Unmarshal(object, &fields) != nil || json.Unmarshal(fields["metadata"], &metadata) != nil ||
		metadata["managedFields"] == nil {
		return object
	}
	delete(metadata, "managedFields")
	var err error
	if fields["metadata"], err = json.Marshal(metadata); err != nil {
		return object
	}
	b, err := json.Marshal(fields)
	if err != nil {
		return object
	}
	return b
}
