package discovery

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"

	apidiscovery "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	if err != nil || !ok || r.Method != http.MethodGet {
		return response, err
	}
	problem := ""
	switch code := response.StatusCode; {
	case code == http.StatusNotFound && response.Body != nil:
		problem = wanted.missing(response)
	case code < http.StatusOK || code > http.StatusPartialContent || response.Header.Get("Content-Encoding") != "":
		return response, nil // client-go returns an error
	default:
		var body []byte
		if body, err = io.ReadAll(response.Body); err == nil {
			body, problem = wanted.check(body, response.Header.Get("Content-Type"))
		}
		_ = response.Body.Close()
		response.Body = io.NopCloser(bytes.NewReader(body))
	}
	switch {
	case err != nil:
		// Not a bare io.EOF: client-go would repeat the request at once.
		return nil, fmt.Errorf("reading the discovery document: %w", err)
	case problem != "":
		_ = response.Body.Close()
		return nil, guard.Refused(fmt.Sprintf("invalid discovery document %s: %s", quoted(r.URL.Path), problem))
	}
	return response, nil
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

// missing returns what is wrong with a 404. client-go takes it for an empty core group, as that of an aggregated API
// server.
func (w wantedDocument) missing(response *http.Response) string {
	contentType, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
	switch {
	case w.core && w.groupVersion != "":
		return "404 Not Found, although the server lists the version"
	case contentType == "text/html":
		return "404 Not Found with text/html: must be the answer of a Kubernetes API server"
	}
	return ""
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
	problem = w.groupProblem(d.Groups.all)
	switch {
	case w.groupVersion != "":
		kind, members, problem = "APIResourceList", d.Resources.members(), ""
		if d.GroupVersion != w.groupVersion {
			problem = fmt.Sprintf("invalid groupVersion %s: must be %s", quoted(d.GroupVersion), quoted(w.groupVersion))
		}
	case isAggregated(contentType):
		kind, apiVersion, members = "APIGroupDiscoveryList", aggregatedVersion, d.Items.members()
		problem = w.groupProblem(d.Items.all)
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
	case problem == "" && slices.ContainsFunc(d.Items.all, listedGroup.lacksKind):
		return withKinds(body), ""
	}
	return body, problem
}

// withKinds gives the resources that have no kind an empty one. Without, client-go drops them, and they would seem to
// be gone. A kube-apiserver lists such a resource if only its subresources are served.
func withKinds(body []byte) []byte {
	var list apidiscovery.APIGroupDiscoveryList
	if json.Unmarshal(body, &list) != nil {
		return body // so that client-go returns the error
	}
	for _, g := range list.Items {
		for _, v := range g.Versions {
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

// isAggregated reports whether client-go will decode an APIGroupDiscoveryList.
func isAggregated(contentType string) bool {
	gvk := metav1.SchemeGroupVersion.WithKind("APIGroupDiscoveryList")
	gvk.Group, gvk.Version, _ = strings.Cut(aggregatedVersion, "/")
	is, err := clientdiscovery.ContentTypeIsGVK(contentType, gvk)
	return is && err == nil
}

// listedGroup is a group in a list, in either form.
type listedGroup struct {
	Name     string
	Metadata struct{ Name string }
	Versions []struct {
		Version   string
		Resources []struct{ ResponseKind struct{ Kind string } }
	}
}

func (g listedGroup) lacksKind() bool {
	for _, v := range g.Versions {
		for _, r := range v.Resources {
			if r.ResponseKind.Kind == "" {
				return true
			}
		}
	}
	return false
}

// groupProblem returns what is wrong with groups. A group without a name may be any group.
func (w wantedDocument) groupProblem(groups []listedGroup) string {
	for i, g := range groups {
		name := g.Name + g.Metadata.Name
		if w.core != (name == "") {
			return fmt.Sprintf("invalid name %s of group %d: must be that of a group of this path", quoted(name), i)
		}
		for _, v := range g.Versions {
			if v.Version == "" {
				return fmt.Sprintf("group %s has a version without a name", quoted(name))
			}
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

// members returns how many there are, or -1 if the list is missing. A list that is null is empty: encoding/json writes
// an empty one so.
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
