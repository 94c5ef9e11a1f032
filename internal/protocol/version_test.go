package protocol_test

import (
	"strings"
	"testing"

	"github.com/gvrwatch/gvrwatch/internal/protocol"
)

// TestOrderOfVersions has the cases of apimachinery's package resourceversion (0.35 and newer), which must agree: a
// version is compared only with another one, and only if both are positive decimal numbers without leading zeros.
func TestOrderOfVersions(t *testing.T) {
	long := strings.Repeat("9", 50) // 50 digits
	longer := "1" + strings.Repeat("0", 50)
	other := "12345678901234567890123456789012345678901234567890"
	for _, tt := range []struct {
		why              string
		a, b             string
		before, notAfter bool
	}{
		{"less", "100", "200", true, true},
		{"greater", "200", "100", false, false},
		{"equal, one digit", "1", "1", false, true},
		{"equal", "100", "100", false, true},
		{"shorter is less, whatever the digits are", "99", "100", true, true},
		{"longer is greater", "100", "99", false, false},
		{"0 is no version of an object", "0", "1", false, false},
		{"0 is no version of an object, on the other side", "1", "0", false, false},
		{"0 is not even equal to 0", "0", "0", false, false},
		{"a leading zero", "0100", "100", false, false},
		{"a leading zero, on the other side", "100", "0100", false, false},
		{"a leading zero on both sides", "0100", "0200", false, false},
		{"none", "", "100", false, false},
		{"none, on the other side", "100", "", false, false},
		{"none on both sides", "", "", false, false},
		{"a letter", "100a", "100", false, false},
		{"a letter, on the other side", "100", "100a", false, false},
		{"a sign", "-100", "100", false, false},
		{"a sign, on the other side", "100", "+200", false, false},
		{"a point", "1.0", "2", false, false},
		{"digits of another alphabet", "\u0661\u0662", "\u0661\u0663", false, false},
		{"beyond 64 bits, less", long, longer, true, true},
		{"beyond 64 bits, greater", longer, long, false, false},
		{"beyond 64 bits, equal", other, other, false, true},
		{"beyond 64 bits, the last digit decides", other, other[:49] + "1", true, true},
	} {
		if got := protocol.Before(tt.a, tt.b); got != tt.before {
			t.Errorf("%s: Before(%q, %q) = %v", tt.why, tt.a, tt.b, got)
		}
		if got := protocol.NotAfter(tt.a, tt.b); got != tt.notAfter {
			t.Errorf("%s: NotAfter(%q, %q) = %v", tt.why, tt.a, tt.b, got)
		}
	}
}
