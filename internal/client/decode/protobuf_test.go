package decode_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/gvrwatch/gvrwatch/internal/client/decode"
	"github.com/gvrwatch/gvrwatch/internal/testing/decodetest"
)

// protobufComparison compares a Protobuf with the decoder of client-go's metadata client.
type protobufComparison struct{ p *decode.Protobuf }

func (c protobufComparison) event(data []byte) error {
	var got decode.Event
	var n int
	var err error
	lent(data, func(data []byte) { got, n, err = c.p.Event(data) })
	if err := c.view(data); err != nil {
		return err
	}
	if errors.Is(err, decode.ErrShort) && len(data) >= 4 && len(data)-4 >= int(binary.BigEndian.Uint32(data)) {
		return errors.New("ErrShort, but the event is complete")
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errDeclined, err)
	}
	kind, want, refused := decodetest.ProtobufEvent(withoutManagedFields(data[:n]))
	switch o, ok := want.(*unstructured.Unstructured); {
	case refused != nil:
		return taken(nil, refused)
	case !ok || kind != got.Type || n != 4+int(binary.BigEndian.Uint32(data)):
		return fmt.Errorf("want %s with %T, got %s of %d bytes", kind, want, got.Type, n)
	default:
		return different(decodetest.Difference(o.Object, got.Object))
	}
}

// view compares the view of the event with the decoded event.
func (c protobufComparison) view(data []byte) (err error) {
	ev, n, refused := c.p.Event(data)
	v, length := c.p.Metadata(data, decode.ToManaged)
	if v == nil || refused != nil {
		return nil
	}
	defer v.Forget()
	o := &unstructured.Unstructured{Object: ev.Object}
	namespace, name, version := v.Identity()
	want := []any{n, ev.Type, o.GetNamespace(), o.GetName(), o.GetResourceVersion(), o.GetUID(), o.GetLabels(),
		o.GetAnnotations(), o.GetOwnerReferences(), false}
	got := []any{length, v.Type(), string(namespace), string(name), string(version), v.GetUID(), v.GetLabels(),
		v.GetAnnotations(), v.GetOwnerReferences(), v.Broken()}
	return different(cmp.Diff(want, got))
}

func (c protobufComparison) list(data []byte) error {
	got, err := protobufInPieces(c.p, data, len(data)+1)
	pieces, inPiecesErr := protobufInPieces(c.p, data, max(1, len(data)/5))
	if (err == nil) != (inPiecesErr == nil) {
		return fmt.Errorf("as a whole: %v; in pieces: %v", err, inPiecesErr)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errDeclined, err)
	}
	want, refused := decodetest.ProtobufList(withoutManagedFields(data))
	if refused != nil {
		return taken(nil, refused)
	}
	return different(decodetest.DifferenceOfLists(want, got) + decodetest.DifferenceOfLists(want, pieces))
}

// protobufInPieces decodes a list that arrives in pieces of random sizes, up to most bytes.
func protobufInPieces(p *decode.Protobuf, data []byte, most int) (*unstructured.UnstructuredList, error) {
	r := rand.New(rand.NewPCG(uint64(len(data)), 6))
	for l, n := p.Lister(), 0; ; n = min(len(data), n+1+r.IntN(most)) {
		if most > len(data) {
			n = len(data)
		}
		var err error
		lent(data[:n], func(data []byte) { err = l.Decode(data) })
		switch {
		case err != nil && !errors.Is(err, decode.ErrShort):
			return nil, err
		case n == len(data):
			list, _, err := l.List()
			return list, err
		}
	}
}

// withoutManagedFields hides the managedFields of a list or an event, which a Protobuf does not check: their tag
// becomes one that apimachinery does not know.
func withoutManagedFields(data []byte) []byte {
	data = slices.Clone(data)
	if magic := []byte("k8s\x00"); bytes.HasPrefix(data, magic) {
		hideManagedFields(data[len(magic):], 2, 2, 1)
	} else {
		hideManagedFields(data[decode.LengthSize:], 2, 1, 2, 1)
	}
	return data
}

// hideManagedFields changes the field 17 of the messages at a path of fields.
func hideManagedFields(b []byte, path ...uint64) {
	b = bytes.TrimPrefix(b, []byte("k8s\x00"))
	for len(b) > 0 {
		tag, n := binary.Uvarint(b)
		if n == 2 && tag == 17<<3|2 && len(path) == 0 {
			b[0] = 18<<3&0x7f | 0x80 | 2
		}
		b = b[max(n, 0):]
		size, m := binary.Uvarint(b)
		if n <= 0 || m <= 0 {
			return
		}
		if b = b[m:]; tag&7 == 2 {
			if size > uint64(len(b)) {
				return
			}
			if len(path) > 0 && tag>>3 == path[0] {
				hideManagedFields(b[:size], path[1:]...)
			}
			b = b[size:]
		}
	}
}

// protobufSeeds returns the recorded metadata as protobuf: the events, or the lists.
func protobufSeeds(t testing.TB, events bool) (seeds [][]byte) {
	for _, r := range decodetest.ReadRecorded(t, recordings) {
		switch {
		case r.Name == "typeds-table.list.json" || r.Watch != events:
		case r.Watch:
			for _, frame := range r.Frames() {
				if json.Valid(frame) { // not a part of a longer one
					seeds = append(seeds, decodetest.EventToProtobuf(frame))
				}
			}
		default:
			seeds = append(seeds, decodetest.ListToProtobuf(r.Data))
		}
	}
	return seeds
}

