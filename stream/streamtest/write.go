package streamtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/gvrwatch/gvrwatch/gvr"
)

// Create stores a new object, and returns it with its uid and its version. Its
// errors are those of k8s.io/apimachinery/pkg/api/errors: NotFound where the
// resource is not served, AlreadyExists, BadRequest.
func (s *Server) Create(r gvr.Resource, object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	return s.locked(func() (*unstructured.Unstructured, error) { return s.create(r, object.GetNamespace(), object) })
}

// Update replaces an object. If it names a resourceVersion or a uid, they must be
// the newest ones: Conflict else. What changes nothing makes no new version.
func (s *Server) Update(r gvr.Resource, object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	return s.locked(func() (*unstructured.Unstructured, error) {
		return s.update(r, object.GetNamespace(), object.GetName(), object)
	})
}

// Delete removes an object, and returns it as a watch sends its end. One with
// finalizers is only marked with a deletionTimestamp, and goes when an update
// takes the last finalizer away.
func (s *Server) Delete(r gvr.Resource, namespace, name string) (*unstructured.Unstructured, error) {
	return s.locked(func() (*unstructured.Unstructured, error) { return s.delete(r, namespace, name) })
}

// Put creates an object or changes the one that exists. A field is a dotted path
// and a value, "spec.size=3" or "spec.color=red", where the value is JSON if it
// can be read so; "labels.app=web" and "annotations.example.com/owner=me" are short
// for those below metadata, and may have dots in their names. It panics where
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
		return fmt.Errorf("field %q is not PATH=VALUE", field)
	}
	for _, short := range []string{"labels", "annotations"} {
		if key, ok := strings.CutPrefix(path, short+"."); ok {
			return unstructured.SetNestedField(object, text, "metadata", short, key)
		}
	}
	var value any
	if err := utiljson.Unmarshal([]byte(text), &value); err != nil { // which reads whole numbers as int64
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

// ownCopy copies through JSON, as a request does: an int, which DeepCopy panics
// at, is a number like any other.
func ownCopy(o *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	b, err := json.Marshal(o.Object)
	if err != nil {
		return nil, apierrors.NewBadRequest("the object can't be written as JSON: " + err.Error())
	}
	var object map[string]any
	if err := utiljson.Unmarshal(b, &object); err != nil || object == nil {
		return nil, apierrors.NewBadRequest("the object is not a JSON object")
	}
	return &unstructured.Unstructured{Object: object}, nil
}

func (s *Server) create(r gvr.Resource, namespace string, object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	o, err := ownCopy(object)
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

func (s *Server) update(r gvr.Resource, namespace, name string, object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	o, err := ownCopy(object)
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
		why = fmt.Sprintf("the namespace is %q, and %s has objects in namespaces: %t", namespace, r, r.Namespaced)
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

// save stores o, which is the server's own from here on.
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

// strip takes off what depends on the version of the API.
func strip(o map[string]any) {
	delete(o, "apiVersion")
	delete(o, "kind")
}

// sameSpec compares all but the metadata and the status.
func sameSpec(a, b map[string]any) bool {
	a, b = maps.Clone(a), maps.Clone(b)
	for _, o := range []map[string]any{a, b} {
		delete(o, "metadata")
		delete(o, "status")
	}
	return reflect.DeepEqual(a, b)
}
