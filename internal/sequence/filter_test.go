package sequence

import (
	"strings"
	"testing"

	"github.com/gvrwatch/gvrwatch/internal/protocol"
)

// take reports the skipped events once, even if skipping was restarted in between.
func TestOnlyNewerEventsAreSkipped(t *testing.T) {
	for _, tt := range []struct {
		why, from string
		on        bool
		versions  string // in order of arrival, with + before those that are skipped
	}{
		{"only newer events are skipped", "5", true, "+6 +9 9 7 5 +10"},
		{"skipping is off", "5", false, "6"},
		{"only versions that are plain numbers are skipped", "5", true,
			"7a 07 -7 18446744073709551616 +18446744073709551615"},
		{"the start version is not a number", "no number", true, "6"},
	} {
		var p skipped
		p.allow(tt.from, tt.on)
		want, events := protocol.Frame{}, 0
		for _, rv := range strings.Fields(tt.versions) {
			version, skips := strings.CutPrefix(rv, "+")
			if got := p.skip([]byte(version)); got != skips {
				t.Errorf("%s: %s is skipped: %v, want %v", tt.why, version, got, skips)
			}
			if skips {
				want, events = protocol.Frame{Kind: protocol.SkippedFrame, Version: version}, events+1
			}
		}
		p.allow("3", true)
		if f, n := p.take(); f != want || n != events {
			t.Errorf("%s: take returns %v, %d, want %v, %d", tt.why, f, n, want, events)
		}
		if f, n := p.take(); n != 0 {
			t.Errorf("%s: a second take returns %v", tt.why, f)
		}
	}
}
