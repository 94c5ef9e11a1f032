package informer

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	"k8s.io/apimachinery/pkg/api/equality"
	metafuzzer "k8s.io/apimachinery/pkg/apis/meta/fuzzer"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/cache"

	"github.com/gvrwatch/gvrwatch/internal/compact"
	"github.com/gvrwatch/gvrwatch/internal/objects"
	"github.com/gvrwatch/gvrwatch/internal/testing/decodetest"
	"github.com/gvrwatch/gvrwatch/internal/testing/seedtest"
)

// newTestPacker returns a packer of an informer with these indexers.
func newTestPacker(indexers cache.Indexers) *packer {
	return newCompact(newPacker(), indexers, func(i cache.Indexers) cache.SharedIndexInformer {
		return cache.NewSharedIndexInformer(&cache.ListWatch{}, &corev1.Pod{}, 0, i)
	}).packer
}

// widget is a custom resource with a Go type: it has JSON only.
type widget struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Size   *int64                  `json:"size,omitempty"`
		Parts  []corev1.ContainerPort  `json:"parts,omitempty"`
		Raw    runtime.RawExtension    `json:"raw,omitzero"`
		Values map[string]*metav1.Time `json:"values,omitempty"`
	} `json:"spec"`
}

func (w *widget) DeepCopyObject() runtime.Object { c := *w; return &c }

// TestPackedIsTheSame packs random objects of each kind of type.
func TestPackedIsTheSame(t *testing.T) {
	seedtest.Default(4).Run(t, func(t *testing.T, seed uint64) {
		fill := fuzzer.FuzzerFor(metafuzzer.Funcs, rand.NewSource(int64(seed)), scheme.Codecs).NilChance(0.3).
			NumElements(0, 3).MaxDepth(12)
		for _, c := range []struct {
			why      string
			of       runtime.Object
			encoding encoding
		}{
			{"a built-in type", &corev1.Pod{}, asProtobuf{}},
			{"a built-in type of another group", &appsv1.Deployment{}, asProtobuf{}},
			{"a cluster-scoped type", &corev1.Node{}, asProtobuf{}},
			{"a type with bytes", &corev1.Secret{}, asProtobuf{}},
			{"metadata", &metav1.PartialObjectMetadata{}, asProtobuf{}},
			{"a custom resource with a Go type", &widget{}, asJSON{}},
			{"a custom resource without one", &unstructured.Unstructured{}, asUnstructured{}},
		} {
			p := newTestPacker(nil)
			for range 2 * mustCheck {
				want := random(t, c.of, fill.Fill)
				before := want.DeepCopyObject()
				r, isPacked := p.pack(want).(*packed)
				if !isPacked {
					t.Fatalf("%s: is not packed", c.why)
				}
				if got := r.format.encoding; reflect.TypeOf(got) != reflect.TypeOf(c.encoding) {
					t.Fatalf("%s: is packed by %T, want %T", c.why, got, c.encoding)
				}
				got, err := unpack(r)
				if err != nil || !equality.Semantic.DeepEqual(want, got) {
					t.Fatalf("%s: %v (-want +got):\n%s", c.why, err, cmp.Diff(want, got))
				}
				if !equality.Semantic.DeepEqual(want, before) {
					t.Errorf("%s: packing has changed the object", c.why)
				}
				key, _ := cache.MetaNamespaceKeyFunc(want)
				if k, err := cache.MetaNamespaceKeyFunc(r); err != nil || k != key {
					t.Errorf("%s: the key is %q, want %q", c.why, k, key)
				}
			}
		}
	})
}

// random returns an object as a server may send it: what JSON does not keep is not in it.
func random(t *testing.T, like runtime.Object, fill func(any)) runtime.Object {
	t.Helper()
	source, isUnstructured := runtime.Object(&corev1.Pod{}), false
	if _, isUnstructured = like.(*unstructured.Unstructured); !isUnstructured {
		source = like.DeepCopyObject()
	}
	fill(source)
	text, err := json.Marshal(source)
	if err != nil {
		t.Fatal(err)
	}
	o := reflect.New(reflect.TypeOf(like).Elem()).Interface().(runtime.Object)
	if isUnstructured {
		var content map[string]any
		if err := json.Unmarshal(text, &content); err != nil {
			t.Fatal(err)
		}
		content["kind"], content["apiVersion"], content["float"] = "Widget", "example.com/v1", 3.0
		o.(*unstructured.Unstructured).Object = content
		return o
	}
	if err := json.Unmarshal(text, o); err != nil {
		t.Fatal(err)
	}
	return o
}

