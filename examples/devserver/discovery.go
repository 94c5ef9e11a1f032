package devserver

import (
	"encoding/json"
	"fmt"
	"net/http"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apiserver"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/discovery/aggregated"
	"k8s.io/apiserver/pkg/endpoints/handlers/negotiation"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	genericapiserver "k8s.io/apiserver/pkg/server"
)

// acceptAggregated is the Accept header for the aggregated form of a discovery document.
const acceptAggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

// installDiscovery serves /apis and /api, each in the aggregated form and in the legacy form of older clients. In a
// cluster the aggregator does this; the apiextensions-apiserver only maintains the aggregated document.
func installDiscovery(s *genericapiserver.GenericAPIServer) {
	groups := aggregated.WrapAggregatedDiscoveryToHandler(
		legacyGroups(s.AggregatedDiscoveryGroupManager), s.AggregatedDiscoveryGroupManager, nil)
	s.Handler.GoRestfulContainer.Add(groups.GenerateWebService("/apis", metav1.APIGroupList{}))

	// There is no core API. An empty legacy document can't express that: client-go turns it into a group without a
	// name. It understands 404.
	core := aggregated.WrapAggregatedDiscoveryToHandler(
		http.HandlerFunc(http.NotFound), s.AggregatedLegacyDiscoveryGroupManager, nil)
	s.Handler.NonGoRestfulMux.Handle("/api", core)
}

// legacyGroups serves the groups and versions of the aggregated document in the legacy form, so that both forms agree.
func legacyGroups(document http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		list, err := readDocument(document, r)
		if err != nil {
			responsewriters.InternalError(w, r, err)
			return
		}
		responsewriters.WriteObjectNegotiated(apiextensions.Codecs, negotiation.DefaultEndpointRestrictions,
			schema.GroupVersion{Version: "v1"}, w, r, http.StatusOK, toLegacy(list), false)
	})
}

// readDocument requests the aggregated document from its handler, whatever form r accepts.
func readDocument(document http.Handler, r *http.Request) (*apidiscoveryv2.APIGroupDiscoveryList, error) {
	r = r.Clone(r.Context())
	r.Header = http.Header{"Accept": {acceptAggregated}}
	response := &memoryResponse{header: http.Header{}, status: http.StatusOK}
	document.ServeHTTP(response, r)
	if response.status != http.StatusOK {
		return nil, fmt.Errorf("read the aggregated discovery document: status %d", response.status)
	}
	list := &apidiscoveryv2.APIGroupDiscoveryList{}
	if err := json.Unmarshal(response.body, list); err != nil {
		return nil, fmt.Errorf("decode the aggregated discovery document: %w", err)
	}
	return list, nil
}

func toLegacy(list *apidiscoveryv2.APIGroupDiscoveryList) *metav1.APIGroupList {
	legacy := &metav1.APIGroupList{Groups: []metav1.APIGroup{}}
	for _, g := range list.Items {
		group := metav1.APIGroup{Name: g.Name}
		for _, v := range g.Versions {
			group.Versions = append(group.Versions, metav1.GroupVersionForDiscovery{
				GroupVersion: schema.GroupVersion{Group: g.Name, Version: v.Version}.String(),
				Version:      v.Version,
			})
		}
		if len(group.Versions) > 0 {
			group.PreferredVersion = group.Versions[0]
		}
		legacy.Groups = append(legacy.Groups, group)
	}
	return legacy
}

// memoryResponse is an http.ResponseWriter that stores the response.
type memoryResponse struct {
	header http.Header
	status int
	body   []byte
}

func (m *memoryResponse) Header() http.Header { return m.header }

func (m *memoryResponse) WriteHeader(status int) { m.status = status }

func (m *memoryResponse) Write(b []byte) (int, error) {
	m.body = append(m.body, b...)
	return len(b), nil
}
