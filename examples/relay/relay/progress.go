package relay

import (
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/gvrwatch/gvrwatch/examples/relay/engine"
	"github.com/gvrwatch/gvrwatch/stream"
)

// progress follows the events of a unit, to know at which version a Stream would resume after each of them.
//
// An event that stands for others (mux.Coalesced) has the place in line of the first of them, so events with lower
// versions may follow it. The version is unknown until an event that stands for itself alone has a higher version than
// all before it: whatever is behind that one arrived later.
type progress struct {
	version string // of the last event that stands for itself
	highest string // of all events since the last GAP
	synced  bool
	rewound bool
	scope   string // of the position
	next    string // the scope after SYNCED
}

func newProgress(p engine.Position, scope string) progress {
	return progress{
		version: p.ResourceVersion, highest: p.ResourceVersion, synced: p.ResourceVersion != "", rewound: p.Rewound,
		scope: p.Scope, next: scope,
	}
}

// longestVersion is in bytes. A longer one, which no API server of Kubernetes has, is not kept.
const longestVersion = 256

// add returns the progress after ev.
func (p progress) add(ev stream.Event) progress {
	if len(ev.ResourceVersion) > longestVersion {
		ev.ResourceVersion = ""
	}
	switch ev.Type {
	case stream.Gap:
		p.version, p.highest, p.synced = "", "", false
		p.rewound = p.rewound || ev.Gap != nil && ev.Gap.Reason == stream.GapRewound
	case stream.Synced:
		p.version, p.highest, p.synced, p.rewound, p.scope = ev.ResourceVersion, ev.ResourceVersion, true, false, p.next
	default:
		if !p.synced || ev.Inferred { // the version of an inferred event is one from before
			break
		}
		if ev.ResourceVersion == "" {
			p.version, p.highest = "", ""
			break
		}
		if ev.Coalesced() == 0 {
			p.version = ev.ResourceVersion
		}
		if !less(ev.ResourceVersion, p.highest) {
			p.highest = ev.ResourceVersion
		}
	}
	return p
}

// fill sets what add has found out.
func (p progress) fill(pos *engine.Position) {
	pos.ResourceVersion, pos.Rewound, pos.Scope = p.version, p.rewound, p.scope
	if p.version != p.highest {
		pos.ResourceVersion = ""
	}
}

// less reports whether a is a lower version than b. Versions that are not numbers are only equal or later.
func less(a, b string) bool {
	if a == "" || b == "" {
		return false
	}
	c, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && c < 0
}
