package streamtest

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"reflect"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/gvrwatch/gvrwatch/gvr"
)

// Create stores a new object, and returns it with its uid and version. Its errors are those of
// k8s.io/apimachinery/pkg/api/errors: NotFound if the resource is not served, AlreadyExists, BadRequest.
func (s *Server) Create(r gvr.Resource, object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	object = cmp.Or(object, &unstructured.Unstructured{})
	return s.locked(func() (*unstructured.Unstructured, error) { return s.create(r, object.GetNamespace(), object) })
}

// Update replaces an object. If the new object has a resourceVersion or a uid, they must be those of the stored one;
// otherwise the error is Conflict. An update without a change makes no new version.
func (s *Server) Update(r gvr.Resource, object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	object = cmp.Or(object, &unstructured.Unstructured{})
	return s.locked(func() (*unstructured.Unstructured, error) {
		return s.update(r, object.GetNamespace(), object.GetName(), object)
	})
}

// Delete removes an object, and returns it as a watch sends it with DELETED. An object with finalizers is only marked
// with a deletionTimestamp; the update that removes its last finalizer removes it.
func (s *Server) Delete(r gvr.Resource, namespace, name string) (*unstructured.Unstructured, error) {
	return s.locked(func() (*unstructured.Unstructured, error) { return s.delete(r, namespace, name) })
}

// Put creates an object, or changes the existing one. A field is a dotted path and a value, such as "spec.size=3" or
// "spec.color=red". The value is JSON, or else a string. "labels.app=web" and "annotations.example.com/owner=me" stand
// for metadata.labels and metadata.annotations; the rest of the path is the key, which may have dots. Put panics if
// Create or Update would return an error, or if a field has no "=".
func (s *Server) Put(r gvr.Resource, namespace, name string, fields ...string) *unstructured.Unstructured {
	stored, err := s.locked(func() (*unstructured.Unstructured, error) {
		object := &unstructured.Unstructured{Object: map[string]any{}}
		old, exists := s.store.table(r.GroupResource()).objects[joinKey(namespace, name)]
		if exists {
			object.Object = runtime.DeepCopyJSON(old)
		}
		object.SetNamespace(namespace)
		object.SetName(name)
		for _, field := range fields {
			if err := setField(object.Object, field); err != nil {
				return nil, err
			}
		}
		if exists {
			return s.update(r, namespace, name, object)
		}
		return s.create(r, namespace, object)
	})
	if err != nil {
		panic("streamtest: Put " + joinKey(namespace, name) + ": " + err.Error())
	}
	return stored
}

func setField(object map[string]any, field string) error {
	path, text, ok := strings.Cut(field, "=")
	if !ok {
		return fmt.Errorf("invalid field %q: must be PATH=VALUE", field)
	}
	for _, short := range []string{"labels", "annotations"} {
		if key, ok := strings.CutPrefix(path, short+"."); ok {
			return unstructured.SetNestedField(object, text, "metadata", short, key)
		}
	}
	var value any
	if err := utiljson.Unmarshal([]byte(text), &value); err != nil { // it reads whole numbers as int64
		value = text
	}
	return unstructured.SetNestedField(object, value, strings.Split(path, ".")...)
}

func (s *Server) locked(f func() (*unstructured.Unstructured, error)) (*unstructured.Unstructured, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.runDue()
	return f()
}

// jsonCopy copies through JSON, as a request does, so that objects may hold an int, for which DeepCopy panics.
func jsonCopy(o *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	b, err := json.Marshal(o.Object)
	if err != nil {
		return nil, apierrors.NewBadRequest("the object cannot be encoded as JSON: " + err.Error())
	}
	var object map[string]any
	if err := utiljson.Unmarshal(b, &object); err != nil || object == nil {
		return nil, apierrors.NewBadRequest("the object is not a JSON object")
	}
	return &unstructured.Unstructured{Object: object}, nil
}

func (s *Server) create(r gvr.Resource, namespace string,
	object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	o, err := jsonCopy(object)
	if err != nil {
		return nil, err
	}
	if o.GetName() == "" && o.GetGenerateName() != "" {
		o.SetName(fmt.Sprintf("%s%05x", o.GetGenerateName(), s.uids+1))
	}
	if err := s.checkWrite(r, namespace, o); err != nil {
		return nil, err
	}
	key := joinKey(namespace, o.GetName())
	if _, exists := s.store.table(r.GroupResource()).objects[key]; exists {
		return nil, apierrors.NewAlreadyExists(r.GroupResource(), o.GetName())
	}
	s.uids++
	metadata := o.Object["metadata"].(map[string]any)
	metadata["uid"] = fmt.Sprintf("00000000-0000-4000-8000-%012d", s.uids)
	metadata["creationTimestamp"] = time.Now().UTC().Format(time.RFC3339)
	metadata["generation"] = int64(1)
	delete(metadata, "deletionTimestamp")
	return s.save(r, key, o.Object), nil
}

