package follow

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/validation"

	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/internal/invalid"
)

// Selection says which resources to follow, and where. The zero value selects nothing.
type Selection struct {
	// Resources are names, in any spelling of gvr.ParseRef, and patterns. A pattern is NAME.GROUP, or NAME for any
	// group. NAME (the plural) and GROUP may have the wildcards of path.Match: "*.example.com" is all of that group,
	// "*.*.example.com" of the groups below it, "*." of the core group, "*" everything.
	//
	// A name need not be served yet. A name that several resources share stands for none of them
	// (ResourceStatus.Cause is a *discovery.AmbiguousError), unless it stood for one of them before.
	Resources []string
	// Categories are those of discovery, such as "all", ignoring case.
	Categories []string
	// Exclude are names and patterns of resources that Categories, and patterns in Resources, must not select, in
	// addition to the defaults ([Selection.Excluded]). A name excludes every resource that it may stand for. Names in
	// Resources are followed in any case.
	Exclude []string
	// NoDefaultExclude leaves out the defaults of Excluded.
	NoDefaultExclude bool
	// Custom leaves out, of what Categories and patterns select, all that no CustomResourceDefinition defines: built-in
	// resources and those of aggregated APIs. With the pattern "*" all custom resources are followed. A definition
	// that is not Established has no status: its resource is followed once it is served.
	//
	// Custom needs the rights to list and watch customresourcedefinitions.apiextensions.k8s.io. If the definitions
	// can't be watched, the ones that were known last count, which are none in the first run until all have been read.
	// Status.Resources then has customresourcedefinitions as Starting (for a minute at most), Failing (after a minute),
	// Forbidden or Gone, with the cause, also after the run. StatusChanged receives each of these but Starting.
	Custom bool

	// Namespaces to watch. Empty means all. If it is set, cluster-scoped resources are followed only if Resources
	// names them.
	Namespaces []string
	// CandidateNamespaces are the namespaces to try if neither watching a resource across the cluster nor listing the
	// namespaces is allowed.
	CandidateNamespaces []string
}

// defaultExclude are Events (in both groups that serve them), Leases and LeaseCandidates. They change all the time and
// say little about what a cluster holds.
var defaultExclude = []string{
	"events.", "events.events.k8s.io", "leases.coordination.k8s.io", "leasecandidates.coordination.k8s.io",
}

// Excluded returns the names and patterns that s excludes: Exclude and, unless NoDefaultExclude is set, "events.",
// "events.events.k8s.io", "leases.coordination.k8s.io" and "leasecandidates.coordination.k8s.io".
func (s Selection) Excluded() []string {
	if s.NoDefaultExclude {
		return slices.Clone(s.Exclude)
	}
	return slices.Concat(defaultExclude, s.Exclude)
}

// Selects reports whether a pattern or a category of s selects r. (Only a discovery.Resolver can match names, and only
// a server knows what is Custom.) It returns a *stream.OptionsError if s is invalid.
func (s Selection) Selects(r gvr.Resource) (bool, error) {
	c, err := s.check()
	return err == nil && c.selects(r), err
}

// selection is a Selection that has been checked.
type selection struct {
	refs       []gvr.Ref
	patterns   []pattern
	exclude    []pattern
	categories []string
	namespaces []string
	candidates []string
	custom     bool
}

// check returns s parsed, or a *stream.OptionsError.
func (s Selection) check() (selection, error) {
	c := selection{custom: s.Custom}
	for _, name := range s.Resources {
		if isPattern(name) {
			p, problem := parsePattern(name)
			if problem != "" {
				return c, invalid.New("Resources", name, problem)
			}
			c.patterns = append(c.patterns, p)
			continue
		}
		ref, err := gvr.ParseRef(name)
		if err != nil {
			return c, invalid.New("Resources", name, err.Error())
		}
		if !slices.Contains(c.refs, ref) {
			c.refs = append(c.refs, ref)
		}
	}
	for _, name := range s.Excluded() {
		p, problem := parseExclude(name)
		if problem != "" {
			return c, invalid.New("Exclude", name, problem)
		}
		c.exclude = append(c.exclude, p)
	}
	if slices.Contains(s.Categories, "") {
		return c, invalid.New("Categories", "", "must be the name of a category, such as all")
	}
	c.categories = slices.Clone(s.Categories)
	var err error
	if c.namespaces, err = checkNamespaces("Namespaces", s.Namespaces); err != nil {
		return c, err
	}
	c.candidates, err = checkNamespaces("CandidateNamespaces", s.CandidateNamespaces)
	return c, err
}

