package condition

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gvrwatch/gvrwatch/internal/invalid"
)

// ErrNoObjects is returned by [Wait] if it has no targets and the source has no objects.
var ErrNoObjects = errors.New("no objects exist")

var errPartial = invalid.New("source", "", "must deliver all that exists: no Run may have a Start or a Checkpoint")

var errZero = invalid.New("condition", "", "must be made with Parse")

// UnmetError is returned by [Wait] if it ends before the condition is met.
type UnmetError struct {
	Condition Condition
	// Unmet are up to ten of the targets that do not meet the condition, each with the reason, such as "condition Ready
	// is False" or "does not exist". It is empty if all that is known meets the condition, but not everything is
	// synced, and if no object exists.
	Unmet map[Target]string
	// More is the number of others that do not meet it.
	More int
	// Err is why the wait ended.
	Err error
}

func (e *UnmetError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "condition: %s is not met", e.Condition)
	for i, t := range slices.SortedFunc(maps.Keys(e.Unmet), Target.compare) {
		b.WriteString([]string{": ", "; "}[min(i, 1)])
		b.WriteString(t.String() + " " + e.Unmet[t])
	}
	if e.More > 0 {
		fmt.Fprintf(&b, "; and %d more", e.More)
	}
	fmt.Fprintf(&b, ": %v", e.Err)
	return b.String()
}

func (e *UnmetError) Unwrap() error { return e.Err }