// TestPackedUnstructured packs what is unusual. The difference between integers and floats remains.
func TestPackedUnstructured(t *testing.T) {
	p := newTestPacker(nil)
	for _, c := range decodetest.Objects() {
		var u unstructured.Unstructured
		if err := json.Unmarshal([]byte(c.Text), &u.Object); err != nil || u.Object == nil {
			continue
		}
		got, err := unpack(p.pack(&u))
		if err != nil || !reflect.DeepEqual(got.(*unstructured.Unstructured).Object, u.Object) {
			t.Errorf("%s: got %.300v, %v", c.Why, got, err)
		}
	}
}

// borrowed has the protobuf methods of its TypeMeta, which lose everything else.
type borrowed struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        metav1.ObjectMeta `json:"metadata"`
}

func (b *borrowed) DeepCopyObject() runtime.Object { c := *b; return &c }
func (b *borrowed) GetObjectMeta() metav1.Object   { return &b.Metadata }

// secretive has fields that JSON does not have.
type secretive struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Hidden            string `json:"-"`
	private           string
}

func (s *secretive) DeepCopyObject() runtime.Object { c := *s; return &c }

// forgetful has protobuf that loses the name, and JSON that does not.
type forgetful struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
}

func (f *forgetful) DeepCopyObject() runtime.Object                 { c := *f; return &c }
func (f *forgetful) Size() int                                      { return 0 }
func (f *forgetful) MarshalToSizedBuffer([]byte) (n int, err error) { return 0, nil }
func (f *forgetful) Unmarshal([]byte) error                         { return nil }

// broken has JSON that fails.
type broken struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
}

func (b *broken) DeepCopyObject() runtime.Object { c := *b; return &c }
func (b *broken) MarshalJSON() ([]byte, error)   { return nil, errors.New("no JSON") }

// byValue is an object that is no pointer.
type byValue struct{ *widget }

// TestUnusualTypes: an object is packed so that it remains the same, or not at all.
func TestUnusualTypes(t *testing.T) {
	meta := metav1.ObjectMeta{Namespace: "a", Name: "b", ResourceVersion: "1"}
	var none *corev1.Pod
	for _, c := range []struct {
		why  string
		obj  any
		want encoding // nil: it is kept as it is
	}{
		{"protobuf of an embedded type", &borrowed{Metadata: meta}, asJSON{}},
		{"protobuf that loses fields", &forgetful{ObjectMeta: meta}, asJSON{}},
		{"a field that JSON does not have", &secretive{ObjectMeta: meta, Hidden: "x"}, nil},
		{"an unexported field", &secretive{ObjectMeta: meta, private: "x"}, nil},
		{"unexported fields that its JSON keeps", &timed{ObjectMeta: meta, At: time.Unix(1e9, 7).UTC()}, asJSON{}},
		{"JSON that fails", &broken{ObjectMeta: meta}, nil},
		{"what a transform made is no object", "text", nil},
		{"nor is this", &meta, nil},
		{"nothing", nil, nil},
		{"a nil pointer", none, nil},
		{"an object without metadata", &metav1.Status{}, nil},
		{"an object that is no pointer", byValue{&widget{ObjectMeta: meta}}, nil},
		{"no content", &unstructured.Unstructured{}, nil},
		{"content that JSON does not have", &unstructured.Unstructured{Object: map[string]any{"a": 1}}, nil},
		{"a deleted object without a state", cache.DeletedFinalStateUnknown{Key: "a/b"}, nil},
	} {
		p := newTestPacker(nil)
		for range 2 { // the second time the format is known
			got := p.pack(c.obj)
			r, isPacked := got.(*packed)
			if isPacked && c.want != nil && reflect.TypeOf(r.format.encoding) == reflect.TypeOf(c.want) {
				o, err := unpack(r)
				if err != nil || !isSame(o.(runtime.Object), c.obj.(runtime.Object)) {
					t.Errorf("%s: got %v, %v", c.why, o, err)
				}
			} else if isPacked || c.want != nil || !reflect.DeepEqual(got, c.obj) {
				t.Errorf("%s: got %#v, want %T", c.why, got, c.want)
			}
		}
	}
}

