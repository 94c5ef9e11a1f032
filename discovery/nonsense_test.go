package discovery_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clientdiscovery "k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"

	"github.com/gvrwatch/gvrwatch/discovery"
)

const (
	plainJSON  = "application/json"
	aggregated = clientdiscovery.AcceptV2
	beta       = "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList"
)

// nonsense is an answer that succeeds without being the document that was requested.
type nonsense struct {
	path, contentType, body string
	legacy                  bool
	text                    string // part of the error
	why                     string
}

var nonsenses = []nonsense{
	{"/apis", plainJSON, `{}`, false, `invalid kind "": must be APIGroupList`, "an object without anything"},
	{"/apis", aggregated, `{}`, false, `invalid kind "": must be APIGroupDiscoveryList`, "the same, as aggregated"},
	{"/apis", plainJSON, `null`, false, `invalid kind ""`, "null"},
	{"/apis", aggregated, `null`, false, `invalid kind ""`, "null, as aggregated"},
	{"/apis", plainJSON, `[]`, false, "is not a discovery document", "an array"},
	{"/apis", plainJSON, ``, false, "is not a discovery document", "no body"},
	{"/apis", "text/html", `<html>Please log in</html>`, false, "is not a discovery document", "a login page"},
	{"/apis", plainJSON, `{"kind":"Status","apiVersion":"v1","status":"Success"}`, false, `invalid kind "Status"`,
		"a Status"},
	{"/apis", aggregated, `{"kind":"Status","apiVersion":"v1","items":[]}`, false, `invalid kind "Status"`,
		"a Status, as aggregated"},
	{"/apis", plainJSON, `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[]}`, false,
		`invalid kind "PodList"`, "a list of objects"},
	{"/apis", plainJSON, `{"kind":"APIGroupList","apiVersion":"v2","groups":[]}`, false, `invalid apiVersion "v2"`,
		"another version"},
	{"/apis", aggregated, `{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v3","items":[]}`, false,
		`invalid apiVersion "apidiscovery.k8s.io/v3"`, "another version, as aggregated"},
	{"/apis", beta, `{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2beta1","items":[]}`, false,
		`invalid kind "APIGroupDiscoveryList": must be APIGroupList`, "a form that was not requested"},
	{"/apis", plainJSON, `{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2","items":[]}`, false,
		`invalid kind "APIGroupDiscoveryList": must be APIGroupList`, "a proxy has cut the content type"},
	{"/apis", plainJSON, `{"kind":"APIGroupList","apiVersion":"v1"}`, true, "it has no list", "no groups"},
	{"/apis", aggregated, `{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2"}`, false,
		"it has no list", "no items"},
	{"/apis", plainJSON, `{"groups":[]}`, false, `invalid kind ""`, "no kind, and nothing that says what it is"},
	{"/apis", plainJSON, `{"kind":"APIGroupList","apiVersion":"v1","groups":{}}`, true, "is not a discovery document",
		"an object in the place of a list"},
	{"/apis", plainJSON, `{"kind":"APIGroupList","apiVersion":"v1","groups":[null]}`, true, "invalid name",
		"a null group"},
	{"/apis", aggregated, `{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2","items":[5]}`, false,
		"is not a discovery document", "a number in the place of a group"},
	{"/apis", aggregated, `{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2","items":[{}]}`, false,
		"invalid name", "a group without a name"},
	{"/apis", aggregated, `{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2","items":[` +
		`{"metadata":{"name":"example.com"},"versions":[null]}]}`, false, "a version without a name", "a null version"},
	{"/apis", aggregated, aggregatedGroups(`{"name":"apps","versions":[]}`), false, "invalid name",
		"the name of a group where another form has it"},
	{"/apis", plainJSON, `{"kind":"APIGroupList","apiVersion":"v1","groups":[{"metadata":{"name":"apps"},"versions":` +
		`[{"groupVersion":"apps/v1","version":"v1"}]}]}`, true, "invalid name", "the same in the other form"},
	{"/apis", plainJSON, `{"kind":"APIGroupList","apiVersion":"v1","groups":[{"name":"batch","versions":` +
		`[{"groupVersion":"apps/v1","version":"v1"}]}]}`, true, `invalid groupVersion "apps/v1"`,
		"a version of another group"},
	{"/apis", aggregated, aggregatedGroups(apps(deployments), apps("")), false, `version "apps/v1" twice`,
		"client-go keeps the last of two groups"},
	{"/apis", aggregated, aggregatedGroups(apps(""), apps(deployments)), false, `version "apps/v1" twice`,
		"so it is if that has more"},
	{"/apis", aggregated, aggregatedGroups(`{"metadata":{"name":"apps"},"versions":[{"version":"v1","resources":[` +
		deployments + `]},{"version":"v1"}]}`), false, `version "apps/v1" twice`, "and the last of two versions"},
	{"/apis", aggregated, aggregatedGroups(`{"metadata":{"name":"apps"},"versions":[{"version":"v1","freshness":` +
		`"stale"}]}`), false, "stale", "a freshness that client-go doesn't know"},
	{"/api", plainJSON, `{}`, false, `invalid kind "": must be APIVersions`, "the core group"},
	{"/api", plainJSON, `{"kind":"APIVersions","versions":[""]}`, true, "a version without a name", "an empty version"},
	{"/api", aggregated, `{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2","items":[` +
		`{"metadata":{"name":"example.com"}}]}`, false, "invalid name", "/apis in the place of /api"},
	{"/api/v1", plainJSON, `{}`, true, `invalid kind "": must be APIResourceList`, "the types of the core group"},
	{"/apis/apps/v1", plainJSON, `{}`, true, `invalid kind ""`, "the types of a version"},
	{"/apis/apps/v1", plainJSON, `null`, true, `invalid kind ""`, "null"},
	{"/apis/apps/v1", plainJSON, `{"kind":"Status","apiVersion":"v1","status":"Success"}`, true,
		`invalid kind "Status"`, "a Status"},
	{"/apis/apps/v1", plainJSON, `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"apps/v1"}`, true,
		"it has no list", "no resources"},
	{"/apis/apps/v1", plainJSON,
		`{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"batch/v1","resources":[]}`,
		true, `invalid groupVersion "batch/v1"`, "another version's document"},
	{"/apis/apps/v1", plainJSON, `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"apps/v1",` +
		`"resources":["deployments"]}`, true, "is not a discovery document", "texts in the place of resources"},
	{"/apis/apps/v1", plainJSON, `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"apps/v1",` +
		`"resources":[null]}`, true, "a resource without a name", "a null resource"},
	{"/apis/apps/v1", plainJSON, `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"apps/v1",` +
		`"resources":[{"name":"deployments","verbs":["list","watch"]}]}`, true, "without a kind", "no kind"},
	{"/apis/apps/v1", plainJSON, `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"apps/v1",` +
		`"resources":[{"name":"deployments","kind":"Deployment","verbs":null}]}`, true, "without verbs", "no verbs"},
	{"/apis", aggregated, `{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2","items":[` +
		`{"metadata":{"name":"apps"},"versions":[{"version":"v1","resources":[` +
		`{"resource":"deployments","responseKind":null,"verbs":["list"]}]}]}]}`, false, "without a kind",
		"no kind, as aggregated"},
}

