package discovery

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gvrwatch/gvrwatch/gvr"
)

// parseCatalog builds a catalog from words: "g/v1/widgets" is served with the verbs
// list and watch, "g/v1/widgets:list,get" with other verbs, "g/v1/widgets~" is
// cluster-scoped, "!g/v1" could not be read, and "!g/" in no version.
func parseCatalog(text string) *catalog {
	c := &catalog{failed: map[schema.GroupVersion]error{}}
	for _, word := range strings.Fields(text) {
		if name, ok := strings.CutPrefix(word, "!"); ok {
			group, version, _ := strings.Cut(name, "/")
			c.failed[schema.GroupVersion{Group: group, Version: version}] = errors.New("down")
			continue
		}
		word, verbs, ok := strings.Cut(word, ":")
		if !ok {
			verbs = "list,watch"
		}
		word, cluster := strings.CutSuffix(word, "~")
		parts := strings.Split(word, "/")
		c.resources = append(c.resources, gvr.Resource{
			GroupVersionResource: schema.GroupVersionResource{Group: parts[0], Version: parts[1], Resource: parts[2]},
			Kind:                 "Kind", Namespaced: !cluster, Verbs: strings.Split(verbs, ","),
		})
	}
	return c
}

func TestDifferReportsEachDifferenceOnce(t *testing.T) {
	type step struct {
		poll string // the catalog, or "fails" if nothing could be read
		want []string
	}
	const added, removed = "Added widgets.v1.g", "Removed widgets.v1.g"
	tests := []struct {
		why   string
		steps []step
	}{
		{"everything served is Added first", []step{
			{"/v1/pods g/v1/widgets", []string{"Added pods.v1", added, "Synced"}},
			{"/v1/pods g/v1/widgets", nil},
		}},
		{"an empty server is Synced too", []step{{"", []string{"Synced"}}, {"", nil}}},
		{"a resource that comes back is Added again", []step{
			{"", []string{"Synced"}},
			{"g/v1/widgets", []string{added}},
			{"", []string{removed}},
			{"g/v1/widgets", []string{added}},
		}},
		{"within a poll, served resources come first, in the server's order; Removed ones follow by name", []step{
			{"g/v1/b g/v1/a f/v1/c", []string{"Added b.v1.g", "Added a.v1.g", "Added c.v1.f", "Synced"}},
			{"z/v1/y g/v1/x", []string{
				"Added y.v1.z", "Added x.v1.g", "Removed c.v1.f", "Removed a.v1.g", "Removed b.v1.g",
			}},
		}},
		{"versions of a resource are one entry", []step{
			{"g/v2/widgets g/v1/widgets", []string{"Added widgets.v2.g", "Synced"}},
			{"g/v2/widgets", nil},
			{"g/v2/widgets g/v3/widgets", nil},
			{"g/v3/widgets", []string{"Changed widgets.v2.g to widgets.v3.g"}},
		}},
		{"a new preferred version is a Changed", []step{
			{"g/v1/widgets g/v2/widgets", []string{added, "Synced"}},
			{"g/v2/widgets g/v1/widgets", []string{"Changed widgets.v1.g to widgets.v2.g"}},
		}},
		{"a watchable version is preferred to one that is not", []step{
			{"g/v2/widgets:get g/v1/widgets", []string{added, "Synced"}},
			{"g/v2/widgets:get", []string{"Changed widgets.v1.g to widgets.v2.g"}},
			{"g/v3/widgets:get g/v2/widgets:get", []string{"Changed widgets.v2.g to widgets.v3.g"}},
			{"g/v3/widgets:get g/v2/widgets", []string{"Changed widgets.v3.g to widgets.v2.g"}},
		}},
		{"new verbs or a new scope are a Changed", []step{
			{"g/v1/widgets", []string{added, "Synced"}},
			{"g/v1/widgets:list", []string{"Changed widgets.v1.g"}},
			{"g/v1/widgets~:list", []string{"Changed widgets.v1.g"}},
		}},
		{"the order of verbs does not matter", []step{
			{"g/v1/widgets:list,watch", []string{added, "Synced"}},
			{"g/v1/widgets:watch,list", nil},
		}},
		{"a resource whose API is down is Unknown, and Known when the API answers", []step{
			{"g/v1/widgets h/v1/globes", []string{added, "Added globes.v1.h", "Synced"}},
			{"h/v1/globes !g/v1", []string{"Unknown API g/v1: down", "Unknown widgets.v1.g: down"}},
			{"h/v1/globes !g/v1", nil},
			{"h/v1/globes g/v1/widgets", []string{"Known widgets.v1.g", "Known API g/v1"}},
			{"h/v1/globes g/v1/widgets", nil},
		}},
		{"an API without a version is the whole group", []step{
			{"g/v1/widgets", []string{added, "Synced"}},
			{"!g/", []string{"Unknown API g: down", "Unknown widgets.v1.g: down"}},
			{"!g/v1", []string{"Unknown API g/v1: down", "Known API g"}},
			{"g/v1/widgets", []string{"Known widgets.v1.g", "Known API g/v1"}},
		}},
		{"an Unknown resource that turns out to be gone is Removed", []step{
			{"g/v1/widgets", []string{added, "Synced"}},
			{"!g/v1", []string{"Unknown API g/v1: down", "Unknown widgets.v1.g: down"}},
			{"", []string{removed, "Known API g/v1"}},
		}},
		{"an Unknown resource that turns out to differ is Changed", []step{
			{"g/v1/widgets", []string{added, "Synced"}},
			{"!g/v1", []string{"Unknown API g/v1: down", "Unknown widgets.v1.g: down"}},
			{"g/v1/widgets~", []string{"Changed widgets.v1.g", "Known API g/v1"}},
		}},
		{"resources of an API that was down at the start are Added when it answers", []step{
			{"h/v1/globes !g/v1", []string{"Unknown API g/v1: down", "Added globes.v1.h", "Synced"}},
			{"h/v1/globes g/v1/widgets", []string{added, "Known API g/v1"}},
		}},
		{"a resource whose own version is down is Unknown, not Changed to another version", []step{
			{"g/v2/widgets g/v1/widgets", []string{"Added widgets.v2.g", "Synced"}},
			{"g/v1/widgets !g/v2", []string{"Unknown API g/v2: down", "Unknown widgets.v2.g: down"}},
			{"g/v1/widgets !g/v2", nil},
			{"g/v2/widgets g/v1/widgets", []string{"Known widgets.v2.g", "Known API g/v2"}},
		}},
		{"an Unknown resource whose own version is gone is Changed to another version", []step{
			{"g/v2/widgets g/v1/widgets", []string{"Added widgets.v2.g", "Synced"}},
			{"g/v1/widgets !g/v2", []string{"Unknown API g/v2: down", "Unknown widgets.v2.g: down"}},
			{"g/v1/widgets", []string{"Changed widgets.v2.g to widgets.v1.g", "Known API g/v2"}},
		}},
		{"a version that is down does not affect a resource read in another version", []step{
			{"g/v2/widgets g/v1/widgets", []string{"Added widgets.v2.g", "Synced"}},
			{"g/v2/widgets !g/v1", []string{"Unknown API g/v1: down"}},
			{"g/v2/widgets~ !g/v1", []string{"Changed widgets.v2.g"}},
		}},
		{"a resource Added in a lesser version is Changed when the better one answers", []step{
			{"g/v1/widgets !g/v2", []string{"Unknown API g/v2: down", added, "Synced"}},
			{"g/v2/widgets g/v1/widgets", []string{"Changed widgets.v1.g to widgets.v2.g", "Known API g/v2"}},
		}},
		{"a resource is Unknown while a version that may have it is down", []step{
			{"g/v1/widgets g/v1/globes", []string{added, "Added globes.v1.g", "Synced"}},
			{"g/v1/globes !g/v2", []string{"Unknown API g/v2: down", "Unknown widgets.v1.g: down"}},
			{"g/v1/globes", []string{removed, "Known API g/v2"}},
		}},
		{"a resource is Removed even if another group is down", []step{
			{"g/v1/widgets", []string{added, "Synced"}},
			{"!h/v1", []string{"Unknown API h/v1: down", removed}},
		}},
		{"a failed poll is one Unknown for the server and says nothing about resources", []step{
			{"g/v1/widgets", []string{added, "Synced"}},
			{"fails", []string{"Unknown server: cannot read the server's list of APIs: no route"}},
			{"fails", nil},
			{"g/v1/widgets", []string{"Known server"}},
			{"fails", []string{"Unknown server: cannot read the server's list of APIs: no route"}},
			{"", []string{"Known server", removed}},
		}},
		{"a server that is down at the start is Unknown before Synced", []step{
			{"fails", []string{"Unknown server: cannot read the server's list of APIs: no route"}},
			{"g/v1/widgets", []string{"Known server", added, "Synced"}},
		}},
	}
	for _, tt := range tests {
		d := &differ{}
		for i, s := range tt.steps {
			var changes []Change
			if s.poll == "fails" {
				changes = d.fail(errors.New("no route"))
			} else {
				changes = d.update(parseCatalog(s.poll))
			}
			var got []string
			for _, c := range changes {
				got = append(got, c.String())
				if (c.Err != nil) != (c.Type == Unknown) || (c.Old.Kind != "") != (c.Type == Changed) {
					t.Errorf("%s, poll %d: Err or Old of %+v does not fit its type", tt.why, i+1, c)
				}
			}
			if diff := cmp.Diff(s.want, got); diff != "" {
				t.Errorf("%s, poll %d (-want +got):\n%s", tt.why, i+1, diff)
			}
		}
	}
}

