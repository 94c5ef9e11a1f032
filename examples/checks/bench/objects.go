package main

import (
	"bytes"
	"embed"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"text/template"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/yaml"
)

const (
	small       = "2.8k" // size of an object with one container, and the fields that a cluster adds
	big         = "11k"  // size of an object with three containers with env and probes, and volumes
	ofSecret    = "1.3k" // size of a Secret
	templates   = 1000   // different objects; object n is a copy of object n%templates with another name and uid
	namespaces  = 8      // the objects are distributed evenly
	canaryEvery = 10     // one object in so many is a canary
	sentKey     = "example.com/sent"
)

//go:embed *.yaml
var texts embed.FS

var yamls = template.Must(template.ParseFS(texts, "*.yaml"))

// values has the values of one object for the template. They are random, from a seed of the object's own.
type values struct {
	*rand.Rand
	Big, Canary bool
	Namespace   string
}

func (v values) Fields(words string) []string { return strings.Fields(words) }

// Of returns one of the words.
func (v values) Of(words string) string {
	all := strings.Fields(words)
	return all[v.IntN(len(all))]
}

// Hex returns n hexadecimal digits.
func (v values) Hex(n int) (digits string) {
	for range n {
		digits += fmt.Sprintf("%x", v.IntN(16))
	}
	return digits
}

func (v values) Time() string {
	return epoch.Add(time.Duration(v.IntN(80*86400)) * time.Second).Format(time.RFC3339)
}

var epoch = time.Date(2026, 9, 1, 0, 0, 0, 0, time.UTC)

func namespaceOf(n int) string { return fmt.Sprintf("bench-%d", n%namespaces) }

// Release returns n random bytes as Helm keeps a release: twice in base64, of which the second is that of every Secret.
func (v values) Release(n int) string {
	random := make([]byte, n)
	for i := range random {
		random[i] = byte(v.Uint32())
	}
	return base64.StdEncoding.EncodeToString([]byte(base64.StdEncoding.EncodeToString(random)))
}

// object is a pod or a Secret.
type object interface {
	runtime.Object
	metav1.Object
	Marshal() ([]byte, error)
}

// example returns the n-th object of a size, with placeholders, and the same values at each call.
func example(size string, n int) object {
	random := rand.New(rand.NewPCG(uint64(n), uint64(len(size))))
	var text bytes.Buffer
	name, o := "pod.yaml", object(&corev1.Pod{})
	if size == ofSecret {
		name, o = "secret.yaml", &corev1.Secret{}
	}
	check(yamls.ExecuteTemplate(&text, name, values{random, size == big, n%canaryEvery == 0, namespaceOf(n)}))
	check(yaml.UnmarshalStrict(text.Bytes(), o))
	return o
}

// check ends the process with an error. Peers and the server have processes of their own, which end with it.
func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// The placeholders stand for what differs between two copies of an object, or between two events of it. Each is as wide
// as the values that replace it, and occurs nowhere else.
var placeholders = [...]string{
	identity: "dededededede", // in name, uid and container ID
	version:  "987654321",
	sent:     "8888888888888888888",  // in nanoseconds; zeros stand for no time
	changed:  "2001-02-03T04:05:06Z", // of the Ready condition and kubelet's update; constant in protobuf
}

const (
	identity = iota
	version
	sent
	changed
)

// form is what a client asks for: whole objects or PartialObjectMetadata, in JSON or protobuf, as events or as the
// items of a list.
type form struct{ metadata, proto, item bool }

// frame is an event or item of an object, as a kube-apiserver encodes it, with the places of its placeholders.
type frame struct {
	text  []byte
	holes [len(placeholders)][]int
}

func (f form) frame(event watch.EventType, o object) *frame {
	r := &frame{text: f.encode(event, o)}
	for h, placeholder := range placeholders {
		for from := 0; ; from += len(placeholder) {
			i := bytes.Index(r.text[from:], []byte(placeholder))
			if i < 0 {
				break
			}
			from += i
			r.holes[h] = append(r.holes[h], from)
		}
	}
	return r
}

