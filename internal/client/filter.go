package client

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gvrwatch/gvrwatch/internal/client/decode"
)

// Filter decides from the metadata of an object what Watch.Next does with its event. The view is valid until Filter
// returns.
type Filter func(*decode.MetadataView) Choice

// Choice is the decision of a Filter.
type Choice int

const (
	DecodeSelected Choice = iota // return the whole object, as Selected
	DecodeRejected               // return the whole object, as Rejected
	IdentityOnly                 // return an object with only name, uid and resourceVersion, as Rejected
	Skip                         // do not return the event
)

// filtered returns the event that data begins with, as the Filter decides, and its length. An event to skip has no
// Object. It returns false if the event must be decoded without the Filter.
func (f *frames) filtered(data []byte) (ev Event, n int, ok bool) {
	to := decode.ToEnd // of raw objects
	switch {
	case f.filter != nil:
		to = decode.ToManaged
	case f.lines:
		to = decode.ToIdentity
	}
	view, n := f.dec.Metadata(data, to)
	if view == nil || n > maxFrame {
		return Event{}, 0, false
	}
	defer view.Forget()
	choice := DecodeSelected
	if ev.Type = view.Type(); f.filter != nil {
		if choice, ev.Verdict = f.filter(view), Rejected; choice == DecodeSelected {
			ev.Verdict = Selected
		}
	}
	if view.Broken() {
		return Event{}, 0, false // the Filter has seen wrong metadata
	}
	switch choice {
	case DecodeSelected, DecodeRejected:
		if f.raw {
			if ev.Raw, ok = view.Raw(f.lines); !ok {
				return Event{}, 0, false
			}
			f.lines = view.IsLine()
			return ev, n, true
		}
		verdict := ev.Verdict
		ev, n, ok = decodeEvent(f.dec, data)
		ev.Verdict = verdict
		return ev, n, ok
	case IdentityOnly:
		ev.Object = &unstructured.Unstructured{Object: view.IdentityOnly()}
	case Skip:
		f.skipped = true
	}
	return ev, n, true
}
