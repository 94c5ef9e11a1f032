package stream

import (
	"strings"
	"testing"

	"github.com/gvrwatch/gvrwatch/internal/protocol"
)

// TestPassed: events are passed by that are newer than what came before, where nobody
// has to hear of each; what was passed by is reported before that begins anew.
func TestPassed(t *testing.T) {
	for _, tt := range []struct {
		why, from string
		on        bool
		versions  string // one after the other, with + before those that are passed by
	}{
		{"in order", "5", true, "+6 +9 9 7 5 +10"},
		{"not here", "5", false, "6"},
		{"versions that are no plain numbers", "5", true, "7a 07 -7 18446744073709551616 +18446744073709551615"},
		{"after one that is none", "no number", true, "6"},
	} {
		var p skipped
		p.allow(tt.from, tt.on)
		want, events := protocol.Input(nil), 0
		for _, rv := range strings.Fields(tt.versions) {
			version, passes := strings.CutPrefix(rv, "+")
			if got := p.skip([]byte(version)); got != passes {
				t.Errorf("%s: %s is passed by: %v, want %v", tt.why, version, got, passes)
			}
			if passes {
				want, events = protocol.Frame{Kind: protocol.SkippedFrame, Version: version}, events+1
			}
		}
		p.allow("3", true)
		if in, n := p.take(); in != want || n != events {
			t.Errorf("%s: the state hears %v of %d events, want %v of %d", tt.why, in, n, want, events)
		}
		if in, _ := p.take(); in != nil {
			t.Errorf("%s: and again %v", tt.why, in)
		}
	}
}
