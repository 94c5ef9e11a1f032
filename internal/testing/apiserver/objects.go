package apiserver

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gvrwatch/gvrwatch/gvr"
)

// Create stores a new object.
func (s *Server) Create(r gvr.Resource, object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	object = cmp.Or(object, &unstructured.Unstructured{})
	return s.write(r, func() (*unstructured.Unstructured, error) {
		return s.state.store.create(r, object.GetNamespace(), object)
	})
}

// Update replaces an object.
func (s *Server) Update(r gvr.Resource, object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	object = cmp.Or(object, &unstructured.Unstructured{})
	return s.write(r, func() (*unstructured.Unstructured, error) {
		return s.state.store.update(r, object.GetNamespace(), object.GetName(), object)
	})
}

// Delete removes an object, or marks it if it has finalizers.
func (s *Server) Delete(r gvr.Resource, namespace, name string) (*unstructured.Unstructured, error) {
	return s.write(r, func() (*unstructured.Unstructured, error) { return s.state.store.delete(r, namespace, name) })
}

// Put creates an object, or changes the existing one.
func (s *Server) Put(r gvr.Resource, namespace, name string, fields ...string) *unstructured.Unstructured {
	stored, err := s.write(r, func() (*unstructured.Unstructured, error) {
		return s.state.store.put(r, namespace, name, fields)
	})
	if err != nil {
		panic("streamtest: Put " + joinKey(namespace, name) + ": " + err.Error())
	}
	return stored
}

// write changes an object of a resource that is served.
func (s *Server) write(r gvr.Resource,
	change func() (*unstructured.Unstructured, error)) (*unstructured.Unstructured, error) {
	defer s.lock()()
	return s.state.change(r, change)
}

// maxBody is the size of a request that the kube-apiserver accepts.
const maxBody = 3 << 20

// serveObject serves the requests for one object.
func (c *conn) serveObject() {
	s, q := c.server, c.query
	body, err := io.ReadAll(http.MaxBytesReader(c.w, c.r.Body, maxBody))
	if err != nil {
		c.writeError(apierrors.NewRequestEntityTooLargeError(err.Error()))
		return
	}
	s.mu.Lock()
	o, err := s.state.object(q, c.r.Header.Get("Content-Type"), body)
	s.mu.Unlock()
	switch {
	case err != nil:
		c.writeError(err)
	case q.group == reviewGroup:
		c.write(http.StatusCreated, o.Object)
	case q.Verb == "create":
		c.write(http.StatusCreated, view{resource: q.resource, metadata: q.Metadata}.render(o.Object))
	default:
		c.write(http.StatusOK, view{resource: q.resource, metadata: q.Metadata}.render(o.Object))
	}
}

func (s *state) object(q *query, contentType string, body []byte) (*unstructured.Unstructured, error) {
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
		return s.change(q.resource, func() (*unstructured.Unstructured, error) {
			return s.store.delete(q.resource, q.Namespace, q.Name)
		})
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
	if q.group == reviewGroup {
		return o, s.rights.review(o, s.catalog.served)
	}
	return s.change(q.resource, func() (*unstructured.Unstructured, error) {
		if q.Verb == "create" {
			return s.store.create(q.resource, q.Namespace, o)
		}
		return s.store.update(q.resource, q.Namespace, q.Name, o)
	})
}
