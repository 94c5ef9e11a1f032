package decode_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	apiwatch "k8s.io/apimachinery/pkg/watch"

	"github.com/gvrwatch/gvrwatch/internal/decode"
	"github.com/gvrwatch/gvrwatch/internal/decode/decodetest"
)

// seen is all that a Select can ask of an object's metadata.
type seen struct {
	Namespace, Name, Version string
	UID                      types.UID
	Labels, Annotations      map[string]string
	Generation               int64
	Created                  metav1.Time
	Deleted                  *metav1.Time
	Finalizers               []string
	Owners                   []metav1.OwnerReference
}

type viewed interface {
	GetNamespace() string
	GetName() string
	GetUID() types.UID
	GetResourceVersion() string
	GetLabels() map[string]string
	GetAnnotations() map[string]string
	GetGeneration() int64
	GetCreationTimestamp() metav1.Time
	GetDeletionTimestamp() *metav1.Time
	GetFinalizers() []string
	GetOwnerReferences() []metav1.OwnerReference
}

func see(v viewed) seen {
	return seen{
		v.GetNamespace(), v.GetName(), v.GetResourceVersion(), v.GetUID(), v.GetLabels(), v.GetAnnotations(),
		v.GetGeneration(), v.GetCreationTimestamp(), v.GetDeletionTimestamp(), v.GetFinalizers(), v.GetOwnerReferences(),
	}
}

// sameSight compares what is seen of a line with what client-go decodes. It returns
// whether anything was.
func sameSight(t *testing.T, d *decode.Decoder, why string, line []byte) bool {
	t.Helper()
	kind, o, err := decodetest.Event(line)
	if err != nil {
		return false // that of the rest nothing is seen is as it should be
	}
	u, ok := o.(*unstructured.Unstructured)
	if !ok {
		return false
	}
	s, n := d.Sight(append(line, '\n'), false, false)
	if s == nil {
		return false
	}
	if n != len(line)+1 {
		t.Errorf("%s: the line has %d bytes, not %d", why, len(line)+1, n)
	}
	_, unusual := s.Order()
	if !sameAsSeen(t, why, s, kind, u) {
		return false
	}
	if s, _ = d.Sight(append(line, '\n'), true, true); s == nil {
		t.Errorf("%s: nothing was seen in haste", why)
	} else if !unusual && !sameAsSeen(t, why+", in haste", s, kind, u) {
		t.Errorf("%s: broken in haste", why)
	}
	return true
}

func sameAsSeen(t *testing.T, why string, s *decode.Sight, kind apiwatch.EventType, u *unstructured.Unstructured) bool {
	t.Helper()
	var labels map[string]string
	got := see(s)
	if s.Broken() {
		return false
	}
	labels = s.GetLabels()
	want := see(u)
	if s.Type() != kind {
		t.Errorf("%s: want %s, got %s", why, kind, s.Type())
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("%s: %s", why, d)
	}
	if len(labels) > 0 { // a map of its own
		clear(labels)
		if d := cmp.Diff(want.Labels, s.GetLabels()); d != "" {
			t.Errorf("%s: labels that were written to: %s", why, d)
		}
	}
	namespace, name, uid, version := s.Identity()
	if d := cmp.Diff([]string{want.Namespace, want.Name, string(want.UID), want.Version}, []string{string(namespace), string(name), string(uid), string(version)}); d != "" {
		t.Errorf("%s: identity: %s", why, d)
	}
	sketch := &unstructured.Unstructured{Object: s.Sketch()}
	if d := cmp.Diff([]string{want.Namespace, want.Name, string(want.UID), want.Version}, []string{sketch.GetNamespace(), sketch.GetName(), string(sketch.GetUID()), sketch.GetResourceVersion()}); d != "" {
		t.Errorf("%s: sketch: %s", why, d)
	}
	return true
}

func TestSameSightOfRecorded(t *testing.T) {
	d := decode.New(decode.Options{})
	for range 2 {
		for _, r := range decodetest.ReadRecorded(t, recordings) {
			if !r.Watch {
				continue
			}
			for _, frame := range r.Frames() {
				line := bytes.TrimSuffix(frame, []byte("\n"))
				change := !bytes.HasPrefix(line, []byte(`{"type":"BOOKMARK"`)) && !bytes.HasPrefix(line, []byte(`{"type":"ERROR"`))
				if saw := sameSight(t, d, r.Name, line); saw != change {
					t.Errorf("%s: looked at: %v, want %v: %.300s", r.Name, saw, change, line)
				}
			}
		}
	}
}