// timed has unexported fields, which its JSON keeps.
type timed struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	At                time.Time `json:"at"`
}

func (o *timed) DeepCopyObject() runtime.Object { c := *o; return &c }

// keeper keeps the bytes that its UnmarshalJSON receives.
type keeper struct{ Value []byte }

func (k keeper) MarshalJSON() ([]byte, error)  { return k.Value, nil }
func (k *keeper) UnmarshalJSON(b []byte) error { k.Value = b; return nil }

type kept struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Resource          *keeper `json:"resource"`
}

func (k *kept) DeepCopyObject() runtime.Object { c := *k; return &c }

// TestTextsAreNotShared: a type that keeps what it was decoded from does not get the text of another object.
func TestTextsAreNotShared(t *testing.T) {
	p := newTestPacker(nil)
	text := func(i int) string { return fmt.Sprintf(`{"a":"%050d"}`, i) }
	var all []*kept
	for i := range 50 {
		o := &kept{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(i)}, Resource: &keeper{[]byte(text(i))}}
		got, err := unpack(p.pack(o).(*packed))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, got.(*kept))
	}
	for i, o := range all {
		if got := string(o.Resource.Value); got != text(i) {
			t.Fatalf("object %d has %s", i, got)
		}
	}
}

// TestStoreKeepsNoRecords: what client-go's indexes keep of an object is no part of its record, or of its text.
func TestStoreKeepsNoRecords(t *testing.T) {
	p := newTestPacker(cache.Indexers{"node": func(o any) ([]string, error) {
		return []string{o.(*unstructured.Unstructured).GetLabels()["node"]}, nil
	}})
	u := &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"name": "a-name", "labels": map[string]any{"node": "a-node"}}}}
	r := p.pack(u).(*packed)
	values, known := r.values(0)
	late, err := p.wrap(1, func(o any) ([]string, error) {
		return []string{o.(*unstructured.Unstructured).GetName()}, nil
	})(r)
	if !known || err != nil || values[0] != "a-node" || late[0] != "a-name" {
		t.Fatalf("got %v, %v, %v", values, late, err)
	}
	begin := uintptr(unsafe.Pointer(unsafe.StringData(string(r.record))))
	for _, s := range []string{r.GetObjectMeta().GetName(), values[0]} {
		at := uintptr(unsafe.Pointer(unsafe.StringData(s)))
		if begin <= at && at < begin+uintptr(len(r.record)) {
			t.Errorf("%s is a part of the record", s)
		}
	}
}

// TestUncomparableObjects: an object that is not packed need not be comparable.
func TestUncomparableObjects(t *testing.T) {
	type value struct{ items []string }
	calls := 0
	h := newTestPacker(nil).handler(cache.ResourceEventHandlerFuncs{UpdateFunc: func(_, o any) {
		calls += len(o.(value).items)
	}})
	if h.OnUpdate(value{}, value{[]string{"x"}}); calls != 1 {
		t.Errorf("the handler was called %d times", calls)
	}
}

// TestOneUnpackableObject: an object that cannot be encoded does not keep others of its type from being packed.
func TestOneUnpackableObject(t *testing.T) {
	p := newTestPacker(nil)
	bad := &unstructured.Unstructured{Object: map[string]any{"spec": []string{"x"}}}
	good := &unstructured.Unstructured{Object: map[string]any{"spec": "x"}}
	if _, isPacked := p.pack(bad).(*packed); isPacked {
		t.Error("packed what JSON does not have")
	}
	if _, isPacked := p.pack(good).(*packed); !isPacked {
		t.Error("packed nothing after an object that cannot be")
	}
}

// TestPackedSaysNothing: a packed object in a log is a name.
func TestPackedSaysNothing(t *testing.T) {
	p := newTestPacker(nil)
	r := p.pack(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "b"},
		Data: map[string][]byte{"password": []byte("hunter2")}})
	err := cache.KeyError{Obj: r, Err: errors.New("x")}
	for _, text := range []string{err.Error(), fmt.Sprintf("%+v", r), fmt.Sprintf("%#v", r)} {
		if strings.Contains(text, "hunter2") || !strings.Contains(text, "a/b") {
			t.Error(text)
		}
	}
}

