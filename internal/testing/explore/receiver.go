package explore

import (
	"fmt"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/internal/protocol"
	"github.com/gvrwatch/gvrwatch/internal/sequence"
	"github.com/gvrwatch/gvrwatch/internal/testing/oracle"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

// receiver is what a run has delivered.
type receiver struct {
	events []event              // never changed in place
	known  [len(names)]object   // what exists according to the events
	gone   [len(names)]object   // the last one of each name that was DELETED
	fresh  [len(names)]bool     // delivered since the last GAP, or since the beginning until SYNCED
	phase  sequence.Kind        // of the last GAP or SYNCED; empty before
	gap    protocol.EmitGap     // the last one, until SYNCED
	went   bool                 // back in time, according to a GAP since the last SYNCED
	cursor int8                 // the version of the last SYNCED or live event
	from   *checkpoint.Position // where the run resumed, or nil
	listed []moment             // when each snapshot was requested; never changed in place
}

// event is an Event.
type event struct {
	object   // embedded: an event has the object's fields, but for GAP and SYNCED
	kind     sequence.Kind
	version  string // of SYNCED and BOOKMARK
	inferred bool
	gap      protocol.EmitGap
	at       *checkpoint.Position // when it was delivered; see session.noting
	came     moment
}

// resume makes the receiver know what an earlier run has delivered.
func (r *receiver) resume(p checkpoint.Position, before [len(names)]object) {
	r.cursor = number(p.ResourceVersions[""])
	for _, o := range p.Objects {
		if o.ResourceVersion == "" {
			continue // that may have been delivered is in the index
		}
		known := objectOf(entryOf(o))
		if was := before[known.name]; was.uid == known.uid && was.version == known.version {
			known = was
		}
		r.known[known.name] = known
	}
}

func (r *receiver) receive(ev event) {
	r.events = append(slices.Clip(r.events), ev)
	switch ev.kind {
	case sequence.Gap:
		r.phase, r.gap, r.fresh = ev.kind, ev.gap, [len(names)]bool{}
		r.went = r.went || ev.gap.Reused
		return
	case sequence.Synced:
		r.phase, r.gap, r.fresh, r.went = ev.kind, protocol.EmitGap{}, [len(names)]bool{}, false
		r.cursor = number(ev.version)
		return
	case sequence.Bookmark:
		r.cursor = number(ev.version)
		return
	case sequence.Deleted:
		if r.gone[ev.name] = ev.object; r.known[ev.name].uid == ev.uid {
			r.known[ev.name] = object{}
		}
	default:
		r.known[ev.name] = ev.object
	}
	if r.fresh[ev.name] = r.phase != sequence.Synced; r.phase == sequence.Synced && !ev.inferred {
		r.cursor = ev.object.version
	}
}

// String returns an event as a [Conversation] has it.
func (ev event) String() string {
	inferred := ""
	if ev.inferred {
		inferred = " inferred"
	}
	switch ev.kind {
	case sequence.Synced, sequence.Bookmark:
		return string(ev.kind) + " " + ev.version
	case sequence.Gap:
		lost := ""
		if ev.gap.HistoryLost {
			lost = " history lost"
		}
		return fmt.Sprintf("GAP %s from %s to %s%s", ev.gap.Gap.Reason, ev.gap.Gap.From, ev.gap.To, lost)
	}
	return fmt.Sprintf("%s %v%s", ev.kind, ev.object, inferred)
}

// asStream returns the Event that a caller would receive.
func (ev event) asStream() stream.Event {
	e := stream.Event{Type: stream.Type(ev.kind), Inferred: ev.inferred}
	switch ev.kind {
	case sequence.Gap:
		e.Gap = &stream.GapDetails{Reason: stream.GapReason(ev.gap.Gap.Reason), From: ev.gap.Gap.From, To: ev.gap.To,
			HistoryLost: ev.gap.HistoryLost}
	case sequence.Synced, sequence.Bookmark:
		e.ResourceVersion = ev.version
	default:
		e.ResourceVersion = text(ev.object.version)
		e.Object = contentOf(ev.object, ev.inferred && ev.kind == sequence.Deleted)
	}
	return e
}

// check compares what was delivered with what really happened, unless that was done before: many states have the same
// events of the same past. If complete, nothing may be missing.
func (r *receiver) check(past history, o streamtest.CheckOptions, done *checked) error {
	key := done.key(r, past, &o)
	if done.has(key) {
		return nil
	}
	events := make([]stream.Event, len(r.events))
	for i, ev := range r.events {
		events[i] = ev.asStream()
	}
	err := streamtest.Check(past.asHistory(), events, &o)
	if err == nil {
		done.add(key)
	}
	return err
}

// history is what really happened.
type history struct {
	changes []change // also those that a rewind undid; never changed in place
	rewinds []int8   // the versions that the server went back to
}

func (h history) with(c change) history {
	return history{append(slices.Clip(h.changes), c), h.rewinds}
}

func (h history) withRewind(to int8) history {
	return history{h.changes, append(slices.Clip(h.rewinds), to)}
}

func (h history) asHistory() (all streamtest.History) {
	for _, c := range h.changes {
		all.Changes = append(all.Changes, streamtest.Change{
			Type: watch.EventType(c.kind.String()), Object: contentOf(c.object, false),
			ResourceVersion: text(c.version), Epoch: int(c.epoch),
		})
	}
	for _, to := range h.rewinds {
		all.Rewinds = append(all.Rewinds, streamtest.Change{ResourceVersion: text(to)})
	}
	return all
}

// contents are the objects that were made, because the same ones are checked again and again.
var contents sync.Map

// contentOf returns an object as the server sends it, or only its identity.
func contentOf(o object, identity bool) *unstructured.Unstructured {
	type key struct {
		of       object
		identity bool
	}
	if made, ok := contents.Load(key{o, identity}); ok {
		return made.(*unstructured.Unstructured)
	}
	made := oracle.Object("", names[o.name], string(o.asUID()), text(o.version), int64(o.epoch))
	if identity {
		made = oracle.Identity("", names[o.name], string(o.asUID()), text(o.version))
	}
	contents.Store(key{o, identity}, made)
	return made
}
