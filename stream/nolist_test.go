package stream_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	metainternalversionscheme "k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

const protobufType = runtime.ContentTypeProtobuf

// asProtobuf returns an object as a kube-apiserver sends it.
func asProtobuf(o runtime.Object, kind string) string {
	info, _ := runtime.SerializerInfoForMediaType(
		metainternalversionscheme.Codecs.SupportedMediaTypes(), protobufType)
	gv, name, _ := strings.Cut(kind, " ")
	group, version, ok := strings.Cut(gv, "/")
	if !ok {
		group, version = "", gv
	}
	gvk := metav1.SchemeGroupVersion.WithKind(name)
	gvk.Group, gvk.Version = group, version
	o.GetObjectKind().SetGroupVersionKind(gvk)
	var b bytes.Buffer
	if err := info.Serializer.Encode(o, &b); err != nil {
		panic(err)
	}
	return b.String()
}

// noLists are answers with 200 to a list of widgets that do not say which widgets exist.
var noLists = []struct {
	contentType, body, why string
	cause                  string // part of it
}{
	{"", `{}`, "an object without anything", ""},
	{"", `{"metadata":{"resourceVersion":"50"},"items":[]}`, "no kind", ""},
	{"", `null`, "null", ""},
	{"", `[]`, "an array", ""},
	{"", ``, "no body", ""},
	{"text/html", `<html>Please log in</html>`, "a login page", ""},
	{"", `{"kind":"Status","apiVersion":"v1","metadata":{"resourceVersion":"50"},"status":"Success"}`, "a Status", ""},
	{"", `{"kind":"Status","apiVersion":"v1","metadata":{"resourceVersion":"50"},"status":"Failure","code":404}`,
		"a Status of a failure", ""},
	{"", `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"50"},"items":[]}`, "a list of Pods",
		`a "PodList" of "v1"`},
	{"", `{"kind":"WidgetList","apiVersion":"other.example.com/v1","metadata":{"resourceVersion":"50"},"items":[]}`,
		"another group's list", `a "WidgetList" of "other.example.com/v1"`},
	{"", `{"kind":"List","apiVersion":"v1","metadata":{"resourceVersion":"50"},"items":[]}`, "a list of anything", ""},
	{"", `{"kind":"APIResourceList","apiVersion":"v1","metadata":{"resourceVersion":"50"},` +
		`"groupVersion":"example.com/v1","resources":[]}`, "a discovery document", ""},
	{"", `{"kind":"Widget","apiVersion":"example.com/v1","metadata":{"name":"b","namespace":"ns","uid":"u",` +
		`"resourceVersion":"50"}}`, "an object", ""},
	{"", `{"kind":"Table","apiVersion":"meta.k8s.io/v1","metadata":{"resourceVersion":"50"},"rows":[]}`, "a Table", ""},
	{"", `{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"resourceVersion":"50"}}`,
		"the metadata of an object", ""},
	{"", `{"type":"BOOKMARK","object":{"kind":"Widget","apiVersion":"example.com/v1",` +
		`"metadata":{"resourceVersion":"50"}}}`, "an event", ""},
	{"", `{"kind":"WidgetList","apiVersion":"example.com/v1","metadata":{"resourceVersion":"50"},"items":{}}`,
		"an object in the place of the items", ""},
	{"", `{"kind":"WidgetList","apiVersion":"example.com/v1","metadata":{"resourceVersion":"50"},"items":"none"}`,
		"a text in the place of the items", ""},
	{"", `{"kind":"WidgetList","apiVersion":"example.com/v1","metadata":{"resourceVersion":"50"},"items":[null]}`,
		"a null item", ""},
	{"", `{"kind":"WidgetList","apiVersion":"example.com/v1","metadata":{"resourceVersion":"50"},"items":[7]}`,
		"a number as an item", ""},
	{"", `{"kind":"WidgetList","apiVersion":"example.com/v1","metadata":{"resourceVersion":"50"},"items":[{}]}`,
		"an empty item", ""},
	{"", `{"kind":"WidgetList","apiVersion":"example.com/v1","metadata":{"resourceVersion":"50"},"items":[` +
		`{"kind":"Pod","apiVersion":"v1","metadata":{"name":"p","namespace":"ns","uid":"v","resourceVersion":"9"}}]}`,
		"an item of another kind", `a "WidgetList" of "example.com/v1" with a "Pod" of "v1"`},
	{"", `{"kind":"WidgetList","apiVersion":"example.com/v1","metadata":null,"items":[]}`, "no metadata", ""},
	{"", `{"kind":"WidgetList","apiVersion":"example.com/v1","metadata":{"resourceVersion":50},"items":[]}`,
		"a number as the version", ""},
	{protobufType, asProtobuf(&metav1.Status{Status: metav1.StatusSuccess}, "v1 Status"), "a Status in protobuf", ""},
	{protobufType, asProtobuf(&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "50"}},
		"meta.k8s.io/v1 PartialObjectMetadata"), "the metadata of an object in protobuf", ""},
	{protobufType, asProtobuf(&metav1.PartialObjectMetadataList{ListMeta: metav1.ListMeta{ResourceVersion: "50"}},
		"v1 PodList"), "a list of Pods in protobuf", ""},
	{protobufType, "k8s\x00", "an empty answer in protobuf", ""},
	{protobufType, "", "no body in protobuf", ""},
}

