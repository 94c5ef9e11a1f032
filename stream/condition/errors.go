package condition

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gvrwatch/gvrwatch/internal/invalid"
)

// ErrNoObjects is returned by [Wait] if a target without a name stands for no object.
var ErrNoObjects = errors.New("no objects exist")

var errPartial = invalid.New("source", "", "must deliver all that exists: no Run may have a Start or a Checkpoint")

var errZero = invalid.New("condition", "", "must be made with Parse, MustParse or New")

// UnmetError is returned by [Wait] if it ends before all targets meet their conditions.
type UnmetError struct {
	// Unmet are up to ten objects that do not meet the condition of a target, each with the reason, such as "condition
	// Ready is False" or "does not exist". Each is a Target with the full name of its resource, a name, and its
	// condition in For. A target without a name is there itself if it stands for no object. Each target has its
	// share of the ten. Unmet is empty if all that is known meets the conditions, but not everything is synced.
	Unmet map[Target]string
	// More is the number of others that do not meet their condition.
	More int
	// Err is why the wait ended. If that is the end of ctx, its text also has up to three reasons why requests of the
	// Streams were failing then, such as that the server refuses connections, does not answer, or answers 503. It does
	// not have what package follow has found out: failures of discovery, and which rights are missing.
	Err error
}

func (e *UnmetError) Error() string {
	if len(e.Unmet) == 0 {
		return fmt.Sprintf("condition: not everything is synced: %v", e.Err)
	}
	var b strings.Builder
	var last string
	for i, t := range slices.SortedFunc(maps.Keys(e.Unmet), Target.compare) {
		if i > 0 {
			b.WriteString("; ")
		}
		if text := t.For.String(); text != last {
			b.WriteString(text + " is not met ")
			last = text
		}
		fmt.Fprintf(&b, "by %s: %s", t, e.Unmet[t])
	}
	if e.More > 0 {
		fmt.Fprintf(&b, "; and by %d more", e.More)
	}
	fmt.Fprintf(&b, ": %v", e.Err)
	return b.String()
}

func (e *UnmetError) Unwrap() error { return e.Err }
