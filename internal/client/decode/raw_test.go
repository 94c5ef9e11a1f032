package decode_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gvrwatch/gvrwatch/internal/client/decode"
	"github.com/gvrwatch/gvrwatch/internal/objects"
	"github.com/gvrwatch/gvrwatch/internal/testing/decodetest"
)

// sameRaw compares an object as JSON with client-go's, after left.
func sameRaw(want map[string]any, left func(map[string]any), r decode.Raw) error {
	o := &unstructured.Unstructured{Object: want}
	id := objects.Version{ID: objects.ID{Namespace: o.GetNamespace(), Name: o.GetName(), UID: o.GetUID()},
		ResourceVersion: o.GetResourceVersion()}
	if m := decode.NewMeta(r.JSON); id != r.Version || id.Name != m.GetName() ||
		id.UID != m.GetUID() || id.Namespace != m.GetNamespace() ||
		id.ResourceVersion != m.GetResourceVersion() {
		return fmt.Errorf("different: want %+v, got %+v", id, r.Version)
	}
	got, err := decode.Decode(r.JSON)
	if err != nil {
		return fmt.Errorf("client-go accepts it, but decoding it failed: %v", err)
	}
	want = decodetest.Copy(want)
	left(want)
	if text, err := json.Marshal(want); err == nil { // encoding again makes 1.0 to 1
		if again, err := decode.Decode(text); err == nil && decodetest.Difference(again.Object, got.Object) == "" {
			return nil
		}
	}
	return different(decodetest.Difference(want, got.Object))
}

// rawEvent compares the object of an event as JSON with client-go's. What client-go rejects may be accepted: the JSON
// is not checked.
func (c *comparison) rawEvent(data []byte) error {
	data = bytes.Replace(data, []byte(`"name":"n"`), []byte(`"name":"n","resourceVersion":"7"`), 1)
	kind, o, refused := decodetest.Event(data)
	length, _, _ := decodetest.Frame(data)
	return c.each(func(d *decode.Decoder, left func(map[string]any)) error {
		var r decode.Raw
		v, n := d.Metadata(data, decode.ToEnd)
		ok := v != nil
		if ok {
			lent(data, func(data []byte) {
				v, _ = d.Metadata(data, []decode.Extent{decode.ToEnd, decode.ToManaged}[len(data)%2])
				r, ok = v.Raw(false)
			})
		}
		switch u, isObject := o.(*unstructured.Unstructured); {
		case !ok:
			return decode.ErrDeclined
		case refused != nil:
			return nil
		case !isObject || n != length || v.Type() != kind:
			return fmt.Errorf("want %s of %d bytes with %T, got %s of %d", kind, length, o, v.Type(), n)
		default:
			return sameRaw(u.Object, left, r)
		}
	})
}

// rawList compares the objects of a list as JSON with client-go's.
func (c *comparison) rawList(data []byte) error {
	want, refused := decodetest.List(data)
	return c.each(func(d *decode.Decoder, left func(map[string]any)) error {
		l, r := d.Lister(true), rand.New(rand.NewPCG(uint64(len(data)), 8))
		err := decode.ErrShort
		for n := 0; n < len(data) && err == decode.ErrShort; {
			n = min(len(data), n+1+r.IntN(1+len(data)/3))
			lent(data[:n], func(data []byte) { err = l.Decode(data) })
			if err == nil && n < len(data) {
				err = decode.ErrShort
			}
		}
		if err != nil {
			return err
		}
		list, raws, err := l.List()
		if err != nil || refused != nil {
			return err
		}
		if len(raws) != len(want.Items) || len(list.Items) > 0 {
			return fmt.Errorf("want %d objects, got %d", len(want.Items), len(raws))
		}
		for i, r := range raws {
			if err := sameRaw(want.Items[i].Object, left, r); err != nil {
				return fmt.Errorf("object %d: %w", i, err)
			}
		}
		return different(decodetest.Difference(want.Object, list.Object))
	})
}

func FuzzRawEvent(f *testing.F) { fuzz(f, decodetest.Frames(), (*comparison).rawEvent) }
func FuzzRawList(f *testing.F)  { fuzz(f, decodetest.Lists(), (*comparison).rawList) }

// A Meta decodes no more than it is asked for: not what follows the identity. The race detector makes a sync.Pool drop
// Decoders at random, so the count varies: a tenth of what decoding all takes leaves room for that.
func TestMetaOfIdentityAllocatesLittle(t *testing.T) {
	event := decodetest.PodEvent(1)
	object := bytes.TrimSuffix(event[bytes.Index(event, []byte(`"object":`))+len(`"object":`):], []byte("}\n"))
	if !bytes.Contains(object, []byte(`"managedFields":[{`)) {
		t.Fatal("the object has no managedFields")
	}
	identity := testing.AllocsPerRun(100, func() {
		if m := decode.NewMeta(object); m.GetName() == "" || m.GetUID() == "" {
			t.Error("no name or uid")
		}
	})
	all := testing.AllocsPerRun(100, func() {
		if _, err := decode.Decode(object); err != nil {
			t.Error(err)
		}
	})
	if identity > all/10 {
		t.Errorf("%v allocations for the identity, %v for all: want at most a tenth", identity, all)
	}
}

// An object that would take too much memory is an error, as in an event or a list, also if it is unusual.
func TestDecodeIsBounded(t *testing.T) {
	maps := strings.Repeat(`{"":{}},`, 1<<20)
	for _, unusual := range []string{"", `"KIND":1,`} {
		if _, err := decode.Decode([]byte(`{` + unusual + `"x":[` + maps + `0]}`)); err == nil {
			t.Errorf("%q: an object of more than 256 MiB was decoded", unusual)
		}
	}
}

func TestIsWhole(t *testing.T) {
	for _, tt := range []struct {
		json string
		want bool
		why  string
	}{
		{`{}`, true, "an object"}, {" {\"a\":[{}]}\n", true, "white space around it"},
		{`{"a":"}{\"}\\"}`, true, "brackets and quotes in a text"},
		{`{"a":x}`, true, "only brackets are checked"},
		{`{},"a":{}`, false, "a field follows"}, {`{}{}`, false, "an object follows"},
		{`{}}`, false, "a brace follows"}, {`{"a":{}`, false, "a brace is missing"},
		{`{"a":"}`, false, "a text does not end"}, {`{"a":"\`, false, "an escape does not end"},
		{`[]`, false, "a list"}, {`null`, false, "null"}, {``, false, "nothing"}, {` `, false, "white space"},
	} {
		if got := decode.IsWhole([]byte(tt.json)); got != tt.want {
			t.Errorf("%s: %q: %v, want %v", tt.why, tt.json, got, tt.want)
		}
	}
}
