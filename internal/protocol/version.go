package protocol

import (
	"strings"

	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// NotAfter says whether version a is known to be b or older. Versions that can't be
// compared are trusted to come in order.
func NotAfter(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order <= 0
}

// Before says whether version a is known to be older than b.
func Before(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order < 0
}

// Usable says whether a watch can begin at a version. At "0", however it is written,
// it would begin anywhere, possibly in the past.
func Usable(version string) bool { return strings.Trim(version, "0") != "" }

// follows says whether a version can come after another: a server whose versions are
// numbers does not switch to words.
func follows(version, cursor string) bool {
	return Usable(version) && (isNumber(version) || !isNumber(cursor))
}

func isNumber(version string) bool {
	_, err := resourceversion.CompareResourceVersion(version, version)
	return err == nil
}
