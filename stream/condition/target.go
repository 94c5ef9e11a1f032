package condition

import (
	"cmp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/internal/friend"
	"github.com/gvrwatch/gvrwatch/internal/invalid"
	"github.com/gvrwatch/gvrwatch/stream"
)

// Target is an object, or all objects of a kind, and the condition that they have to meet.
type Target struct {
	For Condition // what [Parse], [MustParse] or [New] returns
	// Resource names the resource. For gvrwatch.Connection.Wait it is any name that [gvr.ParseRef] takes, such as
	// "deploy". For [Wait] it is the full name: the plural and the group, such as "deployments.apps" or "pods". If Wait
	// has a Stream or a Sequence, which watch one resource, it may be empty. Otherwise an empty one means all resources
	// of the source, and Name must be empty, too.
	Resource string
	// Namespace is empty for an object without a namespace. If Name is empty, an empty Namespace means all.
	Namespace string
	// Name is that of the object, which need not exist yet. An empty Name means every object that there is, also one
	// that is created during the wait.
	Name string
}

// String returns the object as "deployments.apps shop/web", without the condition. A "*" stands for every object, as in
// "pods shop/*", "pods *" and "*".
func (t Target) String() string {
	text := cmp.Or(t.Name, "*")
	if t.Namespace != "" {
		text = t.Namespace + "/" + text
	}
	if t.Resource != "" {
		text = t.Resource + " " + text
	}
	return text
}

// compare orders targets by condition, then by object.
func (t Target) compare(other Target) int {
	return cmp.Or(cmp.Compare(t.For.String(), other.For.String()), t.compareObject(other))
}

func (t Target) compareObject(other Target) int {
	return cmp.Or(cmp.Compare(t.Resource, other.Resource), cmp.Compare(t.Namespace, other.Namespace),
		cmp.Compare(t.Name, other.Name))
}

// groupResource returns the resource, which is zero for all resources.
func (t Target) groupResource() schema.GroupResource { return schema.ParseGroupResource(t.Resource) }

// stands reports whether a target without a name stands for what is in a namespace.
func (t Target) stands(resource schema.GroupResource, namespace string) bool {
	return (t.Resource == "" || t.groupResource() == resource) && (t.Namespace == "" || t.Namespace == namespace)
}

// checkTarget returns an error about a target of any source.
func checkTarget(t Target) error {
	err := t.For.invalid()
	switch {
	case t.For.kind == "":
		return invalid.New("targets", t.String(), "must have a condition (For) from Parse, MustParse or New")
	case err != nil:
		return err
	case strings.ContainsRune(t.Resource, '/') || strings.ToLower(t.Resource) != t.Resource:
		return invalid.New("targets", t.String(), "must have the full name of a resource, such as deployments.apps")
	}
	return nil
}

// watched is a *stream.Stream or a *stream.Sequence.
type watched interface {
	Key() string
	Resource() gvr.Resource
	Watched(friend.Access) (stream.Options, stream.Run, error)
}

// checkStream returns an error about a target of a Stream, or about the Stream. It completes the target.
func checkStream(s watched, t *Target) error {
	o, run, err := s.Watched(friend.Access{})
	name := s.Resource().GroupResource().String()
	switch {
	case err != nil:
		return err
	case run.Start != stream.Start{} || run.Checkpoint != nil:
		return errPartial
	case o.Objects == stream.Metadata && t.For.kind == status:
		return invalid.New("source", s.Key(), "must deliver Full or Raw objects, because Metadata has no conditions")
	}
	t.Resource = cmp.Or(t.Resource, name)
	namespaced := s.Resource().Namespaced
	switch {
	case namespaced && t.Namespace == "" && t.Name != "", !namespaced && t.Namespace != "":
		return invalid.New("targets", t.String(), "must have a namespace exactly if its resource is namespaced")
	case t.Resource != name, t.Name != "" && o.Name != "" && t.Name != o.Name, t.Namespace != "" &&
		!slices.Contains(o.Namespaces, t.Namespace) && !slices.Contains(o.Namespaces, ""):
		return invalid.New("targets", t.String(), "must be among what the Stream watches, "+s.Key())
	}
	return nil
}