// badLists answers lists itself while an index of noLists is set.
type badLists struct {
	next   http.RoundTripper
	answer *atomic.Int64
	which
}

// which are the lists that are answered.
type which struct {
	only   string // a parameter that they have
	size   int    // of a page
	silent bool   // watches go on in silence, so that probes follow; else they are answered with 410, so that lists do
}

func (b badLists) RoundTrip(r *http.Request) (*http.Response, error) {
	i, watch := b.answer.Load(), r.URL.Query().Get("watch") == "true"
	if i < 0 || watch && b.silent || !watch && !strings.Contains("&"+r.URL.RawQuery+"&", b.only) {
		return b.next.RoundTrip(r)
	}
	resp := &http.Response{StatusCode: http.StatusOK, ProtoMajor: 1, ProtoMinor: 1, Request: r, Header: http.Header{}}
	bad := noLists[i]
	if watch {
		resp.StatusCode = http.StatusGone
		bad.contentType = ""
		bad.body = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410}`
	}
	if bad.contentType == "" {
		bad.contentType = "application/json"
	}
	resp.Header.Set("Content-Type", bad.contentType)
	resp.Body = io.NopCloser(strings.NewReader(bad.body))
	return resp, nil
}

// TestAnswerThatIsNoListDeletesNothing: what exists is only known from a list of the right kind and shape.
func TestAnswerThatIsNoListDeletesNothing(t *testing.T) {
	clients := map[string]func(*rest.Config) (dynamic.Interface, error){
		"NewClient": func(cfg *rest.Config) (dynamic.Interface, error) { return stream.NewClient(cfg, nil) },
		"client-go": func(cfg *rest.Config) (dynamic.Interface, error) { return dynamic.NewForConfig(cfg) },
	}
	lists := []which{{"", 500, false}, {"&continue=", 1, false}, {"&limit=1&", 500, true}}
	for name, client := range clients {
		for _, mode := range []stream.ObjectsMode{stream.Full, stream.Raw, stream.Metadata} {
			for _, list := range lists {
				if name == "client-go" && (mode == stream.Raw || list.only != "") {
					continue // it decodes alike
				}
				for i, bad := range noLists {
					t.Run(fmt.Sprintf("%s/%s/%s/%s", name, mode, list.only, bad.why), func(t *testing.T) {
						o := stream.Options{Objects: mode}
						o.Requests.PagedLists, o.Requests.PageSize = true, list.size
						synctest.Test(t, func(t *testing.T) { testNoList(t, client, o, list, int64(i)) })
					})
				}
			}
		}
	}
}

func testNoList(
	t *testing.T, client func(*rest.Config) (dynamic.Interface, error), o stream.Options, lists which, bad int64,
) {
	srv := streamtest.NewServer(widgets())
	defer srv.Close()
	srv.Put(widgets(), "ns", "a")
	srv.Put(widgets(), "ns", "b")
	noError(t, srv.Do("bookmarks never"))
	answer := &atomic.Int64{}
	answer.Store(-1)
	cfg := srv.Config()
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { return badLists{next, answer, lists} })
	c, err := client(cfg)
	noError(t, err)
	s, err := stream.New(c, widgets(), &o)
	noError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var got []string
	done := make(chan error, 1)
	go func() {
		for ev, err := range s.Events(ctx) {
			if err != nil {
				done <- err
				return
			}
			got = append(got, strings.TrimSuffix(ev.String(), " inferred"))
		}
	}()
	time.Sleep(time.Minute)
	answer.Store(bad)
	noError(t, srv.Do("widgets close watches"))
	time.Sleep(10 * time.Minute)
	synctest.Wait()
	// After a probe that says nothing, the watch is tried again, and is Streaming until it has been silent again.
	if st := s.Status(); !lists.silent && (st.State == stream.Streaming || st.Cause == nil ||
		noLists[bad].cause != "" && !strings.Contains(st.Cause.Error(), noLists[bad].cause)) {
		t.Errorf("the Status is %+v, want %s", st, noLists[bad].cause)
	}
	if slices.ContainsFunc(got[3:], isNoGap) {
		t.Errorf("the events are %v", got)
	}
	answer.Store(-1)
	time.Sleep(10 * time.Minute)
	synctest.Wait()
	removed := func(text string) bool { return strings.HasPrefix(text, "DELETED") }
	if st := s.Status(); !st.Synced || slices.ContainsFunc(got, removed) {
		t.Errorf("with lists again, the Status is %+v, the events are %v", st, got)
	}
	cancel()
	<-done
}

func isNoGap(text string) bool { return !strings.HasPrefix(text, "GAP") }
