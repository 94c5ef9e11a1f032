package decode_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/gvrwatch/gvrwatch/internal/client/decode"
	"github.com/gvrwatch/gvrwatch/internal/testing/decodetest"
	"github.com/gvrwatch/gvrwatch/stream"
)

// read returns everything that a Select can read.
func read(v stream.Meta) []any {
	return []any{v.GetNamespace(), v.GetName(), v.GetResourceVersion(), v.GetUID(), v.GetLabels(), v.GetAnnotations(),
		v.GetGeneration(), v.GetCreationTimestamp(), v.GetDeletionTimestamp(), v.GetFinalizers(),
		v.GetOwnerReferences()}
}

// sameMetadata compares the view of a frame's metadata with what client-go decodes. It returns whether there was a
// view. (None is always right.)
func sameMetadata(t *testing.T, d *decode.Decoder, why string, frame []byte) bool {
	t.Helper()
	kind, o, err := decodetest.Event(frame)
	want, ok := o.(*unstructured.Unstructured)
	if err != nil || !ok {
		return false
	}
	s, n := d.Metadata(append(bytes.Clone(frame), "\n{"...), decode.ToManaged)
	if s == nil {
		return false
	}
	if n != len(bytes.TrimRight(frame, " \t\r\n")) || s.Type() != kind {
		t.Errorf("%s: want %s of %d bytes, got %s of %d", why, kind, len(frame), s.Type(), n)
	}
	got := read(s)
	if s.Broken() {
		return false
	}
	if diff := cmp.Diff(read(want), got); diff != "" {
		t.Errorf("%s: %s", why, diff)
	}
	clear(s.GetLabels()) // the caller may change it
	if diff := cmp.Diff(want.GetLabels(), s.GetLabels()); diff != "" {
		t.Errorf("%s: labels after a change of the first result: %s", why, diff)
	}
	namespace, name, version := s.Identity()
	only := &unstructured.Unstructured{Object: s.IdentityOnly()}
	names := []string{want.GetNamespace(), want.GetName(), want.GetResourceVersion()}
	if diff := cmp.Diff(names, []string{string(namespace), string(name), string(version)}); diff != "" {
		t.Errorf("%s: identity: %s", why, diff)
	}
	if diff := cmp.Diff(append(names, string(want.GetUID())),
		[]string{only.GetNamespace(), only.GetName(), only.GetResourceVersion(),
			string(only.GetUID())}); diff != "" {
		t.Errorf("%s: IdentityOnly: %s", why, diff)
	}
	return true
}

func TestMetadataOfRecordedIsTheSame(t *testing.T) {
	d := decode.New(false)
	for range 2 {
		for _, r := range decodetest.ReadRecorded(t, recordings) {
			for _, frame := range r.Frames() {
				frame = bytes.TrimSuffix(frame, []byte("\n"))
				change := !bytes.HasPrefix(frame, []byte(`{"type":"BOOKMARK"`)) &&
					!bytes.HasPrefix(frame, []byte(`{"type":"ERROR"`))
				if saw := sameMetadata(t, d, r.Name, frame); r.Watch && saw != change {
					t.Errorf("%s: view: %v, want %v: %.300s", r.Name, saw, change, frame)
				}
			}
		}
	}
}

