package mux

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/validation"

	"github.com/gvrwatch/gvrwatch/gvr"
)

// Selection says which resources to follow, and where. Zero selects nothing.
type Selection struct {
	// Resources are names, in any spelling of gvr.ParseRef, and patterns. A pattern
	// is NAME.GROUP, or NAME for any group, where NAME (the plural) and GROUP may
	// hold the wildcards of path.Match: "*.example.com" is all of that group,
	// "*.*.example.com" of the groups below it, "*." of the core group, "*" of all.
	// What a name stands for need not be served yet. A name that several resources
	// share stands for none of them (Followed.Cause is a *discovery.AmbiguousError)
	// unless it did before.
	Resources []string
	// Categories are those of discovery, as "all".
	Categories []string
	// Exclude are names and patterns of resources that no pattern and no category
	// selects, besides DefaultExclude. A name excludes all that it may stand for.
	// Names in Resources are followed in any case.
	Exclude []string
	// Everything leaves DefaultExclude out of account.
	Everything bool

	// Namespaces to watch in. Empty means all. Of resources that live in none,
	// only those that are named are followed then.
	Namespaces []string
	// Candidates are namespaces to try where one may not watch a resource across the
	// cluster, nor list the namespaces there are.
	Candidates []string
}

// DefaultExclude returns the patterns of what Selection leaves out unless it is
// named: resources that change all the time and say little of what a cluster holds.
// (Events are one storage with two names.)
func DefaultExclude() []string {
	return []string{"events.", "events.events.k8s.io", "leases.coordination.k8s.io", "leasecandidates.coordination.k8s.io"}
}

// SelectionError says what a Selection can't hold.
type SelectionError struct {
	Field, Value string
	Err          error
}

func (e *SelectionError) Error() string {
	return fmt.Sprintf("mux: Selection.%s holds %q: %v", e.Field, e.Value, e.Err)
}

func (e *SelectionError) Unwrap() error { return e.Err }

// selection is a Selection that was checked.
type selection struct {
	refs       []gvr.Ref
	patterns   []pattern
	exclude    []pattern
	categories []string
	namespaces []string
	candidates []string
}

// pattern matches the plural and the group of a resource. Any group will do if
// anyGroup.
type pattern struct {
	name, group string
	anyGroup    bool
	ref         *gvr.Ref // it is a name, and none of the others
}

func parsePattern(s string) (pattern, error) {
	name, group, ok := strings.Cut(s, ".")
	p := pattern{name: strings.ToLower(name), group: strings.ToLower(group), anyGroup: !ok}
	if name == "" {
		return p, fmt.Errorf("a pattern begins with the plural of a resource, or with *")
	}
	if strings.ContainsAny(s, "/ \t\n") {
		return p, fmt.Errorf("a pattern is NAME.GROUP, without slashes and spaces")
	}
	if first, _, _ := strings.Cut(p.group, "."); version.MatchString(first) {
		return p, fmt.Errorf("a pattern has no version, since the versions of a resource are followed as one: leave %s out", first)
	}
	for _, part := range []string{p.name, p.group} {
		if _, err := path.Match(part, ""); err != nil {
			return p, err
		}
	}
	return p, nil
}

// version is what a version of Kubernetes looks like.
var version = regexp.MustCompile(`^v[0-9]+((alpha|beta)[0-9]+)?$`)

func (p pattern) matches(r gvr.Resource) bool {
	if p.ref != nil {
		return mayName(*p.ref, r)
	}
	name, _ := path.Match(p.name, r.Resource)
	group, _ := path.Match(p.group, r.Group)
	return name && (p.anyGroup || group)
}

// isPattern tells patterns from names.
func isPattern(s string) bool { return strings.ContainsAny(s, `*?[\`) }

func (s Selection) check() (selection, error) {
	var c selection
	for _, name := range s.Resources {
		if isPattern(name) {
			p, err := parsePattern(name)
			if err != nil {
				return c, &SelectionError{"Resources", name, err}
			}
			c.patterns = append(c.patterns, p)
			continue
		}
		ref, err := gvr.ParseRef(name)
		if err != nil {
			return c, &SelectionError{"Resources", name, err}
		}
		if !slices.Contains(c.refs, ref) {
			c.refs = append(c.refs, ref)
		}
	}
	exclude := s.Exclude
	if !s.Everything {
		exclude = append(DefaultExclude(), exclude...)
	}
	for _, name := range exclude {
		p, err := parsePattern(name)
		if !isPattern(name) && !strings.HasSuffix(name, ".") {
			var ref gvr.Ref
			ref, err = gvr.ParseRef(name)
			p.ref = &ref
		}
		if err != nil {
			return c, &SelectionError{"Exclude", name, err}
		}
		c.exclude = append(c.exclude, p)
	}
	for _, category := range s.Categories {
		if category == "" {
			return c, &SelectionError{"Categories", category, fmt.Errorf("a category has a name, such as all")}
		}
	}
	c.categories = slices.Clone(s.Categories)
	var err error
	if c.namespaces, err = checkNames("Namespaces", s.Namespaces); err != nil {
		return c, err
	}
	c.candidates, err = checkNames("Candidates", s.Candidates)
	return c, err
}

func checkNames(field string, names []string) ([]string, error) {
	for _, n := range names {
		if reasons := validation.ValidateNamespaceName(n, false); len(reasons) > 0 {
			return nil, &SelectionError{field, n, fmt.Errorf("it is no name of a namespace: %s", strings.Join(reasons, "; "))}
		}
	}
	return slices.Compact(slices.Sorted(slices.Values(names))), nil
}

// Selects says whether a pattern or a category of s selects r; which resources its
// names stand for a discovery.Resolver knows. If s can't be followed it returns a
// *SelectionError.
func (s Selection) Selects(r gvr.Resource) (bool, error) {
	c, err := s.check()
	return err == nil && c.selects(r), err
}

// selects says whether a pattern or a category selects r.
func (s *selection) selects(r gvr.Resource) bool {
	if len(s.namespaces) > 0 && !r.Namespaced || !r.ClusterWatch() {
		return false
	}
	if !slices.ContainsFunc(s.patterns, func(p pattern) bool { return p.matches(r) }) &&
		!slices.ContainsFunc(s.categories, func(c string) bool { return slices.Contains(r.Categories, c) }) {
		return false
	}
	return !slices.ContainsFunc(s.exclude, func(p pattern) bool { return p.matches(r) })
}

// mayName says whether ref may stand for r, so that it is worth the question.
func mayName(ref gvr.Ref, r gvr.Resource) bool {
	if (ref.Version != "" || ref.Group != "") && !strings.EqualFold(ref.Group, r.Group) {
		return false
	}
	names := append([]string{r.Resource, r.Singular, r.Kind, r.Kind + "List"}, r.ShortNames...)
	return slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(n, ref.Name) })
}

// scope is where r is watched at first: in these namespaces, or if there are none
// across the cluster.
func (s *selection) scope(r gvr.Resource) []string {
	if !r.Namespaced {
		return nil
	}
	return s.namespaces
}
