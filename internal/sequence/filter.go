package sequence

import (
	"strconv"

	"github.com/gvrwatch/gvrwatch/internal/client"
	"github.com/gvrwatch/gvrwatch/internal/client/decode"
	"github.com/gvrwatch/gvrwatch/internal/index"
	"github.com/gvrwatch/gvrwatch/internal/protocol"
)

// filter returns a function that calls Config.Select with the metadata of an event before the object is decoded. A
// rejected object is decoded only if a DELETED may have to be reported for it.
func (r *requests) filter() client.Filter {
	if r.scope.target.Select == nil {
		return nil
	}
	return func(s *decode.MetadataView) client.Choice {
		selected := r.scope.target.Select(s)
		namespace, name, version := s.Identity()
		switch {
		case selected:
			return client.DecodeSelected
		// Earlier events that have arrived may not be in the index yet.
		case s.Broken(), r.watch.arrived.reading, r.knows(namespace, name):
			return client.DecodeRejected
		case r.watch.skipped.skip(version):
			return client.Skip
		}
		return client.IdentityOnly
	}
}

// skipped counts rejected events that were not decoded and that the protocol does not know yet.
type skipped struct {
	on      bool   // events may be skipped
	version uint64 // of the last event
	events  int
}

// allow permits skipping events after rv, or with on false forbids it. It has no effect while skipped events wait for
// take.
func (s *skipped) allow(rv string, on bool) {
	if s.events > 0 {
		return
	}
	if s.on = on; on {
		s.version, s.on = index.ParseVersion(rv)
	}
}

// skip counts an event as skipped and returns true, if it is newer than all events before it.
func (s *skipped) skip(rv []byte) bool {
	if !s.on {
		return false
	}
	version, ok := index.ParseVersion(string(rv))
	if !ok || version <= s.version {
		return false
	}
	s.version = version
	s.events++
	return true
}

// take returns the number of skipped events and, unless it is 0, the frame that stands for them.
func (s *skipped) take() (f protocol.Frame, events int) {
	if events, s.events = s.events, 0; events > 0 {
		f = protocol.Frame{Kind: protocol.SkippedFrame, Version: strconv.FormatUint(s.version, 10)}
	}
	return f, events
}
