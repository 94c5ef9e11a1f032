package decode

import (
	"encoding/json"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Lister decodes a list while it arrives, as unstructured.UnstructuredJSONScheme decodes into an UnstructuredList:
// items without apiVersion and kind get those of the list. Around the list there may be only white space. Until the
// list is decoded, its Decoder must not be used for anything else.
type Lister struct {
	d    *Decoder
	raw  bool // the items are wanted as JSON
	list unstructured.UnstructuredList
	raws []Raw
	bare []int // indexes of raws without apiVersion and kind
	next listPart
	at   int   // where next begins, or white space before it
	took int64 // the memory of what is decoded
	all  bool  // all data is decoded
}

// listPart is a part of a list that can only be decoded once all of it has arrived.
type listPart int

const (
	listBegin     listPart = iota
	listMember             // a key and its value, or the key of the items and their bracket
	listMemberEnd          // a comma between members, or the last brace
	listItem
	listItemEnd
	listEnd
)

// Lister returns a Lister for the next list. With raw, the items are wanted as JSON.
func (d *Decoder) Lister(raw bool) *Lister {
	return &Lister{d: d, raw: raw, list: unstructured.UnstructuredList{Object: map[string]any{}}}
}

// Decode decodes as much as possible of data, which is everything that has arrived so far. It returns nil if the list
// may be complete, ErrShort if it is not, ErrTooLarge if an item is, and ErrDeclined if client-go has to decode it.
func (l *Lister) Decode(data []byte) error {
	d := l.d
	d.begin(data)
	d.memory = l.took
	i := 0
	for i >= 0 && l.next != listEnd {
		d.depth = 1
		var next listPart
		if next, i = l.part(d.space(l.at)); i >= 0 {
			l.next, l.at, l.took = next, i, d.memory
		}
	}
	if l.all = i >= 0 && d.space(l.at) == len(data); i >= 0 && !l.all {
		i = d.fail(ErrDeclined)
	}
	return d.end(i)
}

// part decodes the next part, which begins at i, and returns the part after it, and where it ends.
func (l *Lister) part(i int) (after listPart, end int) {
	d := l.d
	switch l.next {
	case listBegin:
		return listMember, d.open(i, '{')
	case listMember:
		return l.member(i)
	case listItem:
		return listItemEnd, l.item(i)
	case listItemEnd:
		i, more := d.more(i, ']')
		if more {
			return listItem, i
		}
		return listMemberEnd, i
	}
	i, more := d.more(i, '}')
	if more {
		return listMember, i
	}
	return listEnd, i
}

// item decodes the item that begins at i, and returns where it ends.
func (l *Lister) item(i int) (end int) {
	d := l.d
	d.depth = 0
	if l.raw {
		end = l.rawItem(i)
	} else {
		var m map[string]any
		if m, end = d.object(i, d.drop, root); end >= 0 {
			l.list.Items = append(l.list.Items, unstructured.Unstructured{Object: m})
		}
	}
	length := end - i
	if end < 0 && d.err == ErrShort {
		length = len(d.data) - i
	}
	switch {
	case length > MaxObject:
		d.err = ErrTooLarge
		return -1
	case end >= 0:
		d.finish()
	}
	return end
}

func (l *Lister) rawItem(i int) (end int) {
	d := l.d
	defer d.view.Forget() // the page
	if v, ok := d.viewOf(i, false); ok && !v.ambiguous {
		bare := v.kind == span{} && v.apiVersion == span{}
		if bare || v.hasKind() {
			if bare {
				l.bare = append(l.bare, len(l.raws))
			}
			l.raws = append(l.raws, v.raw())
			return v.whole.end
		}
	}
	if d.err != nil {
		return -1
	}
	d.depth = 0
	m, end := d.object(i, d.drop, root)
	if end < 0 {
		return end
	}
	u := &unstructured.Unstructured{Object: m}
	if u.GetKind() == "" && u.GetAPIVersion() == "" {
		delete(m, "kind")
		delete(m, "apiVersion")
		l.bare = append(l.bare, len(l.raws))
	}
	text, err := json.Marshal(m)
	if err != nil || len(m) == 0 {
		return d.fail(ErrDeclined)
	}
	l.raws = append(l.raws, Raw{text, identify(u)})
	return end
}

func (l *Lister) member(i int) (listPart, int) {
	d := l.d
	key, k, i := d.key(i, nothing, nothing)
	if i < 0 {
		return listMember, i
	}
	if _, again := l.list.Object[key]; again || misleading(key) || key == "items" && l.list.Items != nil {
		return listMember, d.fail(ErrDeclined)
	}
	if key != "items" {
		v, i := d.value(i, nil, k)
		if i >= 0 {
			l.list.Object[key] = v
		}
		return listMemberEnd, i
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

// Undecoded returns how many of the bytes that have arrived are not decoded.
func (l *Lister) Undecoded(arrived int) int { return arrived - l.at }

// List returns the decoded list, or ErrShort if it is not complete. The items are in either of the results.
func (l *Lister) List() (*unstructured.UnstructuredList, []Raw, error) {
	if !l.all {
		return nil, nil, ErrShort
	}
	list := &l.list
	version, present := list.Object["apiVersion"]
	_, text := version.(string)
	wrong := present && !text || strings.Count(list.GetAPIVersion(), "/") > 1
	if wrong || list.Items == nil || list.GetKind() == "" {
		return nil, nil, ErrDeclined // client-go returns its own error
	}
	return list, l.raws, l.fillItemKinds()
}

// fillItemKinds gives items without apiVersion and kind those of the list.
func (l *Lister) fillItemKinds() error {
	apiVersion, kind := l.list.GetAPIVersion(), strings.TrimSuffix(l.list.GetKind(), "List")
	var version, name any = apiVersion, kind
	for _, item := range l.list.Items {
		if item.GetKind() == "" && item.GetAPIVersion() == "" {
			item.Object["kind"], item.Object["apiVersion"] = name, version
		}
	}
	if len(l.bare) == 0 {
		return nil
	}
	begin, err := json.Marshal(struct { // the order of a kube-apiserver
		Kind       string `json:"kind"`
		APIVersion string `json:"apiVersion"`
	}{kind, apiVersion})
	if err != nil {
		return ErrDeclined
	}
	begin[len(begin)-1] = ','
	for _, i := range l.bare { // each has metadata, so a comma may follow
		l.raws[i].JSON = slices.Concat(begin, l.raws[i].JSON[1:])
	}
	return nil
}