const deployments = `{"resource":"deployments","responseKind":{"kind":"Deployment"},"verbs":["list","watch"]}`

func apps(resources string) string {
	return `{"metadata":{"name":"apps"},"versions":[{"version":"v1","resources":[` + resources + `]}]}`
}

func aggregatedGroups(groups ...string) string {
	return `{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2","items":[` +
		strings.Join(groups, ",") + `]}`
}

func TestNonsenseIsNeverAbsence(t *testing.T) {
	clients := map[string]func(*apiServer) clientdiscovery.DiscoveryInterface{
		"client-go": func(s *apiServer) clientdiscovery.DiscoveryInterface { return s.client },
		"NewClient": func(s *apiServer) clientdiscovery.DiscoveryInterface { return newClient(t, s.config) },
		"cached": func(s *apiServer) clientdiscovery.DiscoveryInterface {
			return memory.NewMemCacheClient(s.client)
		},
	}
	for name, client := range clients {
		for i, tt := range nonsenses {
			t.Run(fmt.Sprintf("%s/%d %s", name, i, tt.why), func(t *testing.T) {
				t.Parallel()
				s := newAPIServer(t, cluster()[:2]...)
				s.legacy = tt.legacy
				encoding := []string{"", "identity", "br"}[i%3]
				testNonsense(t, s, discovery.NewResolver(client(s), 0), tt, encoding)
			})
		}
	}
}

