package main

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kjson "k8s.io/apimachinery/pkg/runtime/serializer/json"
)

// form is the form in which an object is sent.
type form int

const (
	frameForm    form = iota // a frame of a watch: an object with its kind, in a WatchEvent
	itemForm                 // an item of a list: an object without its kind
	metaFrame                // a frame of a watch with a PartialObjectMetadata
	metaItemForm             // an item of a PartialObjectMetadataList
)

// holes are the places of one placeholder in a template.
type holes struct {
	at    []int
	width int
}

func holesIn(text []byte, placeholder string) holes {
	h := holes{width: len(placeholder)}
	for from := 0; ; {
		i := bytes.Index(text[from:], []byte(placeholder))
		if i < 0 {
			return h
		}
		h.at = append(h.at, from+i)
		from += i + len(placeholder)
	}
}

// fill writes value at each place. It must be as wide as the placeholder.
func (h holes) fill(text []byte, value []byte) {
	for _, at := range h.at {
		copy(text[at:at+h.width], value)
	}
}

// template is an object as a kube-apiserver encodes it, with placeholders.
type template struct {
	text []byte

	version, sent, changed             holes
	name, namespace, uid, ip, instance holes
}

func newTemplate(text []byte) *template {
	return &template{
		text:    text,
		version: holesIn(text, versionHole), sent: holesIn(text, sentHole), changed: holesIn(text, changedHole),
		name: holesIn(text, nameHole), namespace: holesIn(text, namespaceHole), uid: holesIn(text, uidHole),
		ip: holesIn(text, addressHole), instance: holesIn(text, containerHole),
	}
}

// serializer is the one that a kube-apiserver uses for application/json.
var serializer = kjson.NewSerializerWithOptions(kjson.DefaultMetaFactory, nil, nil, kjson.SerializerOptions{})

func encode(o runtime.Object) []byte {
	var b bytes.Buffer
	if err := serializer.Encode(o, &b); err != nil {
		panic(err) // the object is one of ours: it is always encodable
	}
	return b.Bytes()
}

// render returns p as a template. Frames end with a newline, items do not.
func render(p *corev1.Pod, f form) *template {
	var o runtime.Object = p
	switch f {
	case itemForm:
		bare := p.DeepCopy()
		bare.TypeMeta = metav1.TypeMeta{}
		o = bare
	case metaFrame, metaItemForm:
		partial := meta.AsPartialObjectMetadata(p)
		partial.SetGroupVersionKind(metav1.SchemeGroupVersion.WithKind("PartialObjectMetadata"))
		o = partial
	}
	text := bytes.TrimRight(encode(o), "\n")
	if f == frameForm || f == metaFrame {
		text = frame("MODIFIED", text)
	}
	return newTemplate(text)
}

// frame encodes a WatchEvent as a kube-apiserver does.
func frame(kind string, object []byte) []byte {
	return encode(&watchEvent{WatchEvent: metav1.WatchEvent{Type: kind, Object: runtime.RawExtension{Raw: object}}})
}

// watchEvent is a WatchEvent that implements [runtime.Object], so that the serializer accepts it.
type watchEvent struct{ metav1.WatchEvent }

func (w *watchEvent) DeepCopyObject() runtime.Object {
	return &watchEvent{*w.WatchEvent.DeepCopy()}
}

// identity has the values that differ between objects of one template.
type identity struct {
	name, namespace, uid, ip, instance []byte
}

func identityOf(n int) identity {
	const letters = "bcdfghjklmnpqrstvwxz24567890" // they form no placeholder
	var id identity
	for i, rest := 0, n; i < len(nameHole); i++ {
		id.name = append(id.name, letters[(rest+i*7)%len(letters)])
		rest /= len(letters)
	}
	id.namespace = []byte(namespaceOf(n % namespaces))
	var seed [8]byte
	binary.BigEndian.PutUint64(seed[:], (uint64(n)+1)*0x9e3779b97f4a7c15)
	id.uid = hex.AppendEncode(nil, seed[:6])
	id.instance = hex.AppendEncode(nil, seed[:])
	id.ip = []byte("10." + strconv.Itoa(100+n/12100%100) + "." + strconv.Itoa(100+n/110%110) + "." +
		strconv.Itoa(100+n%110))
	return id
}

func namespaceOf(i int) string { return "peers-" + strconv.Itoa(i) }

// identify writes the values of id into text, which is a copy of t.text.
func (t *template) identify(text []byte, id identity) {
	t.name.fill(text, id.name)
	t.namespace.fill(text, id.namespace)
	t.uid.fill(text, id.uid)
	t.ip.fill(text, id.ip)
	t.instance.fill(text, id.instance)
}
