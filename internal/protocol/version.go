package protocol

import "strings"

// NotAfter reports whether version a is known to be b or older. It returns false for versions that can't be compared:
// the server is trusted to send them in order.
func NotAfter(a, b string) bool { return areNumbers(a, b) && compare(a, b) <= 0 }

// Before reports whether version a is known to be older than b.
func Before(a, b string) bool { return areNumbers(a, b) && compare(a, b) < 0 }

// Usable reports whether a watch can begin at a version. It can't at "" or at "0" (or "00"), where it would begin at
// any version, possibly in the past.
func Usable(version string) bool { return strings.Trim(version, "0") != "" }

// follows reports whether a version can come after another: it is usable, and a server whose versions are numbers does
// not switch to other texts.
func follows(version, cursor string) bool {
	return Usable(version) && (isNumber(version) || !isNumber(cursor))
}

// areNumbers reports whether two versions can be compared, as apimachinery's package resourceversion, new in 0.35, has
// it (KEP-5504): both are decimal numbers.
func areNumbers(a, b string) bool { return isNumber(a) && isNumber(b) }

// compare compares two numbers.
func compare(a, b string) int {
	if len(a) != len(b) {
		return len(a) - len(b)
	}
	return strings.Compare(a, b)
}

// isNumber reports whether a version is a positive decimal number, of any length, without leading zeros.
func isNumber(version string) bool {
	if version == "" || version[0] == '0' {
		return false
	}
	for i := range len(version) {
		if version[i] < '0' || version[i] > '9' {
			return false
		}
	}
	return true
}
