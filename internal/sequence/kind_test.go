package sequence

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/internal/client"
	"github.com/gvrwatch/gvrwatch/internal/client/decode"
)

func TestListIsOfTheResource(t *testing.T) {
	widgets := gvr.Resource{Kind: "Widget", GroupVersionResource: schema.GroupVersionResource{
		Group: "example.com", Version: "v1", Resource: "widgets"}}
	pods := gvr.Resource{Kind: "Pod", GroupVersionResource: schema.GroupVersionResource{
		Version: "v1", Resource: "pods"}}
	unknown := widgets
	unknown.Kind = ""
	type typeMeta struct{ apiVersion, kind string }
	const example, meta = "example.com/v1", "meta.k8s.io/v1"
	tests := []struct {
		r    gvr.Resource
		list typeMeta
		item typeMeta // of the first one; zero for an empty list
		want bool
		why  string
	}{
		{widgets, typeMeta{example, "WidgetList"}, typeMeta{}, true, "as usual"},
		{widgets, typeMeta{example, "Gadgets"}, typeMeta{}, true, "spec.names.listKind"},
		{widgets, typeMeta{"example.com/v2", "WidgetList"}, typeMeta{}, true,
			"the server has one version for all requests"},
		{widgets, typeMeta{"other.example.com/v1", "WidgetList"}, typeMeta{}, false, "another group"},
		{widgets, typeMeta{"", "WidgetList"}, typeMeta{}, false, "the core group"},
		{widgets, typeMeta{example, "Widget"}, typeMeta{}, false, "an object"},
		{widgets, typeMeta{example, ""}, typeMeta{}, false, "no kind"},
		{widgets, typeMeta{"v1", "List"}, typeMeta{}, false, "nothing says of which resource"},
		{widgets, typeMeta{"v1", "List"}, typeMeta{example, "Widget"}, true, "the item says of which"},
		{widgets, typeMeta{example, "WidgetList"}, typeMeta{"v1", "Pod"}, false, "a Pod"},
		{widgets, typeMeta{example, "WidgetList"}, typeMeta{example, "Gadget"}, false, "another kind"},
		{unknown, typeMeta{example, "WidgetList"}, typeMeta{example, "Widget"}, true, "any kind"},
		{unknown, typeMeta{example, "WidgetList"}, typeMeta{}, true, "it ends in List"},
		{unknown, typeMeta{example, "Widgets"}, typeMeta{}, false, "it may be an object"},
		{pods, typeMeta{"v1", "PodList"}, typeMeta{}, true, "as usual"},
		{pods, typeMeta{"v1", "NodeList"}, typeMeta{}, false, "a built-in list has the usual kind"},
		{pods, typeMeta{"v1", "APIResourceList"}, typeMeta{}, false, "a discovery document"},
		{pods, typeMeta{meta, "PartialObjectMetadataList"}, typeMeta{}, true, "metadata says nothing of its resource"},
		{widgets, typeMeta{example, "PartialObjectMetadataList"}, typeMeta{example, "Widget"}, true,
			"an API server that gives only the kind that was requested"},
		{widgets, typeMeta{"v1", "PartialObjectMetadataList"}, typeMeta{}, false, "another group"},
		{pods, typeMeta{"v1", "List"}, typeMeta{meta, "PartialObjectMetadata"}, true, "metadata in a list of anything"},
	}
	for _, tt := range tests {
		for _, raw := range []bool{false, true} {
			target := &Target{Config: Config{Resource: tt.r}}
			list := client.List{UnstructuredList: &unstructured.UnstructuredList{Object: map[string]any{}}}
			list.SetAPIVersion(tt.list.apiVersion)
			list.SetKind(tt.list.kind)
			item := map[string]any{"apiVersion": tt.item.apiVersion, "kind": tt.item.kind}
			switch {
			case tt.item == typeMeta{}:
			case raw:
				text := `{"apiVersion":"` + tt.item.apiVersion + `","kind":"` + tt.item.kind + `"}`
				list.Raw = []decode.Raw{{JSON: []byte(text)}}
			default:
				list.Items = []unstructured.Unstructured{{Object: item}}
			}
			if got := target.isList(list); got != tt.want {
				t.Errorf("%s: %v with %v as a list of %s, raw %v: %v", tt.why, tt.list, tt.item, tt.r, raw, got)
			}
		}
	}
}
