package discovery

import (
	"fmt"
	"strings"

	"github.com/gvrwatch/gvrwatch/gvr"
)

// ChangeType says what a Change tells.
type ChangeType string

const (
	// Added says that the resource is served, and was not told before or was Removed
	// since.
	Added ChangeType = "Added"
	// Removed says that the resource is not served any more: every version of its
	// group could be read, and none of them has it. Resource is as it was told last.
	Removed ChangeType = "Removed"
	// Changed says that Old has become Resource: another version, scope, kind, name,
	// category or verb. A resource may so become one that can be watched or cease to
	// be one. If it was Unknown, it is no longer.
	Changed ChangeType = "Changed"
	// Unknown says that nothing can be said of the Subject at the moment, and Err says
	// why: it may or may not exist. It is told once until it ends.
	Unknown ChangeType = "Unknown"
	// Known ends an Unknown of the same Resource: a resource that is as it was (if it is
	// not, Changed or Removed is told instead), an API or a server that answers again,
	// or an API that is no longer announced.
	Known ChangeType = "Known"
	// Synced says that everything the first look found has been told. It comes once in
	// a range. Resource is zero.
	Synced ChangeType = "Synced"
)

// Change is one thing that Changes tells.
type Change struct {
	Type ChangeType
	// Resource is what the change is about; see Subject.
	Resource gvr.Resource
	// Old is what was told last, with Changed only.
	Old gvr.Resource
	// Err is why nothing can be said, with Unknown only. It may wrap errors of client-go
	// for the predicates of k8s.io/apimachinery/pkg/api/errors.
	Err error
}

// Subject is what a Change is about.
type Subject string

const (
	// OfResource is a resource type that was told before or is told now.
	OfResource Subject = "resource"
	// OfAPI is a group in one version: Resource has only these. An empty Version stands
	// for all versions of the group. What resources it has can't be told while it is
	// Unknown; those that were told before become Unknown one by one.
	OfAPI Subject = "API"
	// OfServer is the server's list of APIs, and with it everything: Resource is zero.
	// While it is Unknown the resources are not told one by one.
	OfServer Subject = "server"
)

// Subject is what c is about. Unknown and Known may be about each of the three,
// Synced is about the server, and the others are about a resource.
func (c Change) Subject() Subject {
	switch {
	case c.Resource.Resource != "":
		return OfResource
	case c.Resource.Group != "" || c.Resource.Version != "":
		return OfAPI
	}
	return OfServer
}

// String is for logs: "Changed widgets.v1.example.com to widgets.v2.example.com".
func (c Change) String() string {
	what := []string{string(c.Type)}
	switch c.Subject() {
	case OfResource:
		if c.Type == Changed && c.Old.GroupVersionResource != c.Resource.GroupVersionResource {
			what = append(what, c.Old.String(), "to")
		}
		what = append(what, c.Resource.String())
	case OfAPI:
		what = append(what, "API", strings.TrimSuffix(c.Resource.GroupVersion().String(), "/"))
	case OfServer:
		if c.Type != Synced {
			what = append(what, "server")
		}
	}
	if c.Err != nil {
		return fmt.Sprintf("%s: %v", strings.Join(what, " "), c.Err)
	}
	return strings.Join(what, " ")
}