// TestRecentLasts: what was packed is kept for handlers for one or two generations, also if others come after it.
func TestRecentLasts(t *testing.T) {
	p := newTestPacker(nil)
	packedOf := func(name string) *packed {
		return p.pack(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}}).(*packed)
	}
	first := packedOf("a")
	kept, _ := p.recent.get(first, newer)
	p.recent.expire()
	packedOf("b")
	if again, _ := p.recent.get(first, newer); again != kept {
		t.Error("an object was unpacked again in the generation after its own")
	}
	p.recent.expire()
	p.recent.expire()
	if again, _ := p.recent.get(first, newer); again == kept {
		t.Error("an object is kept for more than two generations")
	}
}

// TestRecentIsBounded: what is kept for handlers is bounded by number, and by size if the objects are large.
func TestRecentIsBounded(t *testing.T) {
	for _, c := range []struct {
		why  string
		size int // of an object
		most int // objects
	}{
		{"small objects", 10, 2 * maxRecent},
		{"as large as a generation may be", maxRecentBytes, 2},
		{"larger", 4 * maxRecentBytes, 2},
		{"a quarter of that", maxRecentBytes / 4, 8},
	} {
		synctest.Test(t, func(t *testing.T) { // where no time passes
			r, text := &recent{}, make([]byte, c.size)
			for n := range 3 * maxRecent {
				id := objects.Version{ID: objects.ID{Name: fmt.Sprint(n)}}
				r.put(&packed{record: compact.Pack(id, nil, 0, text)}, n)
				if kept := len(r.young) + len(r.old); kept > c.most {
					t.Fatalf("%s: %d objects are kept, want at most %d", c.why, kept, c.most)
				}
			}
			if kept := len(r.young) + len(r.old); kept < c.most/2 {
				t.Errorf("%s: %d objects are kept, want at least %d", c.why, kept, c.most/2)
			}
		})
	}
}

// countedUnstructured counts what is decoded.
type countedUnstructured struct {
	asUnstructured
	decoded *int
}

func (c countedUnstructured) decode(text []byte) (runtime.Object, error) {
	*c.decoded++
	return c.asUnstructured.decode(text)
}

// TestSelectingDecodesNoOthers: what the selector of a lister does not match is not decoded.
func TestSelectingDecodesNoOthers(t *testing.T) {
	p := newTestPacker(cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	decoded := 0
	for n := range 1000 {
		o := &unstructured.Unstructured{Object: map[string]any{"kind": "Door", "spec": map[string]any{"n": int64(n)}}}
		o.SetNamespace("shop")
		o.SetName(fmt.Sprint(n))
		if n > 0 { // one has no labels
			o.SetLabels(map[string]string{"even": fmt.Sprint(n%2 == 0), "n": fmt.Sprint(n)})
		}
		r := p.pack(o).(*packed)
		r.format = &format{codec: p.codec, encoding: countedUnstructured{decoded: &decoded}}
		if err := p.store.Add(r); err != nil {
			t.Fatal(err)
		}
	}
	indexer := &compactIndexer{p.store.(cache.Indexer), p, nil}
	for _, c := range []struct {
		selector string
		want     int
	}{{"", 1000}, {"even=true", 499}, {"even!=true", 501}, {"n in (7,8,1000)", 2}, {"!even", 1}, {"x", 0}} {
		s, err := labels.Parse(c.selector)
		if err != nil {
			t.Fatal(err)
		}
		decoded = 0
		list := func(all []any, err error) int {
			if err != nil {
				t.Fatal(err)
			}
			return len(all)
		}
		selecting := indexer.Selecting(s)
		got := []int{len(selecting.List()), list(selecting.ByIndex(cache.NamespaceIndex, "shop")),
			list(selecting.Index(cache.NamespaceIndex, &metav1.ObjectMeta{Namespace: "shop"})), decoded}
		if want := []int{c.want, c.want, c.want, 3 * c.want}; !slices.Equal(got, want) {
			t.Errorf("%q: got %d by List, %d by ByIndex, %d by Index, decoded %d, want %v",
				c.selector, got[0], got[1], got[2], got[3], want)
		}
	}
}