func (s *Server) update(r gvr.Resource, namespace, name string,
	object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	o, err := jsonCopy(object)
	if err != nil {
		return nil, err
	}
	if err := s.checkWrite(r, namespace, o); err != nil {
		return nil, err
	}
	key := joinKey(namespace, name)
	old, exists := s.store.table(r.GroupResource()).objects[key]
	if !exists {
		return nil, apierrors.NewNotFound(r.GroupResource(), name)
	}
	was := unstructured.Unstructured{Object: old}
	rv, uid := o.GetResourceVersion(), o.GetUID()
	switch {
	case o.GetName() != name:
		why := fmt.Sprintf("the name of the object (%s) does not match the name on the URL (%s)", o.GetName(), name)
		return nil, apierrors.NewBadRequest(why)
	case rv != "" && rv != was.GetResourceVersion():
		why := errors.New("the object has been modified; please apply your changes to the latest version and try again")
		return nil, apierrors.NewConflict(r.GroupResource(), name, why)
	case uid != "" && uid != was.GetUID():
		why := fmt.Errorf("precondition failed: UID in precondition: %v, UID in object meta: %v", uid, was.GetUID())
		return nil, apierrors.NewConflict(r.GroupResource(), name, why)
	}
	metadata, before := o.Object["metadata"].(map[string]any), old["metadata"].(map[string]any)
	for _, field := range []string{"uid", "creationTimestamp", "generation", "resourceVersion", "deletionTimestamp"} {
		if value, ok := before[field]; ok {
			metadata[field] = value
		} else {
			delete(metadata, field)
		}
	}
	strip(o.Object)
	if reflect.DeepEqual(o.Object, old) {
		return s.output(r, old), nil
	}
	if _, dying := metadata["deletionTimestamp"]; dying && len(o.GetFinalizers()) == 0 {
		return s.remove(r, key), nil
	}
	if !sameSpec(old, o.Object) {
		metadata["generation"] = was.GetGeneration() + 1
	}
	return s.save(r, key, o.Object), nil
}

func (s *Server) delete(r gvr.Resource, namespace, name string) (*unstructured.Unstructured, error) {
	if _, ok := s.find(r.Group, r.Version, r.Resource); !ok {
		return nil, unknownResource()
	}
	key := joinKey(namespace, name)
	old, exists := s.store.table(r.GroupResource()).objects[key]
	if !exists {
		return nil, apierrors.NewNotFound(r.GroupResource(), name)
	}
	if was := (&unstructured.Unstructured{Object: old}); len(was.GetFinalizers()) > 0 {
		if was.GetDeletionTimestamp() != nil {
			return s.output(r, old), nil
		}
		marked := runtime.DeepCopyJSON(old)
		marked["metadata"].(map[string]any)["deletionTimestamp"] = time.Now().UTC().Format(time.RFC3339)
		return s.save(r, key, marked), nil
	}
	return s.remove(r, key), nil
}

func (s *Server) checkWrite(r gvr.Resource, namespace string, o *unstructured.Unstructured) error {
	if _, ok := s.find(r.Group, r.Version, r.Resource); !ok {
		return unknownResource()
	}
	why := ""
	switch ns := o.GetNamespace(); {
	case o.GetName() == "":
		why = "name or generateName is required"
	case r.Namespaced != (namespace != ""):
		why = fmt.Sprintf("invalid namespace %q: %s is namespaced: %t", namespace, r, r.Namespaced)
	case ns != "" && ns != namespace:
		why = "the namespace of the provided object does not match the namespace sent on the request"
	case o.GetKind() != "" && o.GetKind() != r.Kind:
		why = fmt.Sprintf("the object is a %s, and %s holds %s", o.GetKind(), r, r.Kind)
	}
	if why != "" {
		return apierrors.NewBadRequest(why)
	}
	if namespace != "" {
		o.SetNamespace(namespace)
	}
	return nil
}

// save stores o, which must not be changed after.
func (s *Server) save(r gvr.Resource, key string, o map[string]any) *unstructured.Unstructured {
	strip(o)
	o["metadata"].(map[string]any)["resourceVersion"] = formatVersion(s.store.rev + 1)
	s.store.write(r.GroupResource(), key, o)
	s.wake()
	return s.output(r, o)
}

func (s *Server) remove(r gvr.Resource, key string) *unstructured.Unstructured {
	c := s.store.write(r.GroupResource(), key, nil)
	s.wake()
	o := s.output(r, c.old)
	o.SetResourceVersion(formatVersion(c.rev))
	return o
}

func (s *Server) output(r gvr.Resource, o map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: view{resource: r}.render(o)}
}

// strip removes the fields that depend on the API version.
func strip(o map[string]any) {
	delete(o, "apiVersion")
	delete(o, "kind")
}

// sameSpec compares everything but metadata and status.
func sameSpec(a, b map[string]any) bool {
	a, b = maps.Clone(a), maps.Clone(b)
	for _, o := range []map[string]any{a, b} {
		delete(o, "metadata")
		delete(o, "status")
	}
	return reflect.DeepEqual(a, b)
}

// maxBody is the size of a request that the kube-apiserver accepts.
const maxBody = 3 << 20

// serveObject serves the requests for one object.
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
		c.write(http.StatusCreated, o.Object)
	case q.Verb == "create":
		c.write(http.StatusCreated, view{resource: q.resource, metadata: q.Metadata}.render(o.Object))
	default:
		c.write(http.StatusOK, view{resource: q.resource, metadata: q.Metadata}.render(o.Object))
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
