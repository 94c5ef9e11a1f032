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
	// Category has the served types in the category that Ref names, such as "all". It is empty if Ref names none.
	// Programs select a category with mux/follow.Selection.
	Category []gvr.Resource
}

func (e *NotFoundError) Error() string {
	if len(e.Category) > 0 {
		return fmt.Sprintf("%q is a category with %d resource types: must be one of them (%s), or be selected as a "+
			"category", e.Ref, len(e.Category), joinNames(e.Category))
	}
	msg := fmt.Sprintf("the server serves no resource type %q", e.Ref)
	if len(e.Similar) > 0 {
		msg += "; did you mean " + joinNames(e.Similar) + "?"
	}
	return msg
}

// AmbiguousError reports that a name without a group matches several resource types.
type AmbiguousError struct {
	Ref        gvr.Ref
	Candidates []gvr.Resource // at least two, in the server's order of groups; the message lists ten
}

func (e *AmbiguousError) Error() string {
	return fmt.Sprintf("ambiguous resource type %q: must be one of %s", e.Ref, joinNames(e.Candidates))
}

// UnavailableError reports that some of the server's APIs cannot be read, so that a resource type may or may not exist.
// It wraps the errors of client-go, so errors.As and the predicates of k8s.io/apimachinery/pkg/api/errors, such as
// IsForbidden, work on it. If more than ten APIs cannot be read, it wraps the errors of the first ten.
type UnavailableError struct {
	Ref gvr.Ref // zero if all resources were requested
	// GroupVersions are the APIs that cannot be read. An empty Version stands for every version of the group.
	// GroupVersions is empty if the list of APIs itself cannot be read.
	GroupVersions []schema.GroupVersion
	Err           error
}

func (e *UnavailableError) Error() string {
	if len(e.GroupVersions) == 0 {
		return fmt.Sprintf("cannot read the server's list of APIs: %v", e.Err)
	}
	problem := "the list of resource types is incomplete"
	if e.Ref != (gvr.Ref{}) {
		problem = fmt.Sprintf("cannot determine whether resource type %q exists", e.Ref)
	}
	return fmt.Sprintf("%s: cannot read API %s: %v", problem, joinNames(e.GroupVersions), e.Err)
}

func (e *UnavailableError) Unwrap() error { return e.Err }

const (
	// maxListed is how many names and causes an error lists.
	maxListed = 10
	// maxName is how many bytes of a name it shows. Of a valid name, these are all: 63 for the plural, 63 for the
	// version and 253 for the group.
	maxName = 63 + 1 + 63 + 1 + 253
)

// joinNames lists resources or APIs.
func joinNames[T fmt.Stringer](all []T) string {
	var names []string
	for _, one := range all[:min(len(all), maxListed)] {
		name := strings.TrimSuffix(one.String(), "/") // of an API without a version
		if len(name) > maxName {
			name = strings.ToValidUTF8(name[:maxName], "") + "..."
		}
		names = append(names, name)
	}
	text := strings.Join(names, ", ")
	if more := len(all) - len(names); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// joinErrors is errors.Join with a message on one line. It wraps the first errors only.
func joinErrors(errs []error) (all error) {
	for i, err := range errs {
		switch {
		case i == 0:
			all = err
		case i == maxListed:
			return fmt.Errorf("%w; and %d more", all, len(errs)-maxListed)
		default:
			all = fmt.Errorf("%w; %w", all, err)
		}
	}
	return all
}