// append appends the frame of the n-th object after an event, which is 0 for those that exist before.
func (f *frame) append(to []byte, n, atVersion, event int, at time.Time) []byte {
	from := len(to)
	to = append(to, f.text...)
	fill := func(hole int, value []byte) {
		for _, i := range f.holes[hole] {
			copy(to[from+i:], value)
		}
	}
	var digits [32]byte
	fill(identity, strconv.AppendUint(digits[:0], 1<<44+uint64(n)*0x9e3779b97f%(1<<47), 16))
	fill(version, strconv.AppendInt(digits[:0], int64(atVersion), 10))
	seconds := time.Duration(event/64) * time.Second
	fill(changed, epoch.AddDate(0, 0, 100).Add(seconds).AppendFormat(digits[:0], time.RFC3339))
	stamp := "0000000000000000000"
	if !at.IsZero() {
		stamp = strconv.FormatInt(at.UnixNano(), 10)
	}
	fill(sent, []byte(stamp))
	return to
}

// watchEvent is a WatchEvent that the serializers accept.
type watchEvent struct{ metav1.WatchEvent }

func (w *watchEvent) DeepCopyObject() runtime.Object { return &watchEvent{*w.WatchEvent.DeepCopy()} }

// The serializers of a kube-apiserver: see apimachinery's serializer.NewCodecFactory and apiserver's serveWatchHandler.
var (
	jsonSerializer = kjson.NewSerializerWithOptions(kjson.DefaultMetaFactory, nil, nil, kjson.SerializerOptions{})
	protoObjects   = protobuf.NewSerializer(nil, nil)    // "k8s\x00" and a runtime.Unknown
	protoEvents    = protobuf.NewRawSerializer(nil, nil) // a bare message; its length stands before it
)

// encode returns an event or item as it is sent.
func (f form) encode(event watch.EventType, o object) []byte {
	var text, encoded bytes.Buffer
	if f.metadata {
		partial := meta.AsPartialObjectMetadata(o)
		partial.SetGroupVersionKind(metav1.SchemeGroupVersion.WithKind("PartialObjectMetadata"))
		o = partial
	}
	serializer, events, out := runtime.Encoder(jsonSerializer), runtime.Encoder(jsonSerializer), io.Writer(&text)
	if f.proto {
		serializer, events = protoObjects, protoEvents
		out = protobuf.LengthDelimitedFramer.NewFrameWriter(&text)
	}
	switch {
	case f.item && f.proto:
		message, err := o.Marshal()
		check(err)
		return append(protoField(2, len(message)), message...)
	case f.item:
		if !f.metadata { // the list says what they are
			o = o.DeepCopyObject().(object)
			o.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
		}
		check(serializer.Encode(o, &encoded))
		return bytes.TrimSuffix(encoded.Bytes(), []byte("\n"))
	}
	check(serializer.Encode(o, &encoded))
	e := &watchEvent{metav1.WatchEvent{Type: string(event)}}
	e.Object.Raw = encoded.Bytes()
	check(events.Encode(e, out))
	return text.Bytes()
}

// protoField returns what stands before a field of n bytes.
func protoField(number, n int) []byte {
	return binary.AppendUvarint(binary.AppendUvarint(nil, uint64(number<<3|2)), uint64(n))
}

// listHead returns the beginning of a list of a kind, with items of so many bytes in all.
func (f form) listHead(kind string, m metav1.ListMeta, items int) []byte {
	list := metav1.TypeMeta{APIVersion: "v1", Kind: kind + "List"}
	if f.metadata {
		list = metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadataList"}
	}
	if !f.proto {
		text, err := json.Marshal(struct {
			metav1.TypeMeta
			metav1.ListMeta `json:"metadata"`
		}{list, m})
		check(err)
		return append(bytes.TrimSuffix(text, []byte("}")), `,"items":[`...)
	}
	// A runtime.Unknown, whose second field is the list. Its first field is the metadata, its second the items.
	unknown := runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: list.APIVersion, Kind: list.Kind}}
	head, err := unknown.Marshal()
	check(err)
	message, err := m.Marshal()
	check(err)
	message = append(protoField(1, len(message)), message...)
	return slices.Concat([]byte("k8s\x00"), head, protoField(2, len(message)+items), message)
}