func TestMetadataIsTheSame(t *testing.T) {
	const rest = `"spec":{"metadata":{"name":"other"},"n":1e3},"status":null`
	d := decode.New(false)
	for _, test := range []struct {
		why, metadata string
		saw           bool
	}{
		{"only a name and a resourceVersion", `{"name":"a","resourceVersion":"7"}`, true},
		{"in the order of a struct",
			`{"name":"a","generateName":"g","namespace":"n","uid":"u","resourceVersion":"7","generation":3,` +
				`"creationTimestamp":"2026-01-02T03:04:05Z","deletionTimestamp":"2026-01-02T03:04:06Z",` +
				`"labels":{"a":"b"},"annotations":{"c":"d"},"ownerReferences":[{"apiVersion":"v1",` +
				`"kind":"K","name":"o","uid":"x","controller":true}],"finalizers":["f"],` +
				`"managedFields":[{"manager":"}]\""}]}`, true},
		{"in the order of a map", `{"annotations":{"c":"d"},"creationTimestamp":"2026-01-02T03:04:05Z",` +
			`"finalizers":["f"],"generation":3,"labels":{"a":"b"},"managedFields":[{"fieldsV1":{"f:a":{}}}],` +
			`"name":"a","namespace":"n","resourceVersion":"7","uid":"u"}`, true},
		{"managedFields first", `{"managedFields":[],"name":"a","namespace":"n","labels":{"a":"b"},` +
			`"resourceVersion":"7","uid":"u"}`, true},
		{"labels last", `{"name":"a","namespace":"n","resourceVersion":"7","uid":"u","managedFields":[{}],` +
			`"labels":{"a":"b"}}`, true},
		{"namespace last", `{"name":"a","resourceVersion":"7","uid":"u","managedFields":[{}],"namespace":"n"}`, true},
		{"white space", ` { "name" : "a" , "labels" : { "a" : "b" } , "resourceVersion" : "7" } `, true},
		{"line ends", "\n{\"name\":\"a\",\r\n\"labels\":{\"a\":\n\"b\"}\n,\"resourceVersion\":\"7\"}\n", true},
		{"escapes in labels", `{"name":"a","resourceVersion":"7","labels":{"a\u0062":"\"}\n\ud83d\ude00"}}`, true},
		{"runes in labels", `{"name":"a","resourceVersion":"7","labels":{"a":"é\u00e9"}}`, true},
		{"an annotation like metadata", `{"name":"a","resourceVersion":"7",` +
			`"annotations":{"last":"{\"metadata\":{\"name\":\"b\"},\"x\":\"}}\"}"}}`, true},
		{"empty labels", `{"name":"a","resourceVersion":"7","labels":{}}`, true},
		{"labels that are not strings", `{"name":"a","resourceVersion":"7","labels":{"a":1}}`, true},
		{"repeated fields", `{"name":"a","resourceVersion":"6","labels":{"a":"b"},` +
			`"resourceVersion":"7","name":"b","labels":{"a":"c"}}`, false},
		{"null labels", `{"name":"a","resourceVersion":"7","labels":null}`, false},
		{"labels that are a list", `{"name":"a","resourceVersion":"7","labels":[]}`, false},
		{"repeated labels", `{"name":"a","resourceVersion":"7","labels":{"a":"b","a":"c"}}`, false},
		{"no name", `{"resourceVersion":"7"}`, false}, {"an empty name", `{"name":"","resourceVersion":"7"}`,
			false}, {"no version", `{"name":"a"}`, false},
		{"a name that is a number", `{"name":1,"resourceVersion":"7"}`, false}, {"a uid that is null",
			`{"name":"a","resourceVersion":"7","uid":null}`, false},
		{"a name with an escape", `{"name":"\u0061","resourceVersion":"7"}`, false}, {"a name with a rune",
			`{"name":"é","resourceVersion":"7"}`, false}, {"a key with an escape", `{"n\u0061me":"a","resourceVe` +
			`rsion":"7"}`, false},
		{"null", `null`, false}, {"a list", `[]`, false}, {"a text", `"name"`, false}, {"nothing", `{}`, false},
		{"metadata twice", `{"name":"b","resourceVersion":"6"},"metadata":{"name":"a","resourceVersion":"7"}`,
			false},
	} {
		for _, kind := range []string{"ADDED", "MODIFIED", "DELETED", "BOOKMARK"} {
			for why, object := range map[string]string{
				"first": `{"apiVersion":"v1","kind":"Thing","metadata":` + test.metadata + `,` + rest + `}`,
				"last":  `{"apiVersion":"v1","kind":"Thing",` + rest + `,"metadata":` + test.metadata + `}`,
			} {
				saw := sameMetadata(t, d, test.why+", "+why, []byte(`{"type":"`+kind+`","object":`+object+`}`))
				if saw != (test.saw && kind != string(watch.Bookmark)) {
					t.Errorf("%s, %s, %s: view: %v", test.why, why, kind, saw)
				}
			}
		}
	}
}

func TestMetadataOfDamagedObjectsIsTheSame(t *testing.T) {
	d, saw := decode.New(false), 0
	for _, c := range decodetest.Frames() {
		text := strings.ReplaceAll(c.Text, `"metadata":{"name":"n"}`,
			`"metadata":{"name":"n","resourceVersion":"7","labels":{"a":"b"}}`)
		// TestMetadataReturnsTheEndOfTheFrame is for data after a frame.
		if n, _, err := decodetest.Frame([]byte(text)); err != nil || n != len(text) || len(text) > 10<<10 {
			continue
		}
		if sameMetadata(t, d, c.Why, []byte(text)) {
			saw++
		}
	}
	if saw < 400 {
		t.Errorf("only %d views, want at least 400", saw)
	}
}

// Frames come with and without line ends.
func TestMetadataReturnsTheEndOfTheFrame(t *testing.T) {
	const one = `{"type":"ADDED","object":{"kind":"Thing","apiVersion":"v1","metadata":{"name":"a",` +
		`"resourceVersion":"7"},"spec":{"a":{}}}}`
	two := strings.Replace(one, `"a":{}`, `"a":{}}`+"\n"+`,"status":{"b":{}`, 1)
	for _, tt := range []struct {
		why, data string
		end       int // 0 if there is no view
	}{
		{"a frame and a line end", one + "\n", len(one)},
		{"a frame on a line, and another", one + "\n" + one + "\n", len(one)},
		{"a frame without a line end", one, len(one)},
		{"two frames on a line", one + one + "\n", len(one)},
		{"two frames on a line, with a space between", one + " " + one + "\n", len(one)},
		{"a frame on two lines, the first of which ends like a frame", two, len(two)},
		{"white space before the frame", "\r\n\t " + one, 4 + len(one)},
		{"braces in a string", strings.Replace(one, `{}`, `"}}\"{"`, 1), len(one) + 5},
		{"a field after the object", strings.TrimSuffix(one, "}") + `,"x":1}`, 0},
		{"an incomplete frame", one[:len(one)-3], 0},
		{"a frame without its last brace", one[:len(one)-1], 0},
		{"a string that does not end", strings.Replace(one, `{}`, `"`, 1), 0},
	} {
		s, end := decode.New(false).Metadata([]byte(tt.data), decode.ToManaged)
		if (s != nil) != (tt.end > 0) || end != tt.end {
			t.Errorf("%s: view: %v; the frame ends at %d, want %d", tt.why, s != nil, end, tt.end)
		}
	}
}
