package protocol

import (
	"strings"

	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// NotAfter reports whether version a is known to be b or older. It returns false for versions that can't be compared:
// the server is trusted to send them in order.
func NotAfter(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order <= 0
}

// Before reports whether version a is known to be older than b.
func Before(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order < 0
}

// Usable reports whether a watch can begin at a version. It can't at "" or at "0" (or "00"), where it would begin at
// any version, possibly in the past.
func Usable(version string) bool { return strings.Trim(version, "0") != "" }

// follows reports whether a version can come after another: it is usable, and a server whose versions are numbers does
// not switch to other texts.
func follows(version, cursor string) bool {
	return Usable(version) && (isNumber(version) || !isNumber(cursor))
}

func isNumber(version string) bool {
	_, err := resourceversion.CompareResourceVersion(version, version)
	return err == nil
}
