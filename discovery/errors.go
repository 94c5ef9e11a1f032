package discovery

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gvrwatch/gvrwatch/gvr"
)

// NotFoundError says that the server serves no such resource type. It is
// returned only after a look at the server that began after the question.
type NotFoundError struct {
	Ref     gvr.Ref
	Similar []gvr.Resource // at most five served types of similar name, likeliest first
}

func (e *NotFoundError) Error() string {
	msg := fmt.Sprintf("the server serves no resource type %q", e.Ref)
	if len(e.Similar) > 0 {
		msg += "; did you mean " + nameAll(e.Similar) + "?"
	}
	return msg
}

// AmbiguousError says that the name alone fits several resource types.
type AmbiguousError struct {
	Ref        gvr.Ref
	Candidates []gvr.Resource // at least two, in the server's order of groups
}

func (e *AmbiguousError) Error() string {
	return fmt.Sprintf("%q names more than one resource type: write one of %s", e.Ref, nameAll(e.Candidates))
}

// UnavailableError says that part of the server's APIs could not be read, so
// that it is not known whether a resource type exists. Errors of client-go
// (k8s.io/apimachinery/pkg/api/errors) can be found in it by errors.As and by
// the predicates of that package, such as IsForbidden.
type UnavailableError struct {
	Ref gvr.Ref // the zero Ref if all resources were asked for
	// GroupVersions are the APIs that could not be read. A Version may be empty:
	// then no version of the group answers. None at all means that the list of
	// APIs itself could not be read.
	GroupVersions []schema.GroupVersion
	Err           error
}

func (e *UnavailableError) Error() string {
	if len(e.GroupVersions) == 0 {
		return fmt.Sprintf("the server's list of APIs can't be read: %v", e.Err)
	}
	apis := make([]string, len(e.GroupVersions))
	for i, gv := range e.GroupVersions {
		apis[i] = strings.TrimSuffix(gv.String(), "/")
	}
	what := "the list of resource types is incomplete"
	if e.Ref != (gvr.Ref{}) {
		what = fmt.Sprintf("it can't be told whether the resource type %q exists", e.Ref)
	}
	return fmt.Sprintf("%s: no answer from the API %s: %v", what, strings.Join(apis, ", "), e.Err)
}

func (e *UnavailableError) Unwrap() error { return e.Err }

func nameAll(resources []gvr.Resource) string {
	names := make([]string, len(resources))
	for i, r := range resources {
		names[i] = r.String()
	}
	return strings.Join(names, ", ")
}

// inOneLine is errors.Join for a message that stays one line.
func inOneLine(errs []error) (all error) {
	for _, err := range errs {
		if all == nil {
			all = err
		} else {
			all = fmt.Errorf("%w; %w", all, err)
		}
	}
	return all
}
