package decode

import (
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// List decodes a list, with nothing but white space around it, as
// unstructured.UnstructuredJSONScheme decodes into an UnstructuredList: items
// that do not say what they are get that from the list.
func (d *Decoder) List(data []byte) (*unstructured.UnstructuredList, error) {
	d.begin(data)
	l, i := d.objectList(d.space(0))
	if i >= 0 && d.space(i) != len(data) {
		i = d.fail(ErrUnlike)
	}
	if err := d.end(i); err != nil {
		return nil, err
	}
	version, present := l.Object["apiVersion"]
	if _, ok := version.(string); l.GetKind() == "" || !ok && present || strings.Count(l.GetAPIVersion(), "/") > 1 {
		return nil, ErrUnlike // client-go says what is wrong
	}
	itemsAreOf(l)
	return l, nil
}

func (d *Decoder) objectList(i int) (*unstructured.UnstructuredList, int) {
	l := &unstructured.UnstructuredList{Object: map[string]any{}}
	if i = d.open(i, '{'); i < 0 {
		return nil, i
	}
	for more := true; more; {
		key, e, at := d.key(i)
		if i = at; i < 0 {
			return nil, i
		}
		_, again := l.Object[key]
		switch {
		case again || misleading(key) || key == "items" && l.Items != nil:
			i = d.fail(ErrUnlike)
		case key == "items":
			l.Items, i = d.listItems(i)
		default:
			l.Object[key], i = d.value(i, nil, e)
		}
		if i < 0 {
			return nil, i
		}
		if i, more = d.more(i, '}'); i < 0 {
			return nil, i
		}
	}
	if l.Items == nil {
		return nil, d.fail(ErrUnlike)
	}
	d.depth--
	return l, i
}

func (d *Decoder) listItems(i int) ([]unstructured.Unstructured, int) {
	if i = d.open(i, '['); i < 0 {
		return nil, i
	}
	items := []unstructured.Unstructured{}
	if i < len(d.data) && d.data[i] == ']' {
		d.depth--
		return items, i + 1
	}
	depth := d.depth
	for more := true; more; {
		var m map[string]any
		d.depth = 0
		m, i = d.object(i, d.drop, nil)
		d.finish()
		if i < 0 {
			return nil, i
		}
		items = append(items, unstructured.Unstructured{Object: m})
		if i, more = d.more(i, ']'); i < 0 {
			return nil, i
		}
	}
	d.depth = depth - 1
	return items, i
}

// itemsAreOf says of items that don't what they are.
func itemsAreOf(l *unstructured.UnstructuredList) {
	var apiVersion, kind any = l.GetAPIVersion(), strings.TrimSuffix(l.GetKind(), "List")
	for _, item := range l.Items {
		if item.GetKind() == "" && item.GetAPIVersion() == "" {
			item.Object["kind"], item.Object["apiVersion"] = kind, apiVersion
		}
	}
}
