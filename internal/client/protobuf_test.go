package client_test

import (
	"bytes"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/gvrwatch/gvrwatch/internal/client"
	"github.com/gvrwatch/gvrwatch/internal/testing/decodetest"
)

// These tests serve the same protobuf to client-go's metadata client and to Readers of clients of New, and compare the
// results.

var protobufHeader = map[string]string{"Content-Type": "application/vnd.kubernetes.protobuf"}

func metadataClient(s *server) metadata.ResourceInterface {
	return metadata.NewForConfigOrDie(&rest.Config{Host: "http://server.test", QPS: -1, Transport: s}).Resource(things)
}

func (v variant) reader(t *testing.T, s *server) client.Reader {
	return client.For(v.client(t, s, nil), things, "")
}

const maxFrame = 16 << 20

var wantMetadata = client.Hints{Objects: client.Metadata}

// readAll returns the events of a Reader's watch.
func readAll(t *testing.T, w client.Watch) (events []apiwatch.Event) {
	defer w.Drain()
	defer w.Stop()
	for {
		switch ev, ok, over := w.Next(); {
		case ok:
			events = append(events, ev.Event)
		case over:
			return events
		default:
			w.Wait(t.Context(), time.Minute)
		}
	}
}

// unstructuredOf returns what a Reader makes of metadata.
func unstructuredOf(t *testing.T, o runtime.Object) runtime.Object {
	p, ok := o.(*metav1.PartialObjectMetadata)
	if !ok {
		return o
	}
	p.ManagedFields = nil
	p.SetGroupVersionKind(metav1.SchemeGroupVersion.WithKind("PartialObjectMetadata"))
	m, err := runtime.DefaultUnstructuredConverter.ToUnstructured(p)
	if err != nil {
		t.Fatal(err)
	}
	return &unstructured.Unstructured{Object: m}
}

const pod = `{"metadata":{"name":"a","resourceVersion":"7","managedFields":[{"manager":"m"}],"labels":{"a":"b"}}}`

func protobufEvent(kind, object string) []byte {
	return decodetest.EventToProtobuf([]byte(`{"type":"` + kind + `","object":` + object + `}`))
}

// withLength puts the length before the bytes of a frame.
func withLength(frame string) []byte {
	n := len(frame)
	return append([]byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)}, frame...)
}

func TestProtobufWatchMatchesClientGo(t *testing.T) {
	added, bookmark := protobufEvent("ADDED", pod), protobufEvent("BOOKMARK",
		`{"metadata":{"resourceVersion":"8","annotations":{"k8s.io/initial-events-end":"true"}}}`)
	expired := protobufEvent("ERROR", `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired",`+
		`"message":"too old resource version: 1 (2)","code":410,"details":{"retryAfterSeconds":3,`+
		`"causes":[{"reason":"r"}]}}`)
	unknown := slices.Clone(added)
	for i := range unknown {
		if unknown[i] == 11<<3|2 && unknown[i+2] == 1<<3|2 { // labels
			unknown[i] = 15<<3 | 2
		}
	}
	for _, tt := range []struct {
		why    string
		frames [][]byte
	}{
		{"events", [][]byte{added, bookmark, protobufEvent("MODIFIED", pod), protobufEvent("DELETED", pod)}},
		{"nothing", nil},
		{"the version has expired", [][]byte{added, expired}},
		{"an unknown field", [][]byte{added, unknown, bookmark}},
		{"an object that is not metadata", [][]byte{added, protobufEvent("ERROR", pod)}},
		{"a status as an object", [][]byte{append(expired[:6:6], append([]byte("ADDED"), expired[11:]...)...), added}},
		{"an unknown type", [][]byte{added, protobufEvent("REPLACED", pod), added}},
		{"an empty frame", [][]byte{added, withLength(""), added}},
		{"garbage", [][]byte{added, withLength("this is not protobuf"), added}},
		{"half a length", [][]byte{added, {0, 0}}},
		{"half a frame", [][]byte{added, added[:50]}},
		{"JSON", [][]byte{[]byte(`{"type":"ADDED","object":` + pod + "}\n")}},
		{"a frame that is too large", [][]byte{added, withLength(many(maxFrame+1, "x")), added}},
	} {
		data := slices.Concat(tt.frames...)
		for _, chunks := range [][][]byte{tt.frames, {data}, every(1+len(data)/7, data), every(1+len(data)/500, data)} {
			if len(data) > maxFrame && len(chunks) != 7 {
				continue // slow, or as a whole refused with another text
			}
			var want, got []apiwatch.Event
			v := nextVariant()
			synctest.Test(t, func(t *testing.T) {
				for _, all := range []*[]apiwatch.Event{&want, &got} {
					s := &server{served: served{header: protobufHeader, chunks: chunks}}
					if all == &got {
						w, err := v.reader(t, s).Watch(t.Context(), metav1.ListOptions{}, wantMetadata)
						if err != nil {
							t.Fatal(err)
						}
						got = readAll(t, w)
						continue
					}
					w, err := metadataClient(s).Watch(t.Context(), metav1.ListOptions{})
					if err != nil {
						t.Fatal(err)
					}
					want = receiveAll(w)
				}
			})
			for i := range want {
				want[i].Object = unstructuredOf(t, want[i].Object)
			}
			for _, ev := range slices.Concat(want, got) {
				if s, ok := ev.Object.(*metav1.Status); ok {
					s.TypeMeta = metav1.TypeMeta{} // the metadata client removes it
				}
			}
			if d := differentEvents(v, want, got); d != "" {
				t.Errorf("%s, %d chunks (%s): %.1000s", tt.why, len(chunks), v.name, d)
			}
		}
	}
}

