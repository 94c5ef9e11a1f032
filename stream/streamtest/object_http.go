package streamtest

import (
	"fmt"
	"io"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// maxBody is what the kube-apiserver takes in a request.
const maxBody = 3 << 20

// serveObject serves what is about one object.
func (s *Server) serveObject(c *conn, q *query) {
	body, err := io.ReadAll(http.MaxBytesReader(c.w, c.r.Body, maxBody))
	if err != nil {
		c.writeError(apierrors.NewRequestEntityTooLargeError(err.Error()))
		return
	}
	s.mu.Lock()
	o, err := s.object(q, c.r.Header.Get("Content-Type"), body)
	s.mu.Unlock()
	switch {
	case err != nil:
		c.writeError(err)
	case q.group == reviewGroup:
		c.writeJSON(http.StatusCreated, o.Object)
	case q.Verb == "create":
		c.writeJSON(http.StatusCreated, view{resource: q.resource, metadata: q.Metadata}.render(o.Object))
	default:
		c.writeJSON(http.StatusOK, view{resource: q.resource, metadata: q.Metadata}.render(o.Object))
	}
}

func (s *Server) object(q *query, contentType string, body []byte) (*unstructured.Unstructured, error) {
	switch q.Verb {
	case "get":
		key := joinKey(q.Namespace, q.Name)
		for _, it := range s.store.snapshot(q.resource.GroupResource(), s.store.back(q.lag)) {
			if it.key == key {
				return &unstructured.Unstructured{Object: it.object}, nil
			}
		}
		return nil, apierrors.NewNotFound(q.resource.GroupResource(), q.Name)
	case "delete":
		return s.delete(q.resource, q.Namespace, q.Name)
	case "create", "update":
	default:
		return nil, apierrors.NewMethodNotSupported(q.resource.GroupResource(), q.Verb)
	}
	if media, _, _ := strings.Cut(contentType, ";"); media != "" && media != "application/json" {
		return nil, failure(http.StatusUnsupportedMediaType, metav1.StatusReasonUnsupportedMediaType,
			"the body of the request was in an unknown format - accepted media types include: application/json")
	}
	o := &unstructured.Unstructured{}
	if err := o.UnmarshalJSON(body); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	if want := q.resource.GroupVersion().String(); o.GetAPIVersion() != want {
		return nil, apierrors.NewBadRequest(fmt.Sprintf(
			"the API version in the data (%s) does not match the expected API version (%s)", o.GetAPIVersion(), want))
	}
	switch {
	case q.group == reviewGroup:
		return o, s.review(o)
	case q.Verb == "create":
		return s.create(q.resource, q.Namespace, o)
	}
	return s.update(q.resource, q.Namespace, q.Name, o)
}
