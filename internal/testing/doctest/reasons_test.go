package doctest

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var reason = regexp.MustCompile(`(Gap\w+)\s+Reason = ("\w+")`)

// TestGapReasonsAreNamedEverywhere: what has a case for each reason of a GAP has one for each that the protocol has.
func TestGapReasonsAreNamedEverywhere(t *testing.T) {
	reasons := reason.FindAllStringSubmatch(read(t, filepath.Join(root, "internal/protocol/words.go")), -1)
	if len(reasons) < 6 {
		t.Fatalf("internal/protocol/words.go has the reasons %q", reasons)
	}
	for _, tt := range []struct{ file, why string }{
		{"stream/event.go", "users read what it means"},
		{"stream/streamtest/check_source.go", "Check refuses other reasons"},
		{"examples/metrics/count.go", "other reasons are counted as others"},
		{"docs/operations.md", "the metric's reasons"},
	} {
		text := read(t, filepath.Join(root, tt.file))
		for _, r := range reasons {
			word := regexp.MustCompile(`\b` + strings.Trim(r[2], `"`) + `\b`)
			if !strings.Contains(text, "stream."+r[1]) && !word.MatchString(text) {
				t.Errorf("%s does not name %s (%s): %s", tt.file, r[2], r[1], tt.why)
			}
		}
	}
}
