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
	p := l.d.parser
	p.in.begin(data)
	p.in.memory = l.took
	i := 0
	for i >= 0 && l.next != listEnd {
		p.in.depth = 1
		var next listPart
		if next, i = l.part(p.in.space(l.at)); i >= 0 {
			l.next, l.at, l.took = next, i, p.in.memory
		}
	}
	if l.all = i >= 0 && p.in.space(l.at) == len(data); i >= 0 && !l.all {
		i = p.in.fail(ErrDeclined)
	}
	return p.end(i)
}

// part decodes the next part, which begins at i, and returns the part after it, and where it ends.
func (l *Lister) part(i int) (after listPart, end int) {
	p := l.d.parser
	switch l.next {
	case listBegin:
		return listMember, p.in.open(i, '{')
	case listMember:
		return l.member(i)
	case listItem:
		return listItemEnd, l.item(i)
	case listItemEnd:
		i, more := p.in.more(i, ']')
		if more {
			return listItem, i
		}
		return listMemberEnd, i
	}
	i, more := p.in.more(i, '}')
	if more {
		return listMember, i
	}
	return listEnd, i
}

// item decodes the item that begins at i, and returns where it ends.
func (l *Lister) item(i int) (end int) {
	p := l.d.parser
	p.in.depth = 0
	if l.raw {
		end = l.rawItem(i)
	} else {
		var m map[string]any
		if m, end = p.object(i, p.drop, root); end >= 0 {
			l.list.Items = append(l.list.Items, unstructured.Unstructured{Object: m})
		}
	}
	length := end - i
	if end < 0 && p.in.err == ErrShort {
		length = len(p.in.data) - i
	}
	switch {
	case length > MaxObject:
		p.in.err = ErrTooLarge
		return -1
	case end >= 0:
		p.own.finish(true)
	}
	return end
}

func (l *Lister) rawItem(i int) (end int) {
	p := l.d.parser
	defer l.d.view.Forget() // the page
	if v, ok := l.d.viewOf(i, false); ok && !v.scan.ambiguous {
		s, parts := &v.scan, &v.scan.parts
		bare := parts.kind == span{} && parts.apiVersion == span{}
		if bare || len(s.unquoted(parts.apiVersion)) > 0 && len(s.unquoted(parts.kind)) > 0 {
			if bare {
				l.bare = append(l.bare, len(l.raws))
			}
			l.raws = append(l.raws, v.raw())
			return parts.whole.end
		}
	}
	if p.in.err != nil {
		return -1
	}
	p.in.depth = 0
	m, end := p.object(i, p.drop, root)
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
		return p.in.fail(ErrDeclined)
	}
	l.raws = append(l.raws, Raw{text, identify(u)})
	return end
}

func (l *Lister) member(i int) (listPart, int) {
	p := l.d.parser
	key, k, i := p.key(i, nothing, nothing)
	if i < 0 {
		return listMember, i
	}
	if _, again := l.list.Object[key]; again || misleading(key) || key == "items" && l.list.Items != nil {
		return listMember, p.in.fail(ErrDeclined)
	}
	if key != "items" {
		v, i := p.value(i, nil, k)
		if i >= 0 {
			l.list.Object[key] = v
		}
		return listMemberEnd, i
	}
	if i = p.in.open(i, '['); i >= len(p.in.data) {
		i = p.in.fail(ErrShort)
	}
	if i < 0 {
		return listMember, i
	}
	l.list.Items = []unstructured.Unstructured{}
	if p.in.data[i] == ']' {
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
