package stream_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/gvrwatch/gvrwatch/stream"
)

const (
	managed = `,"managedFields":[{"manager":"m","fieldsV1":{"f:spec":{}}}]`
	rawList = `{"kind":"WidgetList","apiVersion":"example.com/v1","metadata":{"resourceVersion":"5"},"items":[` +
		`{"metadata":{"name":"a","namespace":"n","uid":"u1","resourceVersion":"1"` + managed +
		`},"spec":{"size":1.0}},` +
		`{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"b","namespace":"n","uid":"u2",` +
		`"resourceVersion":"2","labels":{"colour":"red"}}}]}`
	rawFrame = `raw {"type":"MODIFIED","object":{"kind":"Widget","apiVersion":"example.com/v1","metadata":{` +
		`"name":"a","namespace":"n","uid":"u1","resourceVersion":"6"` + managed + `,"labels":{"b":"c"}},` +
		`"spec":{"text":"<\u00e9>", "size": 12345678901234567890}}}` + "\n"
	rawA6 = `"labels":{"b":"c"}},"spec":{"text":"<\u00e9>", "size": 12345678901234567890}}`
)

func TestRawIsWhatTheServerSent(t *testing.T) {
	const (
		kind = `{"kind":"Widget","apiVersion":"example.com/v1",`
		a    = `"metadata":{"name":"a","namespace":"n","uid":"u1","resourceVersion":`
		b    = `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"b","namespace":"n","uid":"u2",` +
			`"resourceVersion":"2","labels":{"colour":"red"}}}`
	)
	encoded := func(text string) string { // as Go encodes a decoded object
		o, err := stream.Event{JSON: []byte(text)}.Decode()
		if err != nil {
			t.Fatal(err)
		}
		again, err := o.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(again))
	}
	newClient := func(o stream.ClientOptions) func(*script) dynamic.Interface {
		return func(s *script) dynamic.Interface {
			c, err := stream.NewClient(&rest.Config{Host: "http://server", Transport: s, Timeout: time.Second}, &o)
			if err != nil {
				t.Fatal(err)
			}
			return c
		}
	}
	whole := []string{
		kind + a + `"1"` + managed + `},"spec":{"size":1.0}}`, b, kind + a + `"6"` + managed + "," + rawA6,
	}
	for _, tt := range []struct {
		name   string
		client func(*script) dynamic.Interface
		want   []string
		why    string
	}{
		{"NewClient", newClient(stream.ClientOptions{}), whole,
			"the text is unchanged; an item without a kind gets that of the list"},
		{"without managedFields", newClient(stream.ClientOptions{DropManagedFields: true}),
			[]string{kind + a + `"1"},"spec":{"size":1.0}}`, b, kind + a + `"6",` + rawA6},
			"managedFields are cut out, with one comma"},
		{"client-go", (*script).client, []string{encoded(whole[0]), encoded(whole[1]), encoded(whole[2])},
			"objects that another client has decoded are encoded again"},
	} {
		synctest.Test(t, func(t *testing.T) {
			sc := &script{t: t, exchanges: []exchange{
				{"list", func(*http.Request) (*http.Response, error) {
					return respond(200, io.NopCloser(strings.NewReader(rawList)))
				}},
				{"watch 5", watch(rawFrame, "ERROR 410 Expired")},
				{"list", list("20", "")},
				{"watch 20", watch("open")},
			}}
			s := newStream(t, tt.client(sc),
				&setup{Options: stream.Options{Objects: stream.Raw, Requests: stream.Requests{PagedLists: true}}})
			var got []string
			for ev, err := range s.Events(anHour(t)) {
				if err != nil {
					t.Fatal(err)
				}
				if ev.Type == stream.Synced || ev.Type == stream.Gap {
					continue
				}
				if ev.Object != nil || !ev.HasObject() {
					t.Errorf("%s: %s: Object is %v, want nil", tt.why, ev, ev.Object)
				}
				o, err := ev.Decode()
				if err != nil {
					t.Fatal(err)
				}
				m := ev.Meta()
				if diff := cmp.Diff(read(o), read(m)); diff != "" {
					t.Errorf("%s: %s: Decode and Meta (-Decode +Meta):\n%s", tt.why, ev, diff)
				}
				if got = append(got, string(ev.JSON)); len(got) == 5 {
					break
				}
			}
			const deleted = `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"%","namespace":"n",` +
				`"resourceVersion":"$","uid":"#"}}`
			want := append(tt.want[:3:3], strings.NewReplacer("%", "a", "$", "6", "#", "u1").Replace(deleted),
				strings.NewReplacer("%", "b", "$", "2", "#", "u2").Replace(deleted))
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s: %s (-want +got):\n%s", tt.name, tt.why, diff)
			}
		})
	}
}

// read returns what a Meta has.
func read(m stream.Meta) []any {
	return []any{m.GetNamespace(), m.GetName(), m.GetUID(), m.GetResourceVersion(), m.GetGeneration(), m.GetLabels(),
		m.GetAnnotations(), m.GetFinalizers(), m.GetOwnerReferences(), m.GetCreationTimestamp(),
		m.GetDeletionTimestamp()}
}

func TestDecodeAndMetaOfInvalidJSON(t *testing.T) {
	for _, tt := range []struct {
		json string
		name string
		why  string
	}{
		{`{"apiVersion":"v1","kind":"A","metadata":{"name":"a"},"spec":{]}`, "a", "the metadata can be read"},
		{`{"apiVersion":"v1","kind":"A","metadata":{"name":"a"},"spec":7777e400}`, "a", "the number exceeds a float64"},
		{`{"metadata":{"name":`, "", "it ends early"},
		{`[]`, "", "no object"}, {`null`, "", "no object"}, {`x`, "", "no JSON"}, {``, "", "nothing"},
	} {
		ev := stream.Event{Type: stream.Added, JSON: []byte(tt.json)}
		if o, err := ev.Decode(); err == nil || o != nil {
			t.Errorf("%s: Decode returns %v, %v, want an error", tt.why, o, err)
		} else if strings.Contains(err.Error(), "7777") {
			t.Errorf("%s: the error quotes the object: %v", tt.why, err)
		}
		if name := ev.NamespacedName().Name; name != tt.name {
			t.Errorf("%s: name %q, want %q", tt.why, name, tt.name)
		}
		if labels := ev.Meta().GetLabels(); len(labels) > 0 {
			t.Errorf("%s: labels %v", tt.why, labels)
		}
	}
	if o, err := (stream.Event{Type: stream.Synced}).Decode(); o != nil || err == nil {
		t.Errorf("an event without an object: Decode returns %v, %v, want an error", o, err)
	}
	if m := (stream.Event{}).Meta(); m.GetName() != "" || m.GetLabels() != nil {
		t.Error("an event without an object has metadata")
	}
}

func TestRawExcludesTransform(t *testing.T) {
	for _, o := range []setup{
		{Options: stream.Options{Objects: stream.Raw, Transform: func(*unstructured.Unstructured) {}}},
		{Options: stream.Options{Objects: "raws"}},
	} {
		_, err := newRunning(fakeClient(), widgets(), &o)
		if wrong := (*stream.OptionsError)(nil); !errors.As(err, &wrong) || !strings.HasPrefix(wrong.Field, "Objects") {
			t.Errorf("%+v: %v, want an OptionsError about Objects", o, err)
		}
	}
}
