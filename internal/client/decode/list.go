package decode

import (
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Lister decodes a list while it comes, with nothing but white space around it, as
// unstructured.UnstructuredJSONScheme decodes into an UnstructuredList: items that do
// not say what they are get that from the list. Meanwhile its Decoder must not be used
// for anything else.
type Lister struct {
	d    *Decoder
	list unstructured.UnstructuredList
	next listPart
	at   int  // where that begins, or white space before it
	all  bool // there is nothing but white space after what is decoded
}

// listPart is what can be decoded only once all of it has come.
type listPart int

const (
	listBegin     listPart = iota
	listMember             // a key and its value, or a key and the beginning of the items
	listMemberEnd          // what stands between members, or after them
	listItem
	listItemEnd
	listEnd
)

// Lister returns one for the next list.
func (d *Decoder) Lister() *Lister {
	return &Lister{d: d, list: unstructured.UnstructuredList{Object: map[string]any{}}}
}

// Come decodes what can be decoded of data, which is all that has come so far. It
// returns nil if that may be all, ErrShort if there has to be more, and ErrUnlike if
// that does not matter any more: the list is for client-go to decode.
func (l *Lister) Decode(data []byte) error {
	d := l.d
	d.begin(data)
	i := 0
	for i >= 0 && l.next != listEnd {
		d.depth = 1
		if l.next, i = l.part(d.space(l.at)); i >= 0 {
			l.at = i
		}
	}
	if l.all = i >= 0 && d.space(l.at) == len(data); i >= 0 && !l.all {
		i = d.fail(ErrDeclined)
	}
	return d.end(i)
}

// part decodes the next part, which begins at i, and returns the one after that. If
// it can't, that is still the same one.
func (l *Lister) part(i int) (listPart, int) {
	d := l.d
	switch l.next {
	case listBegin:
		return nextPart(listMember, l.next, d.open(i, '{'))
	case listMember:
		return l.member(i)
	case listItem:
		d.depth = 0
		m, i := d.object(i, d.drop, nil)
		if i >= 0 {
			l.list.Items = append(l.list.Items, unstructured.Unstructured{Object: m})
			d.finish()
		}
		return nextPart(listItemEnd, l.next, i)
	case listItemEnd:
		i, more := d.more(i, ']')
		if more {
			return listItem, i
		}
		return nextPart(listMemberEnd, l.next, i)
	}
	i, more := d.more(i, '}')
	if more {
		return listMember, i
	}
	return nextPart(listEnd, l.next, i)
}

// then returns the next part, or the same if i says that there was none.
func nextPart(next, same listPart, i int) (listPart, int) {
	if i < 0 {
		return same, i
	}
	return next, i
}

func (l *Lister) member(i int) (listPart, int) {
	d := l.d
	key, e, i := d.key(i)
	if i < 0 {
		return listMember, i
	}
	if _, again := l.list.Object[key]; again || misleading(key) || key == "items" && l.list.Items != nil {
		return listMember, d.fail(ErrDeclined)
	}
	if key != "items" {
		v, i := d.value(i, nil, e)
		if i >= 0 {
			l.list.Object[key] = v
		}
		return nextPart(listMemberEnd, listMember, i)
	}
	if i = d.open(i, '['); i >= len(d.data) {
		i = d.fail(ErrShort)
	}
	if i < 0 {
		return listMember, i
	}
	l.list.Items = []unstructured.Unstructured{}
	if d.data[i] == ']' {
		return listMemberEnd, i + 1
	}
	return listItem, i
}

// Left is how much of so many bytes that have come has not been decoded.
func (l *Lister) Undecoded(come int) int { return come - l.at }

// List returns what has been decoded, which is ErrShort as long as something lacks.
func (l *Lister) List() (*unstructured.UnstructuredList, error) {
	if !l.all {
		return nil, ErrShort
	}
	list := &l.list
	version, present := list.Object["apiVersion"]
	_, text := version.(string)
	wrong := present && !text || strings.Count(list.GetAPIVersion(), "/") > 1
	if wrong || list.Items == nil || list.GetKind() == "" {
		return nil, ErrDeclined // client-go says what is wrong
	}
	fillItemKinds(list)
	return list, nil
}

// itemsAreOf says of items that don't what they are.
func fillItemKinds(l *unstructured.UnstructuredList) {
	var apiVersion, kind any = l.GetAPIVersion(), strings.TrimSuffix(l.GetKind(), "List")
	for _, item := range l.Items {
		if item.GetKind() == "" && item.GetAPIVersion() == "" {
			item.Object["kind"], item.Object["apiVersion"] = kind, apiVersion
		}
	}
}