func TestSameSight(t *testing.T) {
	const rest = `"spec":{"metadata":{"name":"other"},"n":1e3},"status":null`
	d := decode.New(decode.Options{})
	for _, test := range []struct {
		why, metadata string
		saw           bool
	}{
		{"as little as there has to be", `{"name":"a","resourceVersion":"7"}`, true},
		{"as the server encodes a struct", `{"name":"a","generateName":"g","namespace":"n","uid":"u","resourceVersion":"7","generation":3,"creationTimestamp":"2026-01-02T03:04:05Z","deletionTimestamp":"2026-01-02T03:04:06Z","labels":{"a":"b"},"annotations":{"c":"d"},"ownerReferences":[{"apiVersion":"v1","kind":"K","name":"o","uid":"x","controller":true}],"finalizers":["f"],"managedFields":[{"manager":"}]\""}]}`, true},
		{"as it encodes a map", `{"annotations":{"c":"d"},"creationTimestamp":"2026-01-02T03:04:05Z","finalizers":["f"],"generation":3,"labels":{"a":"b"},"managedFields":[{"fieldsV1":{"f:a":{}}}],"name":"a","namespace":"n","resourceVersion":"7","uid":"u"}`, true},
		{"managedFields first", `{"managedFields":[],"name":"a","namespace":"n","labels":{"a":"b"},"resourceVersion":"7","uid":"u"}`, true},
		{"white space", ` { "name" : "a" , "labels" : { "a" : "b" } , "resourceVersion" : "7" } `, true},
		{"escapes in labels", `{"name":"a","resourceVersion":"7","labels":{"a\u0062":"\"}\n\ud83d\ude00"}}`, true},
		{"runes in labels", `{"name":"a","resourceVersion":"7","labels":{"a":"é\u00e9"}}`, true},
		{"an annotation like metadata", `{"name":"a","resourceVersion":"7","annotations":{"last":"{\"metadata\":{\"name\":\"b\"},\"x\":\"}}\"}"}}`, true},
		{"empty labels", `{"name":"a","resourceVersion":"7","labels":{}}`, true},
		{"labels that are no texts", `{"name":"a","resourceVersion":"7","labels":{"a":1}}`, true},
		{"a field that is repeated", `{"name":"a","resourceVersion":"6","resourceVersion":"7","name":"b"}`, false},
		{"null labels", `{"name":"a","resourceVersion":"7","labels":null}`, false},
		{"labels that are a list", `{"name":"a","resourceVersion":"7","labels":[]}`, false},
		{"repeated labels", `{"name":"a","resourceVersion":"7","labels":{"a":"b","a":"c"}}`, false},
		{"no name", `{"resourceVersion":"7"}`, false}, {"an empty name", `{"name":"","resourceVersion":"7"}`, false}, {"no version", `{"name":"a"}`, false},
		{"a name that is a number", `{"name":1,"resourceVersion":"7"}`, false}, {"a uid that is null", `{"name":"a","resourceVersion":"7","uid":null}`, false},
		{"a name with an escape", `{"name":"\u0061","resourceVersion":"7"}`, false}, {"a name with a rune", `{"name":"é","resourceVersion":"7"}`, false}, {"a key with an escape", `{"n\u0061me":"a","resourceVersion":"7"}`, false},
		{"null", `null`, false}, {"a list", `[]`, false}, {"a text", `"name"`, false}, {"nothing", `{}`, false},
	} {
		for _, kind := range []string{"ADDED", "MODIFIED", "DELETED", "BOOKMARK"} {
			for why, object := range map[string]string{
				"first": `{"apiVersion":"v1","kind":"Thing","metadata":` + test.metadata + `,` + rest + `}`,
				"last":  `{"apiVersion":"v1","kind":"Thing",` + rest + `,"metadata":` + test.metadata + `}`,
			} {
				line := []byte(`{"type":"` + kind + `","object":` + object + `}`)
				if saw := sameSight(t, d, test.why+", "+why, line); saw != (test.saw && kind != string(apiwatch.Bookmark)) {
					t.Errorf("%s, %s, %s: looked at: %v", test.why, why, kind, saw)
				}
			}
		}
	}
}

