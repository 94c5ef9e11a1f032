package stream_test

import (
	"encoding/json"
	"fmt"
	"math"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kruntime "k8s.io/apimachinery/pkg/runtime"

	"github.com/gvrwatch/gvrwatch/internal/client/decode"
	"github.com/gvrwatch/gvrwatch/internal/testing/decodetest"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

// sized is a widget with a field whose name differs from another one's by case.
type sized struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Size int32 `json:"size"`
		SIZE int
		Any  map[string]any `json:"any"`
	} `json:"spec"`
}

func anyAs[T any](ev stream.Event) (any, error) { return stream.As[T](ev) }

// rawAndFull returns the object as a Raw and as a Full event.
func rawAndFull(t testing.TB, text string) map[string]stream.Event {
	o, err := decode.Decode([]byte(text))
	if err != nil {
		t.Fatal(text, err)
	}
	return map[string]stream.Event{
		"Raw": {Type: stream.Added, JSON: json.RawMessage(text)}, "Full": {Type: stream.Added, Object: o},
	}
}

func copyOf(ev stream.Event) stream.Event {
	ev.JSON, ev.Object = slices.Clone(ev.JSON), ev.Object.DeepCopy()
	return ev
}

func TestAs(t *testing.T) {
	named := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name} }
	pod := corev1.Pod{ObjectMeta: named("a"), Spec: corev1.PodSpec{NodeName: "n"}}
	widget := func(size int32, more map[string]any) (w sized) {
		w.ObjectMeta, w.Spec.Size, w.Spec.Any = named("a"), size, more
		return w
	}
	const seven = `{"metadata":{"name":"a"},"spec":{"size":7}}`
	tests := []struct {
		why, text string
		as        func(stream.Event) (any, error)
		want      any // nil for an error
	}{
		{"a struct", `{"metadata":{"name":"a"},"spec":{"nodeName":"n"}}`, anyAs[corev1.Pod], pod},
		{"a pointer", `{"metadata":{"name":"a"},"spec":{"nodeName":"n"}}`, anyAs[*corev1.Pod], &pod},
		{"a type of the program", seven, anyAs[sized], widget(7, nil)},
		{"names are case-sensitive", `{"metadata":{"name":"a"},"spec":{"Size":7,"sizE":8}}`, anyAs[sized],
			widget(0, nil)},
		{"fields that the type lacks", `{"metadata":{"name":"a"},"spec":{"size":7},"x":{}}`, anyAs[sized],
			widget(7, nil)},
		{"whole numbers in any are int64, as in Decode", `{"metadata":{"name":"a"},"spec":{"any":{"n":1,"f":1.5}}}`,
			anyAs[sized], widget(0, map[string]any{"n": int64(1), "f": 1.5})},
		{"only metadata is asked for", seven, anyAs[metav1.PartialObjectMetadata],
			metav1.PartialObjectMetadata{ObjectMeta: named("a")}},
		{"a map", `{"a":1}`, anyAs[map[string]any], map[string]any{"a": int64(1)}},
		{"another type that fits", seven, anyAs[corev1.Secret], corev1.Secret{ObjectMeta: named("a")}},

		{"a number that does not fit", `{"spec":{"size":7777777777}}`, anyAs[sized], nil},
		{"no number", `{"spec":{"size":"secret"}}`, anyAs[sized], nil},
		{"a broken number", `{"spec":{"size":7777.5}}`, anyAs[*sized], nil},
		{"an object instead of a text", `{"spec":{"nodeName":{"secret":7777}}}`, anyAs[corev1.Pod], nil},
		{"a text instead of an object", `{"spec":"secret"}`, anyAs[corev1.Pod], nil},
		{"a quantity", `{"spec":{"overhead":{"cpu":"secret"}}}`, anyAs[corev1.Pod], nil},
		{"a time", `{"metadata":{"creationTimestamp":"secret"}}`, anyAs[corev1.Pod], nil},
		{"bytes", `{"data":{"a":"secret!"}}`, anyAs[corev1.Secret], nil},
		{"an address", `{"Spec":"secret"}`, anyAs[struct{ Spec netip.Addr }], nil},
		{"a network", `{"Spec":"secret"}`, anyAs[struct{ Spec netip.Prefix }], nil},
	}
	for _, tt := range tests {
		for mode, ev := range rawAndFull(t, tt.text) {
			before := copyOf(ev)
			got, err := tt.as(ev)
			if tt.want != nil && err == nil {
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Errorf("%s, %s (-want +got):\n%s", tt.why, mode, diff)
				}
			} else if tt.want != nil || err == nil {
				t.Errorf("%s, %s: got %+v, %v", tt.why, mode, got, err)
			} else if s := err.Error(); strings.Contains(s, "secret") || strings.Contains(s, "7777") {
				t.Errorf("%s, %s: the error quotes the object: %s", tt.why, mode, s)
			} else if v := reflect.ValueOf(got); !v.IsZero() {
				t.Errorf("%s, %s: got %+v with an error", tt.why, mode, got)
			}
			if !before.Equal(ev) {
				t.Errorf("%s, %s: the event has changed", tt.why, mode)
			}
		}
	}
}

