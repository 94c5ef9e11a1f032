package gvr

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// Ref names a resource type as people do. The zero Ref names nothing.
type Ref struct {
	// Group is the API group. If it is empty, the Ref names the core group when
	// Version is set, and any group when Version is empty too. Without a Version it may be how a group begins:
	// see discovery.Resolver.Resolve.
	Group string
	// Version is the API version. Empty means the version the server prefers.
	Version string
	// Name is the plural, the singular, a short name, the kind or the list kind. Package discovery ignores its case.
	Name string
}

// ParseError reports a string that does not name a resource type.
type ParseError struct {
	Input  string // the string given to ParseRef
	Reason string // what is wrong with it, and which spellings are valid
}

func (e *ParseError) Error() string {
	return fmt.Sprintf("invalid resource type %q: %s", e.Input, e.Reason)
}

const spellings = "must be NAME, NAME.GROUP, NAME.VERSION.GROUP, GROUP/VERSION/NAME, " +
	"or VERSION/NAME for the core group"

// kubeVersion matches the versions that Kubernetes sorts by maturity (v1, v2beta3). A CRD may use any other name; such
// a version needs the form with slashes, because foo in "widgets.foo.example.com" is part of the group.
var kubeVersion = regexp.MustCompile(`^v[1-9][0-9]*((alpha|beta)[1-9][0-9]*)?$`)

// resourceName matches plurals, singulars, short names and kinds: RFC 1035 labels in either case.
var resourceName = regexp.MustCompile(`^[A-Za-z]([-A-Za-z0-9]{0,61}[A-Za-z0-9])?$`)

// ParseRef accepts these spellings:
//
//	po, pods, Pod, PodList     NAME: any group, preferred version
//	pods.                      the same, as in kubectl
//	deployments.apps           NAME.GROUP
//	deployments.v1.apps        NAME.VERSION.GROUP, as in kubectl
//	apps/v1/Deployment         GROUP/VERSION/NAME: an apiVersion, a slash, a name
//	v1/pods, pods.v1, pods.v1. VERSION/NAME or NAME.VERSION: the core group
//	v1.example.com/widgets     GROUP/NAME, for groups whose first part looks like a version
//
// In a dotted spelling, the part after the name is the version if it looks like a Kubernetes version (v1, v1beta1).
// ParseRef rejects surrounding white space, subresources (pods/log) and single objects (pods/web-0). The error is a
// [*ParseError].
func ParseRef(s string) (Ref, error) {
	r, reason := parse(s)
	if reason == "" {
		reason = r.invalid()
	}
	if reason != "" {
		return Ref{}, &ParseError{Input: s, Reason: reason}
	}
	return r, nil
}

// parse splits s. The second result says why s cannot be split.
func parse(s string) (Ref, string) {
	if s == "" {
		return Ref{}, "it is empty; " + spellings
	}
	parts := strings.Split(s, "/")
	switch len(parts) {
	case 1:
		return parseDotted(s), ""
	case 2:
		if kubeVersion.MatchString(parts[0]) {
			return Ref{Version: parts[0], Name: parts[1]}, ""
		}
		if strings.Contains(parts[0], ".") {
			return Ref{Group: parts[0], Name: parts[1]}, ""
		}
		return Ref{}, fmt.Sprintf("%q is neither a version nor a group with a dot, "+
			"and single objects and subresources are not resource types; %s", parts[0], spellings)
	case 3:
		if parts[0] == "" || parts[1] == "" {
			return Ref{}, "empty part between slashes; " + spellings
		}
		return Ref{Group: parts[0], Version: parts[1], Name: parts[2]}, ""
	}
	return Ref{}, "too many slashes; " + spellings
}

func parseDotted(s string) Ref {
	name, rest, _ := strings.Cut(s, ".")
	version, group, _ := strings.Cut(rest, ".")
	if kubeVersion.MatchString(version) {
		return Ref{Group: group, Version: version, Name: name}
	}
	return Ref{Group: rest, Name: name}
}

// invalid returns the reason why r cannot name a resource type, or "".
func (r Ref) invalid() string {
	if !resourceName.MatchString(r.Name) {
		return fmt.Sprintf("invalid name %q: must be at most 63 letters, digits and '-', starting with a letter; %s",
			r.Name, spellings)
	}
	if r.Group != "" && len(validation.IsDNS1123Subdomain(r.Group)) > 0 {
		return fmt.Sprintf("invalid group %q: must be a lower-case domain such as apps or example.com; %s",
			r.Group, spellings)
	}
	if kubeVersion.MatchString(r.Group) {
		return fmt.Sprintf("invalid group %q: it is a version; %s", r.Group, spellings)
	}
	if r.Version != "" && len(validation.IsDNS1035Label(r.Version)) > 0 {
		return fmt.Sprintf("invalid version %q: must be a lower-case label such as v1 or v1beta1; %s",
			r.Version, spellings)
	}
	return ""
}

// String returns a spelling that [ParseRef] parses back into the same Ref, with dots where they are unambiguous. For a
// Ref that ParseRef cannot return, the text is readable but need not parse: what can't be printed is escaped as in Go.
func (r Ref) String() string {
	text, dotted := join("/", r.Group, r.Version, r.Name), join(".", r.Name, r.Version, r.Group)
	if (r.Version == "" || kubeVersion.MatchString(r.Version)) && parseDotted(dotted) == r {
		text = dotted
	}
	quoted := strconv.Quote(text)
	return quoted[1 : len(quoted)-1]
}

// join joins the parts that are not empty.
func join(sep string, parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(p string) bool { return p == "" }), sep)
}
