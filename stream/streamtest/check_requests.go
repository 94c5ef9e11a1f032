package streamtest

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gvrwatch/gvrwatch/stream"
)

// CheckRequests says whether a client kept to 5 requests a second on average, over
// any 10 seconds. All count, each page of a list too: give it the requests of one
// stream, of a resource that is not read in more pages than that. The error is the
// first *Violation.
func CheckRequests(requests []Request) error {
	const most, window = 50, 10 * time.Second
	requests = slices.SortedStableFunc(slices.Values(requests), func(a, b Request) int { return a.At.Compare(b.At) })
	for i := most; i < len(requests); i++ {
		last := requests[i]
		if took := last.At.Sub(requests[i-most].At); took < window {
			return &Violation{bounded, i, last.Verb + " " + last.Resource, fmt.Sprintf("%d requests in %v", most+1, took)}
		}
	}
	return nil
}

// CheckStatuses says whether each status is well classified: its state is a known
// one, has a cause and a next try if it is one of failure, and has none if
// nothing is wrong. A Stopped has no next try, and may have a cause. It returns nil
// or what is wrong, joined: each is a *Violation.
func CheckStatuses(statuses []stream.Status) error {
	var errs []error
	for i, st := range statuses {
		for _, st := range append([]stream.Status{st}, st.Namespaces...) {
			if why := unclassified(st); why != "" {
				errs = append(errs, &Violation{classified, i, "status " + string(st.State) + " " + st.Namespace, why})
			}
		}
	}
	return errors.Join(errs...)
}

func unclassified(st stream.Status) string {
	switch st.State {
	case stream.Idle, stream.Listing, stream.Streaming, stream.Resuming:
		if st.Cause != nil || !st.NextTry.IsZero() {
			return "nothing is wrong, so that it has neither a cause nor a next try"
		}
	case stream.Backoff, stream.Stalled, stream.Unauthorized, stream.Forbidden, stream.Gone:
		if st.Cause == nil || st.NextTry.IsZero() {
			return "it has to have a cause and a next try"
		}
	case stream.Stopped:
		if !st.NextTry.IsZero() {
			return "there is no next try"
		}
	default:
		return "there is no such state"
	}
	return ""
}