func TestEqualComparesAllButOrderAndHash(t *testing.T) {
	base := gvr.Resource{
		GroupVersionResource: schema.GroupVersionResource{Group: "g", Version: "v1", Resource: "widgets"},
		Kind:                 "Widget", Singular: "widget", ShortNames: []string{"w", "wd"},
		Categories: []string{"all", "mine"}, Verbs: []string{"list", "watch"}, Namespaced: true,
		StorageVersionHash: "hash",
	}
	tests := []struct {
		change func(*gvr.Resource)
		equal  bool
		why    string
	}{
		{func(*gvr.Resource) {}, true, "nothing"},
		{func(r *gvr.Resource) { r.Version = "v2" }, false, "version"},
		{func(r *gvr.Resource) { r.Kind = "Gadget" }, false, "kind"},
		{func(r *gvr.Resource) { r.Singular = "" }, false, "singular"},
		{func(r *gvr.Resource) { r.Namespaced = false }, false, "scope"},
		{func(r *gvr.Resource) { r.Verbs = []string{"list"} }, false, "verbs"},
		{func(r *gvr.Resource) { r.ShortNames = nil }, false, "short names"},
		{func(r *gvr.Resource) { r.Categories = []string{"all"} }, false, "categories"},
		{func(r *gvr.Resource) { r.StorageVersionHash = "" }, true, "only legacy discovery has the hash"},
		{func(r *gvr.Resource) {
			for _, set := range []*[]string{&r.Categories, &r.ShortNames, &r.Verbs} {
				*set = slices.Clone(*set)
				slices.Reverse(*set)
			}
		}, true, "the order of sets"},
	}
	for _, tt := range tests {
		other := base
		tt.change(&other)
		if got := equal(base, other); got != tt.equal {
			t.Errorf("%s: equal = %v", tt.why, got)
		}
	}
}