// TestSameSightOfCases: whatever is wrong with the rest of an object, of the
// metadata nothing wrong is seen.
func TestSameSightOfCases(t *testing.T) {
	d, saw := decode.New(decode.Options{}), 0
	for _, c := range decodetest.Frames() {
		text := strings.ReplaceAll(c.Text, `"metadata":{"name":"n"}`, `"metadata":{"name":"n","resourceVersion":"7","labels":{"a":"b"}}`)
		// What stands on the line after a frame is another test's.
		if n, _, err := decodetest.Frame([]byte(text)); err != nil || n != len(text) || len(text) > 10<<10 {
			continue
		}
		// Where there are two of metadata, or of what is in it, the first one is seen.
		if strings.Contains(c.Why, "repeated metadata") || strings.Contains(c.Why, "twice") {
			continue
		}
		if sameSight(t, d, c.Why, []byte(text)) {
			saw++
		}
	}
	if saw < 400 {
		t.Errorf("only %d were looked at", saw)
	}
}

// TestSightOfTwo: what stands on a line after a frame must not go unseen.
func TestSightOfMore(t *testing.T) {
	const one = `{"type":"ADDED","object":{"kind":"Thing","apiVersion":"v1","metadata":{"name":"a","resourceVersion":"7"},"spec":{"a":{}}}}`
	tests := []struct {
		why, data string
		seen      bool
	}{
		{"a line", one + "\n", true},
		{"a line and what follows", one + "\n" + one + "\n", true},
		{"no end of the line: there may be more", one, false},
		{"two on a line", one + one + "\n", false},
		{"two on a line, apart", one + " " + one + "\n", false},
		{"on two lines, the first of which ends like an event", one[:len(one)-2] + "\n,\"status\":{}}}\n", false},
		{"white space around it is left to the decoder", one + "\r\n", false},
		{"braces in a text", strings.Replace(one, `{}`, `"}{"`, 1) + "\n", true},
	}
	for _, tt := range tests {
		d := decode.New(decode.Options{})
		if s, _ := d.Sight([]byte(tt.data), false, false); (s != nil) != tt.seen {
			t.Errorf("%s: seen: %v, want %v", tt.why, s != nil, tt.seen)
		}
	}
}

// TestSightOfMoreThanEver: who has had an event on each line may have two on one, too.
func TestSightOfMoreThanEver(t *testing.T) {
	d := decode.New(decode.Options{})
	for n := range 40 {
		one := `{"type":"ADDED","object":{"kind":"Thing","apiVersion":"v1","metadata":{"name":"` + strings.Repeat("a", 1+n) + `","resourceVersion":"7"},"spec":{"a":{}}}}`
		for data, seen := range map[string]bool{one + "\n": true, one + one + "\n": false, one + " " + one + "\n": false, one + "\r\t" + one + "\n": false, one + one[:n%5+1] + one + "\n": false, strings.Replace(one, `{}`, `"}{"`, 1) + "\n": true, strings.Replace(one, `"a"`, `"project"`, 1) + "\n": true} {
			if s, _ := d.Sight([]byte(data), true, false); (s != nil) != seen {
				t.Errorf("seen: %v, want %v: %s", s != nil, seen, data)
			}
		}
	}
}

// TestUnusualSight: what follows the managedFields is seen, and noticed.
func TestUnusualSight(t *testing.T) {
	const begin, end = `{"type":"ADDED","object":{"metadata":{"name":"a","uid":"u","resourceVersion":"7"`, "}}}\n"
	for _, tt := range []struct {
		why, metadata  string
		usual, unusual bool
	}{
		{"nothing follows them", `,"labels":{"a":"b"},"managedFields":[{}]`, true, false},
		{"none: they prove nothing", `,"labels":{"a":"b"}`, false, false},
		{"the namespace comes late", `,"namespace":"n","labels":{"a":"b"}`, false, true},
		{"labels do", `,"managedFields":[{}],"labels":{"a":"b"}`, false, true},
	} {
		s, _ := decode.New(decode.Options{}).Sight([]byte(begin+tt.metadata+end), false, false)
		if s == nil {
			t.Fatalf("%s: not seen", tt.why)
		}
		if usual, unusual := s.Order(); usual != tt.usual || unusual != tt.unusual || s.GetLabels()["a"] != "b" {
			t.Errorf("%s: usual: %v, want %v; unusual: %v, want %v; labels: %v", tt.why, usual, tt.usual, unusual, tt.unusual, s.GetLabels())
		}
	}
}

// TestForgottenSight: who keeps one against the rules sees nothing of the next
// object.
func TestForgottenSight(t *testing.T) {
	s, _ := decode.New(decode.Options{}).Sight([]byte(`{"type":"ADDED","object":{"metadata":{"name":"a","resourceVersion":"7","labels":{"a":"b"}}}}`+"\n"), false, false)
	if s == nil || s.GetName() != "a" {
		t.Fatal("it was not looked at")
	}
	s.Forget()
	if d := cmp.Diff(seen{}, see(s)); d != "" {
		t.Error(d)
	}
}
