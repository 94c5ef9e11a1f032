package discovery

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	apidiscovery "k8s.io/api/apidiscovery/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientdiscovery "k8s.io/client-go/discovery"

	"github.com/gvrwatch/gvrwatch/internal/guard"
)

// documentTransport refuses answers that succeed without being the discovery document that was requested. client-go
// would make an empty one of them: of {}, null, a Status, and a document of another kind or version, so that all types
// would seem to be gone.
type documentTransport struct{ next http.RoundTripper }

func (t *documentTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := t.next.RoundTrip(r)
	wanted, ok := documentAt(r.URL.Path)
	switch {
	case !ok || r.Method != http.MethodGet:
		return response, err
	case apierrors.IsNotFound(err) && wanted.core && wanted.groupVersion != "":
		// client-go takes it for an empty core group.
		return nil, invalidDocument(r, "404 Not Found, although the server lists the version")
	case err != nil:
		return nil, err
	}
	if response.StatusCode < http.StatusOK || response.StatusCode > http.StatusPartialContent {
		return response, nil // client-go returns an error
	}
	// Whatever the Content-Encoding is: client-go doesn't heed it, and net/http has removed that which it has decoded.
	body, err := io.ReadAll(response.Body)
	_ = response.Body.Close()
	if err != nil {
		// Not a bare io.EOF: client-go would repeat the request at once.
		return nil, fmt.Errorf("reading the discovery document: %w", err)
	}
	body, problem := wanted.check(body, response.Header.Get("Content-Type"))
	if problem != "" {
		return nil, invalidDocument(r, problem)
	}
	response.Body = io.NopCloser(bytes.NewReader(body))
	return response, nil
}

func invalidDocument(r *http.Request, problem string) error {
	return guard.Refused(fmt.Sprintf("invalid discovery document %s: %s", quoted(r.URL.Path), problem))
}

func (t *documentTransport) WrappedRoundTripper() http.RoundTripper { return t.next }

// wantedDocument is what a path has.
type wantedDocument struct {
	core         bool   // /api, else /apis
	groupVersion string // of a list of resources; empty for a list of groups
}

// documentAt returns what a path has, below any prefix, and false if it is not a discovery document.
func documentAt(path string) (wantedDocument, bool) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	at := func(fromEnd int) string {
		if len(parts) < fromEnd {
			return ""
		}
		return parts[len(parts)-fromEnd]
	}
	switch {
	case strings.Contains(path, "/openapi/"):
		return wantedDocument{}, false
	case at(1) == "api", at(1) == "apis":
		return wantedDocument{core: at(1) == "api"}, true
	case at(2) == "api" && at(1) == "v1":
		return wantedDocument{core: true, groupVersion: "v1"}, true
	case at(3) == "apis":
		return wantedDocument{groupVersion: at(2) + "/" + at(1)}, true
	}
	return wantedDocument{}, false
}

// anyDocument has what distinguishes the discovery documents.
type anyDocument struct {
	metav1.TypeMeta // embedded because it is part of the document
	GroupVersion    string
	Items           elements[listedGroup] // of an APIGroupDiscoveryList
	Groups          elements[listedGroup]
	Versions        elements[string]
	Resources       elements[struct{}]
}

const aggregatedVersion = "apidiscovery.k8s.io/v2"

// check returns a document as client-go may have it, or what is wrong with it. What is wrong with single resources,
// newCatalog finds.
func (w wantedDocument) check(body []byte, contentType string) (_ []byte, problem string) {
	var d anyDocument
	if err := json.Unmarshal(body, &d); err != nil {
		return nil, fmt.Sprintf("it has %d bytes and is not a discovery document in JSON: %v", len(body), err)
	}
	kind, apiVersion, members := "APIGroupList", "v1", d.Groups.members()
	problem = w.groupProblem(d.Groups.all, false)
	switch {
	case w.groupVersion != "":
		kind, members, problem = "APIResourceList", d.Resources.members(), ""
		if d.GroupVersion != w.groupVersion {
			problem = fmt.Sprintf("invalid groupVersion %s: must be %s", quoted(d.GroupVersion), quoted(w.groupVersion))
		}
	case isAggregated(contentType):
		kind, apiVersion, members = "APIGroupDiscoveryList", aggregatedVersion, d.Items.members()
		problem = w.groupProblem(d.Items.all, true)
	case w.core:
		kind, members, problem = "APIVersions", d.Versions.members(), versionProblem(d.Versions.all)
	}
	legacy := apiVersion == "v1" && d.APIVersion == "" // a kube-apiserver leaves out the v1 of some
	switch {
	case d.Kind == "" && d.APIVersion == "" && members > 0: // as an API server that some program implements may answer
	case d.Kind != kind:
		return nil, fmt.Sprintf("invalid kind %s: must be %s", quoted(d.Kind), kind)
	case d.APIVersion != apiVersion && !legacy:
		return nil, fmt.Sprintf("invalid apiVersion %s of an %s: must be %s", quoted(d.APIVersion), kind, apiVersion)
	case members < 0:
		return nil, fmt.Sprintf("invalid %s: it has no list", kind)
	case problem == "" && slices.ContainsFunc(d.Items.all, listedGroup.lossy):
		return lossless(body), ""
	}
	return body, problem
}