func TestProtobufListMatchesClientGo(t *testing.T) {
	list := decodetest.ListToProtobuf([]byte(`{"metadata":{"resourceVersion":"7","continue":"c",` +
		`"remainingItemCount":3},"items":[` + pod + `,` + many(2000, pod+",") + pod + `]}`))
	inProtobuf := func(status string) []byte {
		event := protobufEvent("ERROR", status)
		return event[bytes.Index(event, []byte("k8s\x00")):]
	}
	status := inProtobuf(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired",` +
		`"message":"the token has expired","code":410,"metadata":{"continue":"t"},"details":{"name":"a",` +
		`"kind":"things","retryAfterSeconds":3,"causes":[{"reason":"r","message":"m","field":"f"}]}}`)
	forbidden := inProtobuf(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403}`)
	for _, tt := range []struct {
		why  string
		code int
		data []byte
	}{
		{"a list", 200, list},
		{"an empty list", 200, decodetest.ListToProtobuf([]byte(`{"metadata":{"resourceVersion":"7"},"items":[]}`))},
		{"what apimachinery decodes", 200, decodetest.ListToProtobuf(
			[]byte(`{"metadata":{"shardInfo":{"selector":"s"}},"items":[` + pod + `]}`))},
		{"half a list", 200, list[:len(list)/2]},
		{"nothing", 200, nil},
		{"garbage", 200, []byte("this is not protobuf")},
		{"a Status instead of a list", 200, status},
		{"the token has expired", 410, status},
		{"forbidden", 403, forbidden},
		{"a text", 403, []byte("forbidden")},
		{"no body", 500, nil},
	} {
		for _, chunks := range [][][]byte{{tt.data}, every(1+len(tt.data)/200, tt.data)} {
			v := nextVariant()
			a := served{status: tt.code, header: protobufHeader, chunks: chunks}
			want, wantErr := metadataClient(&server{served: a}).List(t.Context(), metav1.ListOptions{})
			got, err := v.reader(t, &server{served: a}).List(t.Context(), metav1.ListOptions{}, wantMetadata)
			d := ""
			switch {
			case tt.code != http.StatusOK || string(tt.data) == string(status):
				for _, err := range []error{wantErr, err} {
					if status, ok := err.(*apierrors.StatusError); ok {
						status.ErrStatus.TypeMeta = metav1.TypeMeta{} // the metadata client removes it
					}
				}
				d = differentErrors(wantErr, err)
			case (wantErr == nil) != (err == nil):
				d = fmt.Sprintf("want %v, got %v", wantErr, err)
			case err == nil:
				u := &unstructured.UnstructuredList{Items: []unstructured.Unstructured{}}
				for i := range want.Items {
					u.Items = append(u.Items, *unstructuredOf(t, &want.Items[i]).(*unstructured.Unstructured))
				}
				want.Items = nil
				want.SetGroupVersionKind(metav1.SchemeGroupVersion.WithKind("PartialObjectMetadataList"))
				u.Object, _ = runtime.DefaultUnstructuredConverter.ToUnstructured(want)
				delete(u.Object, "items")
				d = decodetest.DifferenceOfLists(u, got.UnstructuredList)
			}
			if d != "" {
				t.Errorf("%s, %d chunks (%s): %.1000s", tt.why, len(chunks), v.name, d)
			}
		}
	}
}