// TestAsWithoutAnObject: what has none is an error, never a nil pointer or an empty Pod.
func TestAsWithoutAnObject(t *testing.T) {
	object := func(m map[string]any) *unstructured.Unstructured { return &unstructured.Unstructured{Object: m} }
	for _, tt := range []struct {
		why  string
		ev   stream.Event
		want string
	}{
		{"the zero Event", stream.Event{}, `type "" has no object`},
		{"SYNCED", stream.Event{Type: stream.Synced, ResourceVersion: "7"}, `type "SYNCED" has no object`},
		{"GAP", stream.Event{Type: stream.Gap, Gap: &stream.GapDetails{}}, `type "GAP" has no object`},
		{"BOOKMARK", stream.Event{Type: stream.Bookmark}, `type "BOOKMARK" has no object`},
		{"an object without content", stream.Event{Type: stream.Added, Object: object(nil)}, "it is null"},
		{"null", stream.Event{Type: stream.Added, JSON: json.RawMessage(" null\n")}, "it is null"},
		{"no JSON", stream.Event{Type: stream.Added, JSON: json.RawMessage("x")}, "cannot decode an object of"},
		{"half of it", stream.Event{Type: stream.Added, JSON: json.RawMessage(`{"spec":"sec`)}, "cannot decode"},
		{"nothing", stream.Event{Type: stream.Added, JSON: json.RawMessage{}}, "cannot decode"},
		{"no JSON has it", stream.Event{Type: stream.Added, Object: object(map[string]any{"a": make(chan int)})},
			"cannot decode"},
		{"no number", stream.Event{Type: stream.Added, Object: object(map[string]any{"a": math.NaN()})},
			"cannot decode"},
	} {
		pointer, err := stream.As[*corev1.Pod](tt.ev)
		if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.HasPrefix(err.Error(), "stream: ") {
			t.Errorf("%s: %v, want %s", tt.why, err, tt.want)
		}
		if _, again := stream.As[corev1.Pod](tt.ev); again == nil || pointer != nil {
			t.Errorf("%s: got %v, and of the struct no error", tt.why, pointer)
		}
	}
}