func checkNamespaces(field string, names []string) ([]string, error) {
	for _, n := range names {
		if reasons := validation.ValidateNamespaceName(n, false); len(reasons) > 0 {
			return nil, invalid.New(field, n, "must be the name of a namespace: "+strings.Join(reasons, "; "))
		}
	}
	return slices.Compact(slices.Sorted(slices.Values(names))), nil
}

// selects reports whether a pattern or a category selects r.
func (s *selection) selects(r gvr.Resource) bool {
	if len(s.namespaces) > 0 && !r.Namespaced || !r.ClusterWatch() {
		return false
	}
	matches := func(p pattern) bool { return p.matches(r) }
	inCategory := func(category string) bool {
		return slices.ContainsFunc(r.Categories, func(c string) bool { return strings.EqualFold(c, category) })
	}
	if !slices.ContainsFunc(s.patterns, matches) && !slices.ContainsFunc(s.categories, inCategory) {
		return false
	}
	return !slices.ContainsFunc(s.exclude, matches)
}

// scope returns the namespaces in which r is wanted, none for the cluster.
func (s *selection) scope(r gvr.Resource) []string {
	if !r.Namespaced {
		return nil
	}
	return s.namespaces
}

// pattern matches the plural and the group of a resource.
type pattern struct {
	name, group string
	anyGroup    bool
	ref         *gvr.Ref // a name instead of all that; nil for a pattern
}

// version matches the versions of Kubernetes APIs.
var version = regexp.MustCompile(`^v[0-9]+((alpha|beta)[0-9]+)?$`)

func isPattern(s string) bool { return strings.ContainsAny(s, `*?[\`) }

// parsePattern returns the problem of an invalid pattern.
func parsePattern(s string) (p pattern, problem string) {
	name, group, ok := strings.Cut(s, ".")
	p = pattern{name: strings.ToLower(name), group: strings.ToLower(group), anyGroup: !ok}
	if name == "" {
		return p, "must begin with the plural of a resource or with *"
	}
	if strings.ContainsAny(s, "/ \t\n") {
		return p, "must be NAME.GROUP, without slashes and spaces"
	}
	if first, _, _ := strings.Cut(p.group, "."); version.MatchString(first) {
		return p, "must not have the version " + first + ": a resource is followed in any version"
	}
	for _, part := range []string{p.name, p.group} {
		if _, err := path.Match(part, ""); err != nil {
			return p, "must be a pattern of path.Match: " + err.Error()
		}
	}
	return p, ""
}

// parseExclude parses a pattern or a name.
func parseExclude(s string) (p pattern, problem string) {
	p, problem = parsePattern(s)
	if isPattern(s) || strings.HasSuffix(s, ".") {
		return p, problem
	}
	ref, err := gvr.ParseRef(s)
	if err != nil {
		return p, err.Error()
	}
	p.ref = &ref
	return p, ""
}

func (p pattern) matches(r gvr.Resource) bool {
	if p.ref != nil {
		return mayName(*p.ref, r)
	}
	name, _ := path.Match(p.name, r.Resource)
	group, _ := path.Match(p.group, r.Group)
	return name && (p.anyGroup || group)
}

// mayName reports whether ref may stand for r, so that it is worth resolving.
func mayName(ref gvr.Ref, r gvr.Resource) bool {
	if !mayBelong(ref, r.GroupVersion()) {
		return false
	}
	names := append([]string{r.Resource, r.Singular, r.Kind, r.Kind + "List"}, r.ShortNames...)
	return slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(n, ref.Name) })
}
