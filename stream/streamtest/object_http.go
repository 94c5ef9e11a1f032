package streamtest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// maxBody is what the kube-apiserver takes in a request.
const maxBody = 3 << 20

// serveObject serves what is about one object, and deletecollection.
func (s *Server) serveObject(c *conn, q *query) {
	body, err := io.ReadAll(http.MaxBytesReader(c.w, c.r.Body, maxBody))
	if err != nil {
		c.writeError(apierrors.NewRequestEntityTooLargeError(err.Error()))
		return
	}
	s.mu.Lock()
	code, answer, err := s.object(q, c.r.Header.Get("Content-Type"), body)
	s.mu.Unlock()
	if err != nil {
		c.writeError(err)
		return
	}
	c.writeJSON(code, answer)
}

func (s *Server) object(q *query, contentType string, body []byte) (int, any, error) {
	media, _, _ := strings.Cut(contentType, ";")
	if (q.Verb == "create" || q.Verb == "update") && media != "" && media != "application/json" {
		return 0, nil, unsupportedMedia("application/json")
	}
	switch q.Verb {
	case "get":
		return s.get(q)
	case "create":
		o, err := readObject(q, body)
		if err != nil {
			return 0, nil, err
		}
		if q.group == reviewGroup {
			return s.review(o)
		}
		return q.answer(http.StatusCreated)(s.create(q.resource, q.Namespace, o))
	case "update":
		o, err := readObject(q, body)
		if err != nil {
			return 0, nil, err
		}
		return q.answer(http.StatusOK)(s.update(q.resource, q.Namespace, q.Name, o))
	case "patch":
		return s.patch(q, contentType, body)
	case "delete":
		return s.deleteOne(q, body)
	case "deletecollection":
		return s.deleteAll(q)
	}
	return 0, nil, apierrors.NewMethodNotSupported(q.resource.GroupResource(), q.Verb)
}

// answer is a stored object, in the form in which it was asked for.
func (q *query) answer(code int) func(*unstructured.Unstructured, error) (int, any, error) {
	return func(o *unstructured.Unstructured, err error) (int, any, error) {
		if err != nil {
			return 0, nil, err
		}
		return code, view{resource: q.resource, metadata: q.Metadata}.render(o.Object), nil
	}
}

func (s *Server) get(q *query) (int, any, error) {
	key := joinKey(q.Namespace, q.Name)
	for _, it := range s.store.snapshot(q.resource.GroupResource(), s.store.back(q.lag)) {
		if it.key == key {
			return http.StatusOK, view{resource: q.resource, metadata: q.Metadata}.render(it.object), nil
		}
	}
	return 0, nil, apierrors.NewNotFound(q.resource.GroupResource(), q.Name)
}

func readObject(q *query, body []byte) (*unstructured.Unstructured, error) {
	o := &unstructured.Unstructured{}
	if err := o.UnmarshalJSON(body); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	if want := q.resource.GroupVersion().String(); o.GetAPIVersion() != want {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("the API version in the data (%s) does not match the expected API version (%s)", o.GetAPIVersion(), want))
	}
	return o, nil
}

func unsupportedMedia(known string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusUnsupportedMediaType, Reason: metav1.StatusReasonUnsupportedMediaType,
		Message: "the body of the request was in an unknown format - accepted media types include: " + known,
	}}
}

// patch knows merge patches only (RFC 7386).
func (s *Server) patch(q *query, contentType string, body []byte) (int, any, error) {
	if contentType != "application/merge-patch+json" {
		return 0, nil, unsupportedMedia("application/merge-patch+json")
	}
	old, exists := s.store.table(q.resource.GroupResource()).objects[joinKey(q.Namespace, q.Name)]
	if !exists {
		return 0, nil, apierrors.NewNotFound(q.resource.GroupResource(), q.Name)
	}
	value, err := readJSON(body)
	change, ok := value.(map[string]any)
	if err != nil || !ok {
		return 0, nil, apierrors.NewBadRequest("the patch is not a JSON object")
	}
	merged := merge(runtime.DeepCopyJSON(old), change).(map[string]any)
	if _, ok := merged["metadata"].(map[string]any); !ok {
		return 0, nil, apierrors.NewBadRequest("the patched object has no metadata")
	}
	return q.answer(http.StatusOK)(s.update(q.resource, q.Namespace, q.Name, &unstructured.Unstructured{Object: merged}))
}

func merge(target, change any) any {
	changes, ok := change.(map[string]any)
	if !ok {
		return change
	}
	merged, ok := target.(map[string]any)
	if !ok {
		merged = map[string]any{}
	}
	for name, value := range changes {
		if value == nil {
			delete(merged, name)
		} else {
			merged[name] = merge(merged[name], value)
		}
	}
	return merged
}

func (s *Server) deleteOne(q *query, body []byte) (int, any, error) {
	var options metav1.DeleteOptions
	if len(body) > 0 {
		if err := json.Unmarshal(body, &options); err != nil {
			return 0, nil, apierrors.NewBadRequest(err.Error())
		}
	}
	old := s.store.table(q.resource.GroupResource()).objects[joinKey(q.Namespace, q.Name)]
	if p := options.Preconditions; p != nil && old != nil {
		was := unstructured.Unstructured{Object: old}
		if p.UID != nil && *p.UID != was.GetUID() || p.ResourceVersion != nil && *p.ResourceVersion != was.GetResourceVersion() {
			return 0, nil, apierrors.NewConflict(q.resource.GroupResource(), q.Name, fmt.Errorf("the preconditions do not hold"))
		}
	}
	o, err := s.delete(q.resource, q.Namespace, q.Name)
	if err != nil {
		return 0, nil, err
	}
	if len(o.GetFinalizers()) > 0 {
		return q.answer(http.StatusOK)(o, nil)
	}
	return http.StatusOK, deleted(q.resource.GroupResource(), o), nil
}

func deleted(r schema.GroupResource, o *unstructured.Unstructured) metav1.Status {
	return metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusSuccess,
		Details:  &metav1.StatusDetails{Group: r.Group, Kind: r.Resource, Name: o.GetName(), UID: o.GetUID()},
	}
}

func (s *Server) deleteAll(q *query) (int, any, error) {
	body, err := s.list(q, nil)
	if err != nil {
		return 0, nil, err
	}
	for _, it := range body["items"].([]any) {
		o := unstructured.Unstructured{Object: it.(map[string]any)}
		if _, err := s.delete(q.resource, o.GetNamespace(), o.GetName()); err != nil {
			return 0, nil, err
		}
	}
	return http.StatusOK, body, nil
}
