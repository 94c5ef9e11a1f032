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
	for _, tt := range []struct{ file, list, why string }{ // list matches where the file lists the reasons
		{"stream/event.go", `(?s)// GapReason is the reason.*?\n\)`, "users read what it means"},
		{"stream/streamtest/check_source.go", `(?s)\nvar reasons = .*?GapScope\}`, "Check refuses other reasons"},
		{"examples/metrics/count.go", `(?s)\tgapReasons = .*?\n\t\}`, "other reasons are counted as others"},
		{"docs/operations.md", "`gvrwatch_gaps_total.*", "the metric's reasons"},
	} {
		list := regexp.MustCompile(tt.list).FindString(read(t, filepath.Join(root, tt.file)))
		for _, r := range reasons {
			named := regexp.MustCompile(`\b(stream\.` + r[1] + `|` + strings.Trim(r[2], `"`) + `)\b`)
			if !named.MatchString(list) {
				t.Errorf("%s does not name %s (%s): %s", tt.file, r[2], r[1], tt.why)
			}
		}
	}
}
