package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestRender compares what is written with what it was made of.
func TestRender(t *testing.T) {
	for _, tt := range []struct {
		why      string
		form     form
		kind     string
		metadata bool
	}{
		{"a frame is a WatchEvent with a whole object", frameForm, "Pod", false},
		{"an item of a PodList has no kind", itemForm, "", false},
		{"who asks for metadata gets a kind of its own", metaFrame, "PartialObjectMetadata", true},
		{"and in a list that kind is said of each", metaItemForm, "PartialObjectMetadata", true},
	} {
		for _, s := range []size{small, big} {
			t.Run(fmt.Sprintf("%s/%s", s, tt.why), func(t *testing.T) {
				p := pod(s, 3)
				got := decoded(t, render(p, tt.form).text, tt.form)
				if kind := got["kind"]; kind != nil && kind != tt.kind || kind == nil && tt.kind != "" {
					t.Errorf("the kind is %v, want %q", kind, tt.kind)
				}
				want := asJSON(t, p)
				for _, u := range []map[string]any{got, want} {
					delete(u, "kind")
					delete(u, "apiVersion")
				}
				if tt.metadata {
					want = map[string]any{"metadata": want["metadata"]}
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Error(diff)
				}
			})
		}
	}
}

// decoded is the object of a frame, or an item.
func decoded(t *testing.T, text []byte, f form) map[string]any {
	t.Helper()
	if f == itemForm || f == metaItemForm {
		if bytes.ContainsRune(text, '\n') {
			t.Fatal("an item has a newline")
		}
		var o map[string]any
		if err := json.Unmarshal(text, &o); err != nil {
			t.Fatal(err)
		}
		return o
	}
	if bytes.IndexByte(text, '\n') != len(text)-1 {
		t.Fatal("a frame is no line of its own")
	}
	var frame struct {
		Type   string
		Object map[string]any
	}
	if err := json.Unmarshal(text, &frame); err != nil {
		t.Fatal(err)
	}
	if frame.Type != "MODIFIED" {
		t.Fatalf("the frame is %s", frame.Type)
	}
	return frame.Object
}

func asJSON(t *testing.T, v any) map[string]any {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var o map[string]any
	if err := json.Unmarshal(text, &o); err != nil {
		t.Fatal(err)
	}
	return o
}

// TestSizes holds what the tables say to what is sent.
func TestSizes(t *testing.T) {
	for _, tt := range []struct {
		why         string
		size        size
		least, most int
	}{
		{"2.8 KB", small, 2700, 2900},
		{"11 KB", big, 10_500, 11_700},
	} {
		all, managed, objects := 0, 0, 0
		for n := 0; n < templates; n += 7 {
			objects++
			p := pod(tt.size, n)
			whole := len(render(p, frameForm).text)
			p.ManagedFields = nil
			all, managed = all+whole, managed+whole-len(render(p, frameForm).text)
		}
		if mean := all / objects; mean < tt.least || mean > tt.most {
			t.Errorf("%s: a frame has %d bytes", tt.why, mean)
		}
		if share := float64(managed) / float64(all); share < 0.2 || share > 0.5 {
			t.Errorf("%s: managedFields are %.2f of it", tt.why, share)
		}
	}
}

// TestPlaceholders makes sure that each is where it should be, and nowhere else.
func TestPlaceholders(t *testing.T) {
	for _, tt := range []struct {
		size       size
		containers int
	}{{small, 1}, {big, 3}} {
		for n := 0; n < templates; n += 13 {
			x := render(pod(tt.size, n), frameForm)
			got := map[string]int{
				"version": len(x.version.at), "sent": len(x.sent.at), "changed": len(x.changed.at), "name": len(x.name.at),
				"namespace": len(x.namespace.at), "uid": len(x.uid.at), "ip": len(x.ip.at), "instance": len(x.instance.at),
			}
			want := map[string]int{
				"version": 1, "sent": 1, "changed": 2, "name": 1, "namespace": 1, "uid": 1, "ip": 2, "instance": tt.containers,
			}
			if tt.size == big {
				want["ip"] = 2 + 1 // and the key of it in managedFields
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("%s, %d: %s", tt.size, n, diff)
			}
		}
	}
}

