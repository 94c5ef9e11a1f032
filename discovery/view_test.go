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

// looked makes a catalog from words: "g/v1/widgets" is served, "g/v1/widgets:list,get"
// with these verbs, "g/v1/widgets~" not namespaced, "!g/v1" could not be read, nor
// any version of "!g/".
func looked(text string) *catalog {
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

func TestView(t *testing.T) {
	type step struct {
		look string // "fails" if nothing could be read
		want []string
	}
	const added, removed = "Added widgets.v1.g", "Removed widgets.v1.g"
	tests := []struct {
		why   string
		steps []step
	}{
		{"what is there is told first", []step{
			{"/v1/pods g/v1/widgets", []string{"Added pods.v1", added, "Synced"}},
			{"/v1/pods g/v1/widgets", nil},
		}},
		{"a server that serves nothing has been read as well", []step{{"", []string{"Synced"}}, {"", nil}}},
		{"what comes and goes is told, and what comes back is new", []step{
			{"", []string{"Synced"}},
			{"g/v1/widgets", []string{added}},
			{"", []string{removed}},
			{"g/v1/widgets", []string{added}},
		}},
		{"subjects of the same look: first what is there, in the server's order, then what is not, by name", []step{
			{"g/v1/b g/v1/a f/v1/c", []string{"Added b.v1.g", "Added a.v1.g", "Added c.v1.f", "Synced"}},
			{"z/v1/y g/v1/x", []string{"Added y.v1.z", "Added x.v1.g", "Removed c.v1.f", "Removed a.v1.g", "Removed b.v1.g"}},
		}},
		{"versions of one resource are one", []step{
			{"g/v2/widgets g/v1/widgets", []string{"Added widgets.v2.g", "Synced"}},
			{"g/v2/widgets", nil},
			{"g/v2/widgets g/v3/widgets", nil},
			{"g/v3/widgets", []string{"Changed widgets.v2.g to widgets.v3.g"}},
		}},
		{"the preferred version is another", []step{
			{"g/v1/widgets g/v2/widgets", []string{added, "Synced"}},
			{"g/v2/widgets g/v1/widgets", []string{"Changed widgets.v1.g to widgets.v2.g"}},
		}},
		{"a version that can be watched is chosen before one that can't", []step{
			{"g/v2/widgets:get g/v1/widgets", []string{added, "Synced"}},
			{"g/v2/widgets:get", []string{"Changed widgets.v1.g to widgets.v2.g"}},
			{"g/v3/widgets:get g/v2/widgets:get", []string{"Changed widgets.v2.g to widgets.v3.g"}},
			{"g/v3/widgets:get g/v2/widgets", []string{"Changed widgets.v3.g to widgets.v2.g"}},
		}},
		{"verbs and scope", []step{
			{"g/v1/widgets", []string{added, "Synced"}},
			{"g/v1/widgets:list", []string{"Changed widgets.v1.g"}},
			{"g/v1/widgets~:list", []string{"Changed widgets.v1.g"}},
		}},
		{"the order of verbs is of no meaning", []step{
			{"g/v1/widgets:list,watch", []string{added, "Synced"}},
			{"g/v1/widgets:watch,list", nil},
		}},
		{"unknown is not removed, and known again when it answers", []step{
			{"g/v1/widgets h/v1/globes", []string{added, "Added globes.v1.h", "Synced"}},
			{"h/v1/globes !g/v1", []string{"Unknown API g/v1: down", "Unknown widgets.v1.g: down"}},
			{"h/v1/globes !g/v1", nil},
			{"h/v1/globes g/v1/widgets", []string{"Known API g/v1", "Known widgets.v1.g"}},
			{"h/v1/globes g/v1/widgets", nil},
		}},
		{"no version at all: the whole group", []step{
			{"g/v1/widgets", []string{added, "Synced"}},
			{"!g/", []string{"Unknown API g: down", "Unknown widgets.v1.g: down"}},
			{"!g/v1", []string{"Known API g", "Unknown API g/v1: down"}},
			{"g/v1/widgets", []string{"Known API g/v1", "Known widgets.v1.g"}},
		}},
		{"unknown, and then it turns out to be gone", []step{
			{"g/v1/widgets", []string{added, "Synced"}},
			{"!g/v1", []string{"Unknown API g/v1: down", "Unknown widgets.v1.g: down"}},
			{"", []string{"Known API g/v1", removed}},
		}},
		{"unknown, and then another", []step{
			{"g/v1/widgets", []string{added, "Synced"}},
			{"!g/v1", []string{"Unknown API g/v1: down", "Unknown widgets.v1.g: down"}},
			{"g/v1/widgets~", []string{"Known API g/v1", "Changed widgets.v1.g"}},
		}},
		{"down from the start: there may be anything", []step{
			{"h/v1/globes !g/v1", []string{"Unknown API g/v1: down", "Added globes.v1.h", "Synced"}},
			{"h/v1/globes g/v1/widgets", []string{"Known API g/v1", added}},
		}},
		{"its own version does not answer: not worth a change to another and back", []step{
			{"g/v2/widgets g/v1/widgets", []string{"Added widgets.v2.g", "Synced"}},
			{"g/v1/widgets !g/v2", []string{"Unknown API g/v2: down", "Unknown widgets.v2.g: down"}},
			{"g/v1/widgets !g/v2", nil},
			{"g/v2/widgets g/v1/widgets", []string{"Known API g/v2", "Known widgets.v2.g"}},
		}},
		{"its own version did not answer and is gone", []step{
			{"g/v2/widgets g/v1/widgets", []string{"Added widgets.v2.g", "Synced"}},
			{"g/v1/widgets !g/v2", []string{"Unknown API g/v2: down", "Unknown widgets.v2.g: down"}},
			{"g/v1/widgets", []string{"Known API g/v2", "Changed widgets.v2.g to widgets.v1.g"}},
		}},
		{"another version does not answer: what was read is so", []step{
			{"g/v2/widgets g/v1/widgets", []string{"Added widgets.v2.g", "Synced"}},
			{"g/v2/widgets !g/v1", []string{"Unknown API g/v1: down"}},
			{"g/v2/widgets~ !g/v1", []string{"Changed widgets.v2.g"}},
		}},
		{"a better version that does not answer at the start", []step{
			{"g/v1/widgets !g/v2", []string{"Unknown API g/v2: down", added, "Synced"}},
			{"g/v2/widgets g/v1/widgets", []string{"Known API g/v2", "Changed widgets.v1.g to widgets.v2.g"}},
		}},
		{"its own version has lost it, and others can't be read: it may be there", []step{
			{"g/v1/widgets g/v1/globes", []string{added, "Added globes.v1.g", "Synced"}},
			{"g/v1/globes !g/v2", []string{"Unknown API g/v2: down", "Unknown widgets.v1.g: down"}},
			{"g/v1/globes", []string{"Known API g/v2", removed}},
		}},
		{"other groups that can't be read are no reason to doubt", []step{
			{"g/v1/widgets", []string{added, "Synced"}},
			{"!h/v1", []string{"Unknown API h/v1: down", removed}},
		}},
		{"a look that fails says nothing about types, and is told once", []step{
			{"g/v1/widgets", []string{added, "Synced"}},
			{"fails", []string{"Unknown server: the server's list of APIs can't be read: gone fishing"}},
			{"fails", nil},
			{"g/v1/widgets", []string{"Known server"}},
			{"fails", []string{"Unknown server: the server's list of APIs can't be read: gone fishing"}},
			{"", []string{"Known server", removed}},
		}},
		{"down at the start", []step{
			{"fails", []string{"Unknown server: the server's list of APIs can't be read: gone fishing"}},
			{"g/v1/widgets", []string{"Known server", added, "Synced"}},
		}},
	}
	for _, tt := range tests {
		v := &view{}
		for i, s := range tt.steps {
			var changes []Change
			if s.look == "fails" {
				changes = v.failed(errors.New("gone fishing"))
			} else {
				changes = v.read(looked(s.look))
			}
			var got []string
			for _, c := range changes {
				got = append(got, c.String())
				if (c.Err != nil) != (c.Type == Unknown) || (c.Old.Kind != "") != (c.Type == Changed) {
					t.Errorf("%s, look %d: %+v has what its type does not", tt.why, i+1, c)
				}
			}
			if diff := cmp.Diff(s.want, got); diff != "" {
				t.Errorf("%s, look %d (-want +got):\n%s", tt.why, i+1, diff)
			}
		}
	}
}

func TestSame(t *testing.T) {
	base := gvr.Resource{
		GroupVersionResource: schema.GroupVersionResource{Group: "g", Version: "v1", Resource: "widgets"},
		Kind:                 "Widget", Singular: "widget", ShortNames: []string{"w", "wd"}, Categories: []string{"all", "mine"},
		Verbs: []string{"list", "watch"}, Namespaced: true, StorageVersionHash: "hash",
	}
	tests := []struct {
		change func(*gvr.Resource)
		same   bool
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
		{func(r *gvr.Resource) { r.StorageVersionHash = "" }, true, "only the legacy form tells the hash"},
		{func(r *gvr.Resource) {
			r.Categories, r.ShortNames, r.Verbs = slices.Clone(r.Categories), slices.Clone(r.ShortNames), slices.Clone(r.Verbs)
			slices.Reverse(r.Categories)
			slices.Reverse(r.ShortNames)
			slices.Reverse(r.Verbs)
		}, true, "sets have no order"},
	}
	for _, tt := range tests {
		other := base
		tt.change(&other)
		if got := same(base, other); got != tt.same {
			t.Errorf("%s: same is %v", tt.why, got)
		}
	}
}
