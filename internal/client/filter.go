package client

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gvrwatch/gvrwatch/internal/client/decode"
)

// Filter says what is to become of an event, given the metadata of its object. The
// view is valid until Filter returns.
type Filter func(*decode.MetadataView) Choice

// Choice is the answer of a Filter.
type Choice int

const (
	DecodeSelected Choice = iota // decode the object, which is wanted
	DecodeRejected               // decode the object, which is not wanted
	IdentityOnly                 // an object with name, uid and resourceVersion is enough
	Skip                         // the event is not returned
)

// pick decodes the event that data begins with, as the Filter says, and returns how
// long it is. It returns false if it has to be decoded in any case.
func (f *frames) filtered(data []byte) (ev Event, n int, ok bool) {
	sight, n := f.dec.Metadata(data)
	if sight == nil || n > maxFrame {
		return ev, 0, false
	}
	defer sight.Forget()
	picked := f.filter(sight)
	if sight.Broken() {
		return ev, 0, false // what Select was shown was wrong
	}
	ev.Type, ev.Verdict = sight.Type(), Rejected
	switch picked {
	case DecodeSelected, DecodeRejected:
		if picked == DecodeSelected {
			ev.Verdict = Selected
		}
		ev.Event, n, ok = decodeEvent(f.dec, data)
		return ev, n, ok
	case IdentityOnly:
		ev.Object = &unstructured.Unstructured{Object: sight.IdentityOnly()}
	case Skip:
		f.skipped = true
	}
	return ev, n, true
}