func testNonsense(t *testing.T, s *apiServer, r *discovery.Resolver, tt nonsense, encoding string) {
	answer := func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != tt.path {
			return false
		}
		w.Header().Set("Content-Type", tt.contentType)
		if encoding != "" {
			w.Header().Set("Content-Encoding", encoding)
		}
		_, _ = w.Write([]byte(tt.body))
		return true
	}
	unknown, texts := map[string]int{}, ""
	for c, err := range r.Changes(t.Context(), func() time.Duration { return 100 * time.Millisecond }) {
		if err != nil {
			t.Fatal(err)
		}
		what := withoutError(c)
		switch c.Type {
		case discovery.Synced:
			s.change(func() { s.respond = answer })
			r.Refresh()
		case discovery.Unknown:
			unknown[strings.TrimPrefix(what, "Unknown ")]++
			texts += c.Err.Error() + "\n"
			s.change(func() { s.respond = nil })
			r.Refresh()
		case discovery.Known:
			unknown[strings.TrimPrefix(what, "Known ")]--
		case discovery.Removed, discovery.Changed:
			t.Fatalf("%s: %s", tt.why, c)
		}
		settled := len(unknown) > 0
		for _, n := range unknown {
			settled = settled && n == 0
		}
		if settled {
			break
		}
	}
	if !strings.Contains(texts, tt.text) {
		t.Errorf("%s: the errors lack %q:\n%s", tt.why, tt.text, texts)
	}
}

// client-go takes these for a server without a core group.
func TestCoreGroupIsNotGoneWithoutAnAnswerOfTheServer(t *testing.T) {
	tests := []struct {
		path, body string
		legacy     bool
		want, why  string
	}{
		{"/api", "404 page not found\n", false, "[]", "an aggregated API server has no core group"},
		{"/api", `{"paths":["/apis","/healthz"]}`, false, "[]", "or says so in this way"},
		{"/api", status404, false, "[]", "or with a Status"},
		{"/api", "", false, "unavailable", "no API server answers without a body"},
		{"/api", "<html>no</html>", false, "unavailable", "a gateway's page"},
		{"/api", strings.Repeat("<p>no</p>", 200_000), false, "unavailable", "a page of 1.8 MB"},
		{"/api", `{"message":"no Route matched"}`, false, "unavailable", "a gateway's JSON"},
		{"/api", strings.Replace(status404, "v1", "gateway.io/v1", 1), false, "unavailable", "a gateway's Status"},
		{"/api", strings.Replace(status404, "404", "500", 1), false, "unavailable", "a Status with another code"},
		{"/api/v1", "404 page not found\n", true, "unavailable", "the server lists the version"},
		{"/api/v1", status404, true, "unavailable", "the same with a Status"},
	}
	for _, tt := range tests {
		t.Run(tt.path+" "+tt.why, func(t *testing.T) {
			t.Parallel() // because each waits before it tries again
			s := newAPIServer(t, cluster()[0])
			s.legacy = tt.legacy
			s.respond = func(w http.ResponseWriter, r *http.Request) bool {
				if r.URL.Path == tt.path {
					w.WriteHeader(http.StatusNotFound)
					_, _ = w.Write([]byte(tt.body))
				}
				return r.URL.Path == tt.path
			}
			for name, c := range map[string]clientdiscovery.DiscoveryInterface{
				"client-go": s.client, "NewClient": newClient(t, s.config),
			} {
				resources, err := discovery.NewResolver(c, 0).Watchables(t.Context())
				got := fmt.Sprint(resources)
				if err != nil {
					got = "unavailable"
				}
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Errorf("%s, %s: %v (-want +got):\n%s", name, tt.why, err, diff)
				}
			}
		})
	}
}

const status404 = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`
