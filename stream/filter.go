package stream

import (
	"strconv"

	"github.com/gvrwatch/gvrwatch/internal/client"
	"github.com/gvrwatch/gvrwatch/internal/client/decode"
	"github.com/gvrwatch/gvrwatch/internal/protocol"
)

// filter asks Options.Select about the metadata of an event before its object is
// decoded. A rejected object is decoded only if its end may have to be reported.
func (w *worker) filter() client.Filter {
	if w.options.Select == nil {
		return nil
	}
	return func(s *decode.MetadataView) client.Choice {
		selected := w.options.Select(s)
		namespace, name, version := s.Identity()
		switch {
		case selected:
			return client.DecodeSelected
		// What came before it may not be in the index yet.
		case s.Broken(), w.conn.arrived.reading, w.index.HasName(namespace, name):
			return client.DecodeRejected
		case w.conn.skipped.by(version):
			return client.Skip
		}
		return client.IdentityOnly
	}
}

// passed is how far a watch has got by events that report nothing, and which the state
// has not heard of yet.
type skipped struct {
	on      bool // nobody has to know of each of them
	version uint64
	events  int
}

// from begins to pass events by, after a version, or ends that.
func (p *skipped) from(rv string, on bool) {
	if p.events > 0 {
		return
	}
	if p.on = on; on {
		p.version, p.on = plainNumber(rv)
	}
}

// by passes an event by, if it is newer than what came before.
func (p *skipped) by(rv []byte) bool {
	if !p.on {
		return false
	}
	version, ok := plainNumber(string(rv))
	if !ok || version <= p.version {
		return false
	}
	p.version = version
	p.events++
	return true
}

// take returns what the state is to hear of it, or nil, and how many events that
// stands for.
func (p *skipped) take() (in protocol.Input, events int) {
	if p.events == 0 {
		return nil, 0
	}
	events, p.events = p.events, 0
	return protocol.Frame{Kind: protocol.SkippedFrame, Version: strconv.FormatUint(p.version, 10)}, events
}

// plainNumber reads a version that is a decimal number without leading zeros.
func plainNumber(version string) (n uint64, ok bool) {
	n, err := strconv.ParseUint(version, 10, 64)
	return n, err == nil && (version[0] != '0' || version == "0")
}
