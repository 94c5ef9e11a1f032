package streamtest

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/gvrwatch/gvrwatch/stream"
)

const (
	requestWindow  = 10 * time.Second
	requestsWithin = 50
)

// CheckRequests says whether a client kept to 5 requests a second on average, over
// any 10 seconds. All count, each page of a list too: give it the requests of one
// stream, of a resource that is not read in more pages than that.
func CheckRequests(requests []Request) error {
	times := slices.Clone(requests)
	slices.SortStableFunc(times, func(a, b Request) int { return a.At.Compare(b.At) })
	var broken []*Violation
	for i := 0; i+requestsWithin < len(times); i++ {
		last := times[i+requestsWithin]
		if took := last.At.Sub(times[i].At); took < requestWindow {
			broken = append(broken, &Violation{Promise: ErrUnbounded, Index: i + requestsWithin,
				What: last.Verb + " " + last.Resource, Why: fmt.Sprintf("%d requests in %v", requestsWithin+1, took)})
			i += requestsWithin // one violation for each burst
		}
	}
	return joined(broken)
}

// CheckStatuses says whether each status can be told what it is by: its state is a
// known one, has a cause and a next try if it is one of failure, and has none if
// nothing is wrong. A Stopped has no next try, and may have a cause.
func CheckStatuses(statuses []stream.Status) error {
	var broken []*Violation
	for i, st := range statuses {
		broken = append(broken, classified(i, st)...)
	}
	slices.SortStableFunc(broken, func(a, b *Violation) int { return cmp.Compare(a.Index, b.Index) })
	return joined(broken)
}

func classified(i int, st stream.Status) []*Violation {
	why := ""
	switch st.State {
	case stream.Idle, stream.Listing, stream.Streaming, stream.Resuming:
		if st.Cause != nil || !st.NextTry.IsZero() {
			why = "nothing is wrong, so that it has neither a cause nor a next try"
		}
	case stream.Backoff, stream.Stalled, stream.Unauthorized, stream.Forbidden, stream.Gone:
		switch {
		case st.Cause == nil:
			why = "it has no cause"
		case st.NextTry.IsZero():
			why = "it has no next try"
		}
	case stream.Stopped:
		if !st.NextTry.IsZero() {
			why = "there is no next try"
		}
	default:
		why = "there is no such state"
	}
	var broken []*Violation
	if why != "" {
		what := "status " + string(st.State)
		if st.Namespace != "" {
			what += " in " + st.Namespace
		}
		broken = append(broken, &Violation{Promise: ErrUnclassified, Index: i, What: what, Why: why})
	}
	for _, inner := range st.Namespaces {
		broken = append(broken, classified(i, inner)...)
	}
	return broken
}
