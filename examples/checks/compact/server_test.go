package compact

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

// server is what both caches read from.
type server struct {
	t      *testing.T
	config *rest.Config
	client dynamic.Interface
	faults *streamtest.Server // nil: a real one
}

func newServer(t *testing.T) *server {
	srv := streamtest.NewServer(configMaps, secrets, namespaces, widgets)
	t.Cleanup(srv.Close)
	h := httptest.NewServer(protobufHandler(inSmallPages(srv)))
	t.Cleanup(h.Close)
	config := &rest.Config{Host: h.URL, QPS: -1}
	return &server{t: t, config: config, client: dynamic.NewForConfigOrDie(config), faults: srv}
}

// inSmallPages limits the pages of lists to two objects, so that client-go needs several for those of the table.
func inSmallPages(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if q := r.URL.Query(); q.Get("limit") != "" && q.Get("watch") == "" {
			q.Set("limit", "2")
			r = r.Clone(r.Context())
			r.URL.RawQuery = q.Encode()
		}
		next.ServeHTTP(w, r)
	})
}

// do runs actions of streamtest.
func (s *server) do(actions ...string) {
	s.t.Helper()
	for _, action := range actions {
		if err := s.faults.Do(action); err != nil {
			s.t.Fatal(err)
		}
	}
}

func (s *server) in(r gvr.Resource, namespace string) dynamic.ResourceInterface {
	if !r.Namespaced {
		return s.client.Resource(r.GroupVersionResource)
	}
	return s.client.Resource(r.GroupVersionResource).Namespace(namespace)
}

// put creates an object, or changes it. Name is NAMESPACE/NAME; labels are KEY=VALUE, of which "size" goes into the
// content, too, and "finalizer" is none.
func (s *server) put(r gvr.Resource, name string, labels ...string) *unstructured.Unstructured {
	s.t.Helper()
	namespace, name := split(name)
	set := map[string]string{}
	for _, l := range labels {
		key, value, _ := strings.Cut(l, "=")
		set[key] = value
	}
	o := &unstructured.Unstructured{Object: content(r, set["size"])}
	if o.Object == nil {
		o.Object = map[string]any{}
	}
	o.SetGroupVersionKind(gvkOf(r))
	o.SetNamespace(namespace)
	o.SetName(name)
	if finalizer, ok := set["finalizer"]; ok {
		delete(set, "finalizer")
		o.SetFinalizers([]string{finalizer})
	}
	o.SetLabels(set)
	o.SetAnnotations(map[string]string{"note": "of " + name})
	o.SetManagedFields([]metav1.ManagedFieldsEntry{{
		Manager: "test", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: r.GroupVersion().String(),
		FieldsType: "FieldsV1", FieldsV1: fieldsV1(s.t, `{"f:data":{".":{},"f:size":{}}}`),
	}})
	stored, err := s.in(r, namespace).Create(s.t.Context(), o, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		if stored, err = s.in(r, namespace).Get(s.t.Context(), name, metav1.GetOptions{}); err == nil {
			o.SetResourceVersion(stored.GetResourceVersion())
			stored, err = s.in(r, namespace).Update(s.t.Context(), o, metav1.UpdateOptions{})
		}
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return stored
}

func (s *server) delete(r gvr.Resource, name string) {
	s.t.Helper()
	namespace, name := split(name)
	if err := s.in(r, namespace).Delete(s.t.Context(), name, metav1.DeleteOptions{}); err != nil {
		s.t.Fatal(err)
	}
}

// split splits NAMESPACE/NAME.
func split(s string) (namespace, name string) {
	if namespace, name, ok := strings.Cut(s, "/"); ok {
		return namespace, name
	}
	return "", s
}

// fieldsV1 is made by its decoder: its field has another name since apimachinery 0.37.
func fieldsV1(t *testing.T, text string) *metav1.FieldsV1 {
	f := &metav1.FieldsV1{}
	if err := f.UnmarshalJSON([]byte(text)); err != nil {
		t.Fatal(err)
	}
	return f
}

var (
	codecs      = serializer.NewCodecFactory(newScheme())
	protobuf, _ = runtime.SerializerInfoForMediaType(codecs.SupportedMediaTypes(), runtime.ContentTypeProtobuf)
	decoder     = codecs.UniversalDeserializer()
)

// protobufHandler answers lists and watches of typed objects in protobuf if the client prefers that, in JSON as next
// has answered otherwise.
func protobufHandler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		accept := r.Header.Get("Accept")
		first, _, _ := strings.Cut(accept, ",")
		if r.Method != http.MethodGet || first != runtime.ContentTypeProtobuf {
			next.ServeHTTP(w, r)
			return
		}
		r = r.Clone(r.Context())
		r.Header.Set("Accept", runtime.ContentTypeJSON)
		watch, _ := strconv.ParseBool(r.URL.Query().Get("watch"))
		t := &translator{ResponseWriter: w, watch: watch}
		next.ServeHTTP(t, r)
		t.end()
	})
}

// translator turns what is written in JSON into protobuf.
type translator struct {
	http.ResponseWriter
	watch  bool
	failed bool // a Status: it remains JSON
	text   bytes.Buffer
}

func (t *translator) WriteHeader(code int) {
	if t.failed = code != http.StatusOK; !t.failed {
		t.Header().Del("Content-Length")
		t.Header().Set("Content-Type", runtime.ContentTypeProtobuf)
		if t.watch {
			t.Header().Set("Content-Type", runtime.ContentTypeProtobuf+";stream=watch")
		}
	}
	t.ResponseWriter.WriteHeader(code)
}

func (t *translator) Write(p []byte) (int, error) {
	if t.failed {
		return t.ResponseWriter.Write(p)
	}
	t.text.Write(p)
	for t.watch && bytes.ContainsRune(t.text.Bytes(), '\n') {
		line, _ := t.text.ReadBytes('\n')
		if err := t.event(line); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

func (t *translator) event(line []byte) error {
	var ev metav1.WatchEvent
	if err := runtime.DecodeInto(decoder, line, &ev); err != nil {
		return err
	}
	o, err := runtime.Decode(decoder, ev.Object.Raw)
	if err != nil {
		return err
	}
	var text bytes.Buffer
	if err := protobuf.Serializer.Encode(o, &text); err != nil {
		return err
	}
	ev.Object.Raw = text.Bytes()
	frames := protobuf.StreamSerializer.NewFrameWriter(t.ResponseWriter)
	return protobuf.StreamSerializer.Serializer.Encode(&ev, frames)
}

// end writes what is no stream.
func (t *translator) end() {
	if t.failed || t.watch || t.text.Len() == 0 {
		return
	}
	o, err := runtime.Decode(decoder, t.text.Bytes())
	if err == nil {
		err = protobuf.Serializer.Encode(o, t.ResponseWriter)
	}
	if err != nil {
		panic(err) // the server answers something unknown
	}
}

func (t *translator) Flush() { _ = http.NewResponseController(t.ResponseWriter).Flush() }