// lossless returns a document of which client-go drops nothing that would then seem to be gone.
//
//   - A resource without a kind gets an empty one. A kube-apiserver lists such a resource if only its subresources are
//     served.
//   - A version of another freshness than Current becomes a Stale one. No freshness is as good as Current.
func lossless(body []byte) []byte {
	var list apidiscovery.APIGroupDiscoveryList
	if json.Unmarshal(body, &list) != nil {
		return body // so that client-go returns the error
	}
	for _, g := range list.Items {
		for j := range g.Versions {
			v := &g.Versions[j]
			if isStale(v.Freshness) {
				v.Freshness = apidiscovery.DiscoveryFreshnessStale
			}
			for i := range v.Resources {
				if r := &v.Resources[i]; r.ResponseKind == nil || *r.ResponseKind == (metav1.GroupVersionKind{}) {
					r.ResponseKind = &metav1.GroupVersionKind{Group: g.Name, Version: v.Version}
				}
			}
		}
	}
	if changed, err := json.Marshal(list); err == nil {
		return changed
	}
	return body
}

func isStale(f apidiscovery.DiscoveryFreshness) bool {
	return f != "" && f != apidiscovery.DiscoveryFreshnessCurrent
}

// isAggregated reports whether client-go will decode an APIGroupDiscoveryList.
func isAggregated(contentType string) bool {
	gvk := metav1.SchemeGroupVersion.WithKind("APIGroupDiscoveryList")
	gvk.Group, gvk.Version, _ = strings.Cut(aggregatedVersion, "/")
	is, err := clientdiscovery.ContentTypeIsGVK(contentType, gvk)
	return is && err == nil
}

// listedGroup is a group in a list, in either form.
type listedGroup struct {
	Name     string                // in an APIGroupList
	Metadata struct{ Name string } // in an APIGroupDiscoveryList
	Versions []struct {
		Version      string
		GroupVersion string // in an APIGroupList
		Freshness    apidiscovery.DiscoveryFreshness
		Resources    []struct{ ResponseKind struct{ Kind string } }
	}
}

// lossy reports whether client-go would drop a part of g.
func (g listedGroup) lossy() bool {
	for _, v := range g.Versions {
		if isStale(v.Freshness) {
			return true
		}
		for _, r := range v.Resources {
			if r.ResponseKind.Kind == "" {
				return true
			}
		}
	}
	return false
}

// groupProblem returns what is wrong with groups. A group without a name may be any group. Of a version that is twice
// in an APIGroupDiscoveryList, client-go would keep the resources of the last one only.
func (w wantedDocument) groupProblem(groups []listedGroup, aggregated bool) string {
	seen := map[schema.GroupVersion]bool{}
	for i, g := range groups {
		name := g.Name
		if aggregated {
			name = g.Metadata.Name
		}
		if w.core != (name == "") {
			return fmt.Sprintf("invalid name %s of group %d: must be that of a group of this path", quoted(name), i)
		}
		for _, v := range g.Versions {
			gv := schema.GroupVersion{Group: name, Version: v.Version}
			switch {
			case v.Version == "":
				return fmt.Sprintf("group %s has a version without a name", quoted(name))
			case v.GroupVersion != "" && v.GroupVersion != gv.String():
				return fmt.Sprintf("invalid groupVersion %s: must be %s", quoted(v.GroupVersion), quoted(gv.String()))
			case aggregated && seen[gv]:
				return fmt.Sprintf("it has version %s twice", quoted(gv.String()))
			}
			seen[gv] = true
		}
	}
	return ""
}

func versionProblem(versions []string) string {
	for _, v := range versions {
		if v == "" {
			return "it has a version without a name"
		}
	}
	return ""
}

// elements are the elements of a list, which may be missing.
type elements[T any] struct {
	present bool
	all     []T
}

// UnmarshalJSON implements [json.Unmarshaler].
func (e *elements[T]) UnmarshalJSON(b []byte) error {
	e.present = true
	return json.Unmarshal(b, &e.all)
}

// members returns how many there are, or -1 if the list is missing. A list that is null is as empty as one without
// elements: encoding/json writes an empty one so, and the API conventions make no difference.
func (e *elements[T]) members() int {
	if !e.present {
		return -1
	}
	return len(e.all)
}

// quoted returns a text of a server for an error.
func quoted(s string) string {
	if len(s) > maxName {
		s = strings.ToValidUTF8(s[:maxName], "") + "..."
	}
	return fmt.Sprintf("%q", s)
}
