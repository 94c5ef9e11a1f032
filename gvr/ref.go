package gvr

import (
	"fmt"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// Ref names a resource type the way people do. The zero Ref names nothing.
type Ref struct {
	// Group is the API group. Empty means the core group if Version is set,
	// any group if it is not.
	Group string
	// Version is the API version. Empty means the one the server prefers.
	Version string
	// Name is the plural, the singular, a short name, the kind or the list
	// kind. Upper and lower case are the same to the resolver.
	Name string
}

// ParseError reports a string that does not name a resource type.
type ParseError struct {
	Input  string // what was given
	Reason string // what is wrong with it and what would be right
}

func (e *ParseError) Error() string {
	return fmt.Sprintf("%q does not name a resource type: %s", e.Input, e.Reason)
}

const spellings = "write NAME, NAME.GROUP, NAME.VERSION.GROUP, GROUP/VERSION/NAME or, for the core group, VERSION/NAME"

// kubeVersion matches the versions that Kubernetes itself orders (v1, v2beta3).
// A CRD may use other names; those need the form with slashes, because in
// "widgets.foo.example.com" nothing tells a version from the first part of a
// group.
var kubeVersion = regexp.MustCompile(`^v[1-9][0-9]*((alpha|beta)[1-9][0-9]*)?$`)

// resourceName matches plurals, singulars, short names and kinds: DNS labels
// (RFC 1035), but in either case.
var resourceName = regexp.MustCompile(`^[A-Za-z]([-A-Za-z0-9]{0,61}[A-Za-z0-9])?$`)

// ParseRef reads any of these spellings:
//
//	po, pods, Pod, PodList     a name alone: any group, preferred version
//	deployments.apps           NAME.GROUP
//	deployments.v1.apps        NAME.VERSION.GROUP, as in kubectl
//	apps/v1/Deployment         GROUP/VERSION/NAME: an apiVersion, a slash, a name
//	v1/pods, pods.v1, pods.v1. VERSION/NAME, NAME.VERSION: the core group
//	v1.example.com/widgets     GROUP/NAME, for groups whose first part looks like a version
//
// With dots, a first part that looks like a Kubernetes version (v1, v1beta1)
// is the version. Surrounding white space is an error, and so are subresources
// (pods/log) and single objects (pods/web-0). The error is a *ParseError.
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

func parse(s string) (Ref, string) {
	if s == "" {
		return Ref{}, "it is empty; " + spellings
	}
	parts := strings.Split(s, "/")
	switch len(parts) {
	case 1:
		if strings.Count(s, ".") == 1 && strings.HasSuffix(s, ".") {
			return Ref{}, "nothing after the dot; " + spellings
		}
		return parseDotted(s), ""
	case 2:
		if kubeVersion.MatchString(parts[0]) {
			return Ref{Version: parts[0], Name: parts[1]}, ""
		}
		if strings.Contains(parts[0], ".") {
			return Ref{Group: parts[0], Name: parts[1]}, ""
		}
		return Ref{}, fmt.Sprintf("%q is neither a version nor a group with a dot, "+
			"and single objects and subresources can't be named here; %s", parts[0], spellings)
	case 3:
		if parts[0] == "" || parts[1] == "" {
			return Ref{}, "an empty part between slashes; " + spellings
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

// invalid says what keeps r from naming a resource type, "" if nothing does.
func (r Ref) invalid() string {
	if !resourceName.MatchString(r.Name) {
		return fmt.Sprintf("%q is no resource name or kind (letters, digits and '-', first a letter, at most 63); %s", r.Name, spellings)
	}
	if r.Group != "" && len(validation.IsDNS1123Subdomain(r.Group)) > 0 {
		return fmt.Sprintf("%q is no API group (a lower-case domain such as apps or example.com); %s", r.Group, spellings)
	}
	if kubeVersion.MatchString(r.Group) {
		return fmt.Sprintf("the group %q is a version; %s", r.Group, spellings)
	}
	if r.Version != "" && len(validation.IsDNS1035Label(r.Version)) > 0 {
		return fmt.Sprintf("%q is no API version (such as v1 or v1beta1); %s", r.Version, spellings)
	}
	return ""
}

// String gives a spelling that ParseRef reads back to the same Ref, with dots
// where they are unambiguous. Of a Ref that ParseRef could not have returned
// it gives something readable.
func (r Ref) String() string {
	dotted := join(".", r.Name, r.Version, r.Group)
	if r.Version == "" || kubeVersion.MatchString(r.Version) {
		if parseDotted(dotted) == r {
			return dotted
		}
	}
	return join("/", r.Group, r.Version, r.Name)
}

func join(sep string, parts ...string) string {
	kept := parts[:0:0]
	for _, p := range parts {
		if p != "" {
			kept = append(kept, p)
		}
	}
	return strings.Join(kept, sep)
}
