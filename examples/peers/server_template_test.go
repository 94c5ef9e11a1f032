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

// TestRender: each form decodes to the Pod that it was rendered from.
func TestRender(t *testing.T) {
	for _, tt := range []struct {
		why      string
		form     form
		kind     string
		metadata bool
	}{
		{"a frame is a WatchEvent with a whole object", frameForm, "Pod", false},
		{"an item of a PodList has no kind", itemForm, "", false},
		{"a metadata frame has a PartialObjectMetadata", metaFrame, "PartialObjectMetadata", true},
		{"an item of a metadata list has its kind", metaItemForm, "PartialObjectMetadata", true},
	} {
		for _, s := range []size{small, big} {
			t.Run(fmt.Sprintf("%s/%s", s, tt.why), func(t *testing.T) {
				p := pod(s, 3)
				got := decoded(t, render(p, tt.form).text, tt.form)
				if kind := got["kind"]; kind != nil && kind != tt.kind || kind == nil && tt.kind != "" {
					t.Errorf("kind %v, want %q", kind, tt.kind)
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

// decoded returns the object of a frame or an item.
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
		t.Fatal("a frame must be one line")
	}
	var frame struct {
		Type   string
		Object map[string]any
	}
	if err := json.Unmarshal(text, &frame); err != nil {
		t.Fatal(err)
	}
	if frame.Type != "MODIFIED" {
		t.Fatalf("the frame has type %s, want MODIFIED", frame.Type)
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

// TestSizes: the frames have the sizes that the tables state, and a plausible share of managedFields.
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
			t.Errorf("%s: a frame has %d bytes on average, want %d to %d", tt.why, mean, tt.least, tt.most)
		}
		if share := float64(managed) / float64(all); share < 0.2 || share > 0.5 {
			t.Errorf("%s: managedFields have a share of %.2f, want 0.2 to 0.5", tt.why, share)
		}
	}
}

// TestPlaceholders: each placeholder occurs as often as its field, and in no random value.
func TestPlaceholders(t *testing.T) {
	for _, tt := range []struct {
		size       size
		containers int
	}{{small, 1}, {big, 3}} {
		for n := 0; n < templates; n += 13 {
			x := render(pod(tt.size, n), frameForm)
			got := map[string]int{
				"version": len(x.version.at), "sent": len(x.sent.at), "changed": len(x.changed.at),
				"name": len(x.name.at), "namespace": len(x.namespace.at), "uid": len(x.uid.at),
				"ip": len(x.ip.at), "instance": len(x.instance.at),
			}
			want := map[string]int{
				"version": 1, "sent": 1, "changed": 2, "name": 1, "namespace": 1, "uid": 1, "ip": 2,
				"instance": tt.containers,
			}
			if tt.size == big {
				want["ip"] = 2 + 1 // managedFields have it as a key
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("%s, %d: %s", tt.size, n, diff)
			}
		}
	}
}

// TestIdentitiesAreUnique: a hundred thousand objects differ in each of these fields, except the namespace.
func TestIdentitiesAreUnique(t *testing.T) {
	const objects = 100_000
	widths := map[string]int{
		"name": len(nameHole), "namespace": len(namespaceHole), "uid": len(uidHole), "ip": len(addressHole),
		"instance": len(containerHole),
	}
	seen := map[string]bool{}
	for n := range objects {
		id := identityOf(n)
		values := map[string][]byte{
			"name": id.name, "namespace": id.namespace, "uid": id.uid, "ip": id.ip, "instance": id.instance,
		}
		for field, value := range values {
			if len(value) != widths[field] {
				t.Fatalf("object %d: %s %q has %d bytes, want %d", n, field, value, len(value), widths[field])
			}
			if field == "namespace" {
				continue
			}
			if seen[field+string(value)] {
				t.Fatalf("object %d: %s %q is not unique", n, field, value)
			}
			seen[field+string(value)] = true
		}
	}
}

// TestFlood: a flood consists of exactly the events after the requested version, each with the right object.
func TestFlood(t *testing.T) {
	var of templateCache
	for _, tt := range []struct {
		why       string
		scenario  scenario
		namespace int
		after     int
		want      []int // numbers of events, as counted without namespaces
	}{
		{"the events change the objects in turn, for several rounds",
			scenario{Objects: 10, Size: small, Events: 25}, -1, firstVersion, upTo(0, 25, 1)},
		{"each of the eight namespaces has every eighth event",
			scenario{Objects: 16, Size: small, Events: 42}, 2, firstVersion, upTo(2, 42, 8)},
		{"a watch that resumes gets the events after its version",
			scenario{Objects: 10, Size: small, Events: 25}, -1, firstVersion + 20, upTo(20, 25, 1)},
		{"a namespace resumes at a version of another one",
			scenario{Objects: 16, Size: small, Events: 42}, 2, firstVersion + 12, upTo(18, 42, 8)},
		{"events may fill several batches",
			scenario{Objects: 200, Size: small, Events: 500}, -1, firstVersion, upTo(0, 500, 1)},
		{"big objects are complete too",
			scenario{Objects: 9, Size: big, Events: 20}, -1, firstVersion, upTo(0, 20, 1)},
	} {
		t.Run(tt.why, func(t *testing.T) {
			a := podRequest{run: &run{scenario: tt.scenario}, namespace: tt.namespace}
			f := newFlood(a, of.forRequest(a, frameForm), tt.after)
			var got []int
			for f.next < f.events {
				for line := range bytes.Lines(f.nextBatch(f.events-f.next, nil)) {
					event := eventOf(t, line, tt.scenario)
					if tt.namespace >= 0 && event%namespaces != tt.namespace {
						t.Fatalf("event %d is of another namespace", event)
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

// eventOf returns the number of an event, and compares its frame with the expected one.
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
		t.Fatalf("event %d is of namespace %s, want %s", event, u.GetNamespace(), id.namespace)
	}
	for hole, value := range map[string]string{
		nameHole: string(id.name), namespaceHole: string(id.namespace), uidHole: string(id.uid),
		addressHole: string(id.ip), containerHole: string(id.instance),
		versionHole: u.GetResourceVersion(), sentHole: string(zeroTime), changedHole: changedOf(t, u),
	} {
		want = strings.ReplaceAll(want, hole, value)
	}
	if diff := cmp.Diff(want, string(line)); diff != "" {
		t.Fatalf("event %d: %s", event, diff)
	}
	return event
}

// changedOf returns the time of the last change: that of kubelet's update.
func changedOf(t *testing.T, u *unstructured.Unstructured) string {
	t.Helper()
	entries := u.GetManagedFields()
	at := entries[len(entries)-1].Time.UTC().Format("2006-01-02T15:04:05Z")
	if at <= "2026-11" {
		t.Fatalf("the last change was at %s, want a time after 2026-11", at)
	}
	return at
}
