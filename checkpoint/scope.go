package checkpoint

import "k8s.io/apimachinery/pkg/util/resourceversion"

// Versions are those of a Position: by namespace, and under "" that of all
// namespaces that have none of their own.
type Versions map[string]string

// Of returns the version up to which everything in a namespace has been told. It
// is empty within a snapshot, and where nothing is known.
func (v Versions) Of(namespace string) string {
	if rv, ok := v[namespace]; ok {
		return rv
	}
	return v[""]
}

// Lowest returns the version that a watch of the whole cluster has to begin at so
// that it misses nothing anywhere. There is no such version (rv is empty) if
// nothing is known. Listed says that there are namespaces of which nothing is
// known, so that those must be listed besides. If ok is false the versions can't
// be compared.
func (v Versions) Lowest() (rv string, listed, ok bool) {
	listed = v[""] == ""
	for _, one := range v {
		switch {
		case one == "":
			listed = true
		case rv == "" || isBefore(one, rv):
			rv = one
		case !isBefore(rv, one) && one != rv:
			return "", true, false
		}
	}
	return rv, listed, true
}

// Past leaves out what a watch of the whole cluster has passed, once it has told
// everything up to a version.
func (v Versions) Past(rv string) Versions {
	past := Versions{"": later(v[""], rv)}
	for n, one := range v {
		if one = later(one, rv); n != "" && one != past[""] {
			past[n] = one
		}
	}
	return past
}

// with says up to which version everything is known that has no version of its
// own, if that is not known yet.
func (v Versions) with(base string) Versions {
	if base == "" {
		return v
	}
	all := Versions{}
	for n, rv := range v {
		if rv != "" {
			all[n] = rv
		}
	}
	all[""] = base
	return all
}

func later(a, b string) string {
	if a == "" || isBefore(a, b) {
		return b
	}
	return a
}

func isBefore(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order < 0
}