// TestIdentities: a hundred thousand objects are told apart by each of these.
func TestIdentitiesAreUnique(t *testing.T) {
	const objects = 100_000
	widths := map[string]int{"name": len(nameHole), "namespace": len(namespaceHole), "uid": len(uidHole), "ip": len(addressHole), "instance": len(containerHole)}
	seen := map[string]bool{}
	for n := range objects {
		id := identityOf(n)
		for field, value := range map[string][]byte{"name": id.name, "namespace": id.namespace, "uid": id.uid, "ip": id.ip, "instance": id.instance} {
			if len(value) != widths[field] {
				t.Fatalf("the %s of %d is %q: %d bytes wide, and its place is %d", field, n, value, len(value), widths[field])
			}
			if field == "namespace" {
				continue
			}
			if seen[field+string(value)] {
				t.Fatalf("the %s of %d is %q, and so is another one's", field, n, value)
			}
			seen[field+string(value)] = true
		}
	}
}

// TestFlood goes through floods, and looks at every event.
func TestFlood(t *testing.T) {
	var of templateCache
	for _, tt := range []struct {
		why       string
		scenario  scenario
		namespace int
		after     int
		want      []int // numbers of the events of the whole flood that come
	}{
		{"all of them, more than once around", scenario{Objects: 10, Size: small, Events: 25}, -1, firstVersion, upTo(0, 25, 1)},
		{"the third namespace has every eighth", scenario{Objects: 16, Size: small, Events: 42}, 2, firstVersion, upTo(2, 42, 8)},
		{"who comes back has had some of them", scenario{Objects: 10, Size: small, Events: 25}, -1, firstVersion + 20, upTo(20, 25, 1)},
		{"a version between two of a namespace's", scenario{Objects: 16, Size: small, Events: 42}, 2, firstVersion + 12, upTo(18, 42, 8)},
		{"more than fit into one batch", scenario{Objects: 200, Size: small, Events: 500}, -1, firstVersion, upTo(0, 500, 1)},
		{"larger ones", scenario{Objects: 9, Size: big, Events: 20}, -1, firstVersion, upTo(0, 20, 1)},
	} {
		t.Run(tt.why, func(t *testing.T) {
			a := podRequest{run: &run{scenario: tt.scenario}, namespace: tt.namespace}
			f := newFlood(a, of.forRequest(a, frameForm), tt.after)
			var got []int
			for f.next < f.events {
				for line := range bytes.Lines(f.nextBatch(f.events-f.next, nil)) {
					event := eventOf(t, line, tt.scenario)
					if tt.namespace >= 0 && event%namespaces != tt.namespace {
						t.Fatalf("event %d is not of this namespace", event)
					}
					got = append(got, event)
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func upTo(from, to, step int) []int {
	var all []int
	for i := from; i < to; i += step {
		all = append(all, i)
	}
	return all
}

// eventOf returns the number of an event, and compares its object with that which
// it should be of.
func eventOf(t *testing.T, line []byte, s scenario) int {
	t.Helper()
	u := &unstructured.Unstructured{Object: decoded(t, line, frameForm)}
	var event int
	if _, err := fmt.Sscan(u.GetResourceVersion(), &event); err != nil {
		t.Fatal(err)
	}
	event -= firstVersion + 1
	n := event % s.Objects
	want := string(render(pod(s.Size, n), frameForm).text)
	id := identityOf(n)
	if u.GetNamespace() != string(id.namespace) {
		t.Fatalf("event %d is of the namespace %s, want %s", event, u.GetNamespace(), id.namespace)
	}
	for hole, value := range map[string]string{
		nameHole: string(id.name), namespaceHole: string(id.namespace), uidHole: string(id.uid), addressHole: string(id.ip),
		containerHole: string(id.instance), versionHole: u.GetResourceVersion(), sentHole: string(zeroTime), changedHole: changedOf(t, u),
	} {
		want = strings.ReplaceAll(want, hole, value)
	}
	if diff := cmp.Diff(want, string(line)); diff != "" {
		t.Fatalf("event %d: %s", event, diff)
	}
	return event
}

// changedOf is the time of the last change, which is that of kubelet's update.
func changedOf(t *testing.T, u *unstructured.Unstructured) string {
	t.Helper()
	entries := u.GetManagedFields()
	at := entries[len(entries)-1].Time.UTC().Format("2006-01-02T15:04:05Z")
	if at <= "2026-11" {
		t.Fatalf("the last change was at %s", at)
	}
	return at
}
