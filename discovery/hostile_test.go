package discovery_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientdiscovery "k8s.io/client-go/discovery"

	"github.com/gvrwatch/gvrwatch/discovery"
	"github.com/gvrwatch/gvrwatch/gvr"
)

// A hostile server may list any number of APIs and types, with any names. Work that is quadratic would take minutes.
func TestHostileDocumentsAreBounded(t *testing.T) {
	const some, many = 5_000, 20_000
	long := strings.Repeat("long", 1000)
	padded := func(i int) string { return fmt.Sprintf("%060dabc", i) }
	numbered := func(i int) string { return fmt.Sprint("type-", i) }
	tests := []struct {
		client hostileClient
		in     gvr.Ref
		text   string // part of the error of Resolve
		why    string
	}{
		{
			hostileClient{groups: 1, versions: 1, types: some, name: padded},
			gvr.Ref{Name: strings.Repeat("0", 63)}, "serves no resource type", "names to compare",
		},
		{
			hostileClient{groups: 1, versions: 1, types: some, name: func(i int) string { return fmt.Sprint(long, i) }},
			gvr.Ref{Name: long}, "serves no resource type", "long names",
		},
		{
			hostileClient{groups: many, versions: 1, types: 1, name: func(int) string { return "widgets" }},
			gvr.Ref{Name: "widgets"}, "widgets.v1.group-9.example.com and 19990 more", "candidates",
		},
		{
			hostileClient{groups: 1, versions: 1, types: some, name: numbered, categories: []string{"all"}},
			gvr.Ref{Name: "all"}, "types: must be one of them (type-0.v1.group-0.example.com, ", "a category",
		},
		{
			hostileClient{groups: many}, gvr.Ref{Name: "widgets"}, "group-10004.example.com and 19990 more",
			"groups without versions",
		},
		{
			hostileClient{groups: many, versions: 1}, gvr.Ref{Name: "widgets"},
			"group-10004.example.com/v1 and 19990 more",
			"versions without documents",
		},
		{
			hostileClient{groups: 1, versions: some, types: some, name: numbered},
			gvr.Ref{Name: "widgets"}, "serves no resource type", "the same version again and again",
		},
	}
	for _, tt := range tests {
		began := time.Now()
		r := discovery.NewResolver(tt.client, 0)
		_, err := r.Resolve(t.Context(), tt.in)
		if err == nil || !strings.Contains(err.Error(), tt.text) || len(err.Error()) > 30_000 {
			t.Errorf("%s: got %.500v, want %q", tt.why, err, tt.text)
		}
		var ambiguous *discovery.AmbiguousError
		if errors.As(err, &ambiguous) && len(ambiguous.Candidates) != many {
			t.Errorf("%s: %d candidates", tt.why, len(ambiguous.Candidates))
		}
		for c, err := range r.Changes(t.Context(), nil) {
			if err != nil || c.Type == discovery.Synced {
				break
			}
		}
		if took := time.Since(began); took > time.Minute {
			t.Errorf("%s: took %v", tt.why, took)
		}
	}
}

// hostileClient serves documents that no API server would: groups, each with so many times the version v1, and with so
// many types in it.
type hostileClient struct {
	clientdiscovery.AggregatedDiscoveryInterface
	groups, versions, types int
	name                    func(int) string
	categories              []string
}

func (c hostileClient) GroupsAndMaybeResources() (
	*metav1.APIGroupList, map[schema.GroupVersion]*metav1.APIResourceList, map[schema.GroupVersion]error, error,
) {
	groups := &metav1.APIGroupList{}
	documents := map[schema.GroupVersion]*metav1.APIResourceList{{Version: "v1"}: {GroupVersion: "v1"}}
	for i := range c.groups {
		g := metav1.APIGroup{Name: fmt.Sprintf("group-%d.example.com", i)}
		v := metav1.GroupVersionForDiscovery{Version: "v1"}
		g.Versions, g.PreferredVersion = slices.Repeat([]metav1.GroupVersionForDiscovery{v}, c.versions), v
		groups.Groups = append(groups.Groups, g)
		if c.types == 0 {
			continue
		}
		document := &metav1.APIResourceList{GroupVersion: g.Name + "/v1"}
		for j := range c.types {
			name := c.name(j)
			r := namespaced(name, "", name)
			r.Categories = c.categories
			document.APIResources = append(document.APIResources, r)
		}
		documents[schema.GroupVersion{Group: g.Name, Version: "v1"}] = document
	}
	return groups, documents, nil, nil
}