// TestAsOfEveryMode: what As gives of the events of a Stream.
func TestAsOfEveryMode(t *testing.T) {
	type door struct {
		metav1.TypeMeta
		metav1.ObjectMeta `json:"metadata"`
		Spec              struct {
			Size int `json:"size"`
		} `json:"spec"`
	}
	for _, tt := range []struct {
		why     string
		options stream.Options
		want    string
	}{
		{"Full", stream.Options{}, "Widget a with uid true, map[k:v], size 7"},
		{"Raw", stream.Options{Objects: stream.Raw}, "Widget a with uid true, map[k:v], size 7"},
		{"Metadata has no spec", stream.Options{Objects: stream.Metadata}, "Widget a with uid true, map[k:v], size 0"},
		{"as Transform has left it", stream.Options{Transform: func(o *unstructured.Unstructured) {
			o.SetLabels(nil)
			o.Object["spec"] = map[string]any{"size": 8} // an int, which no decoder makes
		}}, "Widget a with uid true, map[], size 8"},
	} {
		srv := streamtest.NewServer(widgets())
		srv.Put(widgets(), "shop", "a", "metadata.labels.k=v", "spec.size=7")
		s, err := stream.New(srv.Client(), widgets(), &tt.options)
		if err != nil {
			t.Fatal(err)
		}
		hasObject := func(ev stream.Event) (bool, error) { return ev.HasObject(), nil }
		ev, err := stream.Until(s.Events(t.Context()), hasObject)
		if err != nil {
			t.Fatal(err)
		}
		d, err := stream.As[door](ev)
		if err != nil {
			t.Errorf("%s: %v", tt.why, err)
		}
		got := fmt.Sprintf("%s %s with uid %v, %v, size %d", d.Kind, d.Name, d.UID != "", d.Labels, d.Spec.Size)
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.why, diff)
		}
		m, err := stream.As[metav1.PartialObjectMetadata](ev)
		if diff := cmp.Diff(d.ObjectMeta, m.ObjectMeta); err != nil || diff != "" {
			t.Errorf("%s: %v, the metadata (-want +got):\n%s", tt.why, err, diff)
		}
		srv.Close()
	}
}

// TestAsSharesNothing: neither the event nor another value of it changes with a value.
func TestAsSharesNothing(t *testing.T) {
	const text = `{"metadata":{"name":"a","labels":{"k":"v"}},"spec":{"any":{"in":{"k":"v"}}}}`
	for mode, ev := range rawAndFull(t, text) {
		one, err := stream.As[*sized](ev)
		if err != nil {
			t.Fatal(err)
		}
		want := copyOf(ev)
		one.Labels["k"] = "changed"
		one.Spec.Any["in"].(map[string]any)["k"] = "changed"
		if !ev.Equal(want) {
			t.Errorf("%s: the event has changed with the value", mode)
		}
		two, err := stream.As[*sized](ev)
		if err != nil || two.Labels["k"] != "v" || two.Spec.Any["in"].(map[string]any)["k"] != "v" {
			t.Errorf("%s: the second value is %+v, %v", mode, two, err)
		}
	}
}

// TestAsIsTheSameOfRawAndFull compares both with each other, and with what a typed client of client-go decodes.
func TestAsIsTheSameOfRawAndFull(t *testing.T) {
	for i := range 20 {
		text := podOf(i)
		var want corev1.Pod
		if err := json.Unmarshal(text, &want); err != nil {
			t.Fatal(err)
		}
		for mode, ev := range rawAndFull(t, string(text)) {
			got, err := stream.As[corev1.Pod](ev)
			if diff := cmp.Diff(want, got); err != nil || diff != "" {
				t.Fatalf("pod %d, %s: %v (-want +got):\n%s", i, mode, err, diff)
			}
		}
	}
}

// podOf returns the JSON of a pod.
func podOf(i int) []byte {
	var event struct{ Object json.RawMessage }
	if err := json.Unmarshal(decodetest.PodEvent(i), &event); err != nil {
		panic(err)
	}
	return event.Object
}

// BenchmarkAs measures As of a pod, and what it replaces. BenchmarkRead of package store has that of store.As.
func BenchmarkAs(b *testing.B) {
	measure := func(name string, ev stream.Event, as func(stream.Event) error) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := as(ev); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	events := rawAndFull(b, string(podOf(3)))
	as := func(ev stream.Event) error { _, err := stream.As[corev1.Pod](ev); return err }
	measure("Raw", events["Raw"], as)
	measure("Full", events["Full"], as)
	measure("Full-FromUnstructured", events["Full"], func(ev stream.Event) error {
		var p corev1.Pod
		return kruntime.DefaultUnstructuredConverter.FromUnstructured(ev.Object.Object, &p)
	})
	measure("Raw-Decode-FromUnstructured", events["Raw"], func(ev stream.Event) error {
		o, err := ev.Decode()
		if err != nil {
			return err
		}
		var p corev1.Pod
		return kruntime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &p)
	})
}
