package discovery

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gvrwatch/gvrwatch/gvr"
)

// NotFoundError reports that the server serves no such resource type. It is based on a poll that began after
// [Resolver.Resolve] was called.
type NotFoundError struct {
	Ref     gvr.Ref
	Similar []gvr.Resource // at most five served types with similar names, the most similar first
}

func (e *NotFoundError) Error() string {
	msg := fmt.Sprintf("the server serves no resource type %q", e.Ref)
	if len(e.Similar) > 0 {
		msg += "; did you mean " + joinNames(e.Similar) + "?"
	}
	return msg
}

// AmbiguousError reports that a name without a group matches several resource
// types.
type AmbiguousError struct {
	Ref        gvr.Ref
	Candidates []gvr.Resource // at least two, in the server's order of groups
}

func (e *AmbiguousError) Error() string {
	return fmt.Sprintf("ambiguous resource type %q: must be one of %s", e.Ref, joinNames(e.Candidates))
}

// UnavailableError reports that some of the server's APIs cannot be read, so
// that a resource type may or may not exist. It wraps the errors of client-go, so
// errors.As and the predicates of k8s.io/apimachinery/pkg/api/errors, such as
// IsForbidden, work on it.
type UnavailableError struct {
	Ref gvr.Ref // zero if all resources were requested
	// GroupVersions are the APIs that cannot be read. An empty Version stands for
	// every version of the group. GroupVersions is empty if the list of APIs itself
	// cannot be read.
	GroupVersions []schema.GroupVersion
	Err           error
}

func (e *UnavailableError) Error() string {
	if len(e.GroupVersions) == 0 {
		return fmt.Sprintf("cannot read the server's list of APIs: %v", e.Err)
	}
	apis := make([]string, len(e.GroupVersions))
	for i, gv := range e.GroupVersions {
		apis[i] = strings.TrimSuffix(gv.String(), "/")
	}
	problem := "the list of resource types is incomplete"
	if e.Ref != (gvr.Ref{}) {
		problem = fmt.Sprintf("cannot determine whether resource type %q exists", e.Ref)
	}
	return fmt.Sprintf("%s: cannot read API %s: %v", problem, strings.Join(apis, ", "), e.Err)
}

func (e *UnavailableError) Unwrap() error { return e.Err }

func joinNames(resources []gvr.Resource) string {
	names := make([]string, len(resources))
	for i, r := range resources {
		names[i] = r.String()
	}
	return strings.Join(names, ", ")
}

// joinErrors is errors.Join with a message on one line.
func joinErrors(errs []error) (all error) {
	for _, err := range errs {
		if all == nil {
			all = err
		} else {
			all = fmt.Errorf("%w; %w", all, err)
		}
	}
	return all
}
