package stream

import (
	"strings"

	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// notAfter says that version a is known to be b or older. Versions that can't
// be compared are trusted to come in order.
func notAfter(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order <= 0
}

// before says that version a is known to be older than b.
func before(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order < 0
}

// usable says whether a watch can begin at a version: at "0", however it is
// written, it would begin at any, possibly in the past.
func usable(rv string) bool { return strings.Trim(rv, "0") != "" }

// follows says whether a version is of the same sort as another: a server whose
// versions are numbers sends no words.
func follows(rv, cursor string) bool {
	return usable(rv) && (isNumber(rv) || !isNumber(cursor))
}

func isNumber(rv string) bool {
	_, err := resourceversion.CompareResourceVersion(rv, rv)
	return err == nil
}