func TestProtobufIsTheSame(t *testing.T) {
	c := protobufComparison{decode.NewProtobuf()}
	for range 3 { // earlier inputs must make no difference
		for _, data := range protobufSeeds(t, true) {
			compare(t, bytes.Contains(data, []byte("ERROR")), "recorded event", data, c.event)
		}
		for _, data := range protobufSeeds(t, false) {
			compare(t, false, "recorded list", data, c.list)
		}
	}
	for _, tt := range []struct{ why, metadata string }{
		{"the marker of a WatchList", `"resourceVersion":"7","annotations":{"k8s.io/initial-events-end":"true"}`},
		{"an object that is being deleted", `"name":"a","deletionTimestamp":"2026-11-20T10:11:12Z",` +
			`"deletionGracePeriodSeconds":0,"finalizers":["a","","a"]`},
		{"numbers at the limits", `"generation":-1,"deletionGracePeriodSeconds":9223372036854775807`},
		{"times at the limits", `"creationTimestamp":"1970-01-01T00:00:00Z",` +
			`"deletionTimestamp":"9999-12-31T23:59:59Z"`},
		{"owners", `"ownerReferences":[{"apiVersion":"","kind":"","name":"","uid":""},{"apiVersion":"v1","kind":"K",` +
			`"name":"n","uid":"u","controller":false,"blockOwnerDeletion":true}]`},
		{"texts of all lengths", `"name":"` + strings.Repeat("n", 64) + `","labels":{"":"","a":"` +
			strings.Repeat("l", 65) + `"},"annotations":{"` + strings.Repeat("a", 5000) + `":"é\"\n"}`},
		{"more keys than a small map has room for", `"name":"a","generateName":"b","namespace":"c","selfLink":"d",` +
			`"uid":"e","resourceVersion":"f","generation":7,"creationTimestamp":"2026-11-20T10:11:12Z","labels":{` +
			`"a":"1","b":"1","c":"1","d":"1","e":"1","f":"1","g":"1","h":"1","i":"1"},"finalizers":["f"]`},
		{"nothing", ``},
	} {
		frame := decodetest.EventToProtobuf([]byte(`{"type":"MODIFIED","object":{"metadata":{` + tt.metadata + `}}}`))
		for range 3 {
			compare(t, false, tt.why, frame, c.event)
		}
	}
}

// TestRandomProtobufIsTheSame: mutated messages give the same results, or are declined.
func TestRandomProtobufIsTheSame(t *testing.T) {
	events, lists := protobufSeeds(t, true), protobufSeeds(t, false)
	for s := range randomSeeds.All(t) {
		r, c := rand.New(rand.NewPCG(uint64(s), 19)), protobufComparison{decode.NewProtobuf()}
		for range 300 {
			for _, input := range []struct {
				seeds   [][]byte
				compare func([]byte) error
			}{{events, c.event}, {lists, c.list}} {
				data := slices.Clone(input.seeds[r.IntN(len(input.seeds))])
				if len(data) > 10<<10 {
					continue
				}
				for range 1 + r.IntN(4) {
					at := r.IntN(len(data))
					switch r.IntN(3) {
					case 0:
						data[at] = byte(r.Uint32())
					case 1:
						data[at] ^= 1 << r.IntN(8)
					case 2:
						data[at] += byte(r.IntN(3)) - 1
					}
				}
				if err := input.compare(data); err != nil && !errors.Is(err, errDeclined) {
					t.Fatalf("seed %d: %v\n%.2000q", s, err, data)
				}
			}
		}
	}
}

func FuzzProtobufEvent(f *testing.F) { fuzzProtobuf(f, true, protobufComparison.event) }
func FuzzProtobufList(f *testing.F)  { fuzzProtobuf(f, false, protobufComparison.list) }

func fuzzProtobuf(f *testing.F, events bool, compare func(protobufComparison, []byte) error) {
	for _, data := range protobufSeeds(f, events) {
		if len(data) < 4<<10 {
			f.Add(data)
		}
	}
	c := protobufComparison{decode.NewProtobuf()}
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := compare(c, data); err != nil && !errors.Is(err, errDeclined) {
			t.Error(err)
		}
	})
}

func BenchmarkProtobufEvent(b *testing.B) {
	p := decode.NewProtobuf()
	var frames [][]byte
	for i := range 1000 {
		frames = append(frames, decodetest.EventToProtobuf(decodetest.PodEvent(i)))
	}
	b.SetBytes(int64(len(frames[0])))
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if _, _, err := p.Event(frames[i%1000]); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkProtobufMaps measures the least that any decoder has to do.
func BenchmarkProtobufMaps(b *testing.B) {
	ev, _, err := decode.NewProtobuf().Event(decodetest.EventToProtobuf(decodetest.PodEvent(1)))
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		runtime.DeepCopyJSON(ev.Object)
	}
}

// TestProtobufOfInvalidUTF8: texts of protobuf metadata are kept as they are, as client-go does. SECURITY.md says so.
func TestProtobufOfInvalidUTF8(t *testing.T) {
	const invalid = "\xff\xc3("
	const object = `{"metadata":{"name":"QQQ","labels":{"QQQ":"QQQ"}}}`
	event := decodetest.EventToProtobuf([]byte(`{"type":"ADDED","object":` + object + `}`))
	event = bytes.ReplaceAll(event, []byte("QQQ"), []byte(invalid))
	p := decode.NewProtobuf()
	if err := (protobufComparison{p}).event(event); err != nil {
		t.Error(err)
	}
	got, _, err := p.Event(event)
	if err != nil {
		t.Fatal(err)
	}
	o := &unstructured.Unstructured{Object: got.Object}
	want := []any{invalid, map[string]string{invalid: invalid}}
	if diff := cmp.Diff(want, []any{o.GetName(), o.GetLabels()}); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
