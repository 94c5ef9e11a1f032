package apiserver

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

func (st *store) put(r gvr.Resource, namespace, name string, fields []string) (*unstructured.Unstructured, error) {
	object := &unstructured.Unstructured{Object: map[string]any{}}
	old, exists := st.table(r.GroupResource()).objects[joinKey(namespace, name)]
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
		return st.update(r, namespace, name, object)
	}
	return st.create(r, namespace, object)
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

func (st *store) create(r gvr.Resource, namespace string,
	object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	o, err := jsonCopy(object)
	if err != nil {
		return nil, err
	}
	if o.GetName() == "" && o.GetGenerateName() != "" {
		o.SetName(fmt.Sprintf("%s%05x", o.GetGenerateName(), st.uids+1))
	}
	if err := checkWrite(r, namespace, o); err != nil {
		return nil, err
	}
	key := joinKey(namespace, o.GetName())
	if _, exists := st.table(r.GroupResource()).objects[key]; exists {
		return nil, apierrors.NewAlreadyExists(r.GroupResource(), o.GetName())
	}
	st.uids++
	metadata := o.Object["metadata"].(map[string]any)
	metadata["uid"] = fmt.Sprintf("00000000-0000-4000-8000-%012d", st.uids)
	metadata["creationTimestamp"] = time.Now().UTC().Format(time.RFC3339)
	metadata["generation"] = int64(1)
	delete(metadata, "deletionTimestamp")
	return st.save(r, key, o.Object), nil
}

func (st *store) update(r gvr.Resource, namespace, name string,
	object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	o, err := jsonCopy(object)
	if err != nil {
		return nil, err
	}
	if err := checkWrite(r, namespace, o); err != nil {
		return nil, err
	}
	key := joinKey(namespace, name)
	old, exists := st.table(r.GroupResource()).objects[key]
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
		return output(r, old), nil
	}
	if _, dying := metadata["deletionTimestamp"]; dying && len(o.GetFinalizers()) == 0 {
		return st.remove(r, key), nil
	}
	if !sameSpec(old, o.Object) {
		metadata["generation"] = was.GetGeneration() + 1
	}
	return st.save(r, key, o.Object), nil
}

func (st *store) delete(r gvr.Resource, namespace, name string) (*unstructured.Unstructured, error) {
	key := joinKey(namespace, name)
	old, exists := st.table(r.GroupResource()).objects[key]
	if !exists {
		return nil, apierrors.NewNotFound(r.GroupResource(), name)
	}
	if was := (&unstructured.Unstructured{Object: old}); len(was.GetFinalizers()) > 0 {
		if was.GetDeletionTimestamp() != nil {
			return output(r, old), nil
		}
		marked := runtime.DeepCopyJSON(old)
		marked["metadata"].(map[string]any)["deletionTimestamp"] = time.Now().UTC().Format(time.RFC3339)
		return st.save(r, key, marked), nil
	}
	return st.remove(r, key), nil
}

func checkWrite(r gvr.Resource, namespace string, o *unstructured.Unstructured) error {
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
func (st *store) save(r gvr.Resource, key string, o map[string]any) *unstructured.Unstructured {
	strip(o)
	o["metadata"].(map[string]any)["resourceVersion"] = formatVersion(st.rev + 1)
	st.write(r.GroupResource(), key, o)
	return output(r, o)
}

func (st *store) remove(r gvr.Resource, key string) *unstructured.Unstructured {
	c := st.write(r.GroupResource(), key, nil)
	o := output(r, c.old)
	o.SetResourceVersion(formatVersion(c.rev))
	return o
}

func output(r gvr.Resource, o map[string]any) *unstructured.Unstructured {
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
