// Package store keeps the objects of the scripted server with every revision that they had, as etcd does, and says how
// a list or a watch sees them. It knows no requests and no scripts; of the time only what it stamps. It locks nothing.
package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/gvrwatch/gvrwatch/gvr"
)

// Store has the objects and what is served of them.
type Store struct {
	revisions Revisions
	catalog   Catalog
	uids      int
}

// uidFormat makes a uid of a number.
const uidFormat = "00000000-0000-4000-8000-%012d"

// New makes an empty Store, at revision 1.
func New() *Store {
	return &Store{revisions: Revisions{newest: 1, tables: map[schema.GroupResource]*table{}}}
}

// Revisions returns those of the objects.
func (st *Store) Revisions() *Revisions { return &st.revisions }

// Catalog returns what is served.
func (st *Store) Catalog() *Catalog { return &st.catalog }

// DeleteCRD deletes the objects of a served resource one by one, then the resource.
func (st *Store) DeleteCRD(r gvr.Resource) {
	if _, err := st.catalog.Find(r.GroupVersionResource); err == nil {
		st.revisions.clear(r.GroupResource())
		st.catalog.Unserve(r)
	}
}

// CreateCRD serves a deleted resource again: empty, and with all earlier versions expired.
func (st *Store) CreateCRD(r gvr.Resource) {
	if _, err := st.catalog.Find(r.GroupVersionResource); err != nil {
		st.revisions.clear(r.GroupResource())
		st.revisions.Expire(r.GroupResource())
		st.catalog.Serve(r)
	}
}

// Put creates an object, or changes the fields of the existing one.
func (st *Store) Put(r gvr.Resource, namespace, name string, fields []string) (*unstructured.Unstructured, error) {
	object := &unstructured.Unstructured{Object: map[string]any{}}
	old := st.revisions.object(r.GroupResource(), Key(namespace, name))
	if old != nil {
		object.Object = runtime.DeepCopyJSON(old)
	}
	object.SetNamespace(namespace)
	object.SetName(name)
	for _, field := range fields {
		if err := setField(object.Object, field); err != nil {
			return nil, err
		}
	}
	if old != nil {
		return st.Update(r, namespace, name, object)
	}
	return st.Create(r, namespace, object)
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

// input checks an object. It copies it through JSON, as a request does, so that it may hold an int, for which DeepCopy
// panics. A new object without a name gets one if it has generateName.
func (st *Store) input(r gvr.Resource, namespace string, object *unstructured.Unstructured,
	isNew bool) (*unstructured.Unstructured, error) {
	if _, err := st.catalog.Find(r.GroupVersionResource); err != nil {
		return nil, err
	}
	b, err := json.Marshal(object.Object)
	if err != nil {
		return nil, apierrors.NewBadRequest("the object cannot be encoded as JSON: " + err.Error())
	}
	o := &unstructured.Unstructured{}
	if err := utiljson.Unmarshal(b, &o.Object); err != nil || o.Object == nil {
		return nil, apierrors.NewBadRequest("the object is not a JSON object")
	}
	if isNew && o.GetName() == "" && o.GetGenerateName() != "" {
		o.SetName(fmt.Sprintf("%s%05x", o.GetGenerateName(), st.uids+1))
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
		return nil, apierrors.NewBadRequest(why)
	}
	if namespace != "" {
		o.SetNamespace(namespace)
	}
	return o, nil
}

// Create stores a new object. As for Update and Delete, the resource must be served.
func (st *Store) Create(r gvr.Resource, namespace string,
	object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	o, err := st.input(r, namespace, object, true)
	if err != nil {
		return nil, err
	}
	key := Key(namespace, o.GetName())
	if st.revisions.object(r.GroupResource(), key) != nil {
		return nil, apierrors.NewAlreadyExists(r.GroupResource(), o.GetName())
	}
	st.uids++
	metadata := o.Object["metadata"].(map[string]any)
	metadata["uid"] = fmt.Sprintf(uidFormat, st.uids)
	metadata["creationTimestamp"] = time.Now().UTC().Format(time.RFC3339)
	metadata["generation"] = int64(1)
	delete(metadata, "deletionTimestamp")
	return st.save(r, key, o.Object), nil
}

// Update replaces an object.
func (st *Store) Update(r gvr.Resource, namespace, name string,
	object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	o, err := st.input(r, namespace, object, false)
	if err != nil {
		return nil, err
	}
	key := Key(namespace, name)
	old := st.revisions.object(r.GroupResource(), key)
	if old == nil {
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

// Delete removes an object, or marks it if it has finalizers.
func (st *Store) Delete(r gvr.Resource, namespace, name string) (*unstructured.Unstructured, error) {
	if _, err := st.catalog.Find(r.GroupVersionResource); err != nil {
		return nil, err
	}
	key := Key(namespace, name)
	old := st.revisions.object(r.GroupResource(), key)
	if old == nil {
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

// save stores o, which must not be changed after.
func (st *Store) save(r gvr.Resource, key string, o map[string]any) *unstructured.Unstructured {
	st.write(r, key, o)
	return output(r, o)
}

func (st *Store) write(r gvr.Resource, key string, o map[string]any) {
	strip(o)
	o["metadata"].(map[string]any)["resourceVersion"] = FormatVersion(st.revisions.Newest() + 1)
	st.revisions.write(r.GroupResource(), key, o)
}

func (st *Store) remove(r gvr.Resource, key string) *unstructured.Unstructured {
	c := st.revisions.write(r.GroupResource(), key, nil)
	o := output(r, c.old)
	o.SetResourceVersion(FormatVersion(c.Number))
	return o
}

func output(r gvr.Resource, o map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: View{Resource: r}.Render(o)}
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

// Key is "name" or "namespace/name".
func Key(namespace, name string) string { return strings.TrimPrefix(namespace+"/"+name, "/") }

// Catalog has the resources whose objects can be read and written.
type Catalog struct {
	served []gvr.Resource
	known  []gvr.Resource // ever served
}

// verbs are those that a resource has unless it says otherwise.
var verbs = []string{"create", "delete", "get", "list", "update", "watch"}

// Serve serves a resource, or replaces the one of that name.
func (c *Catalog) Serve(r gvr.Resource) {
	if len(r.Verbs) == 0 {
		r.Verbs = slices.Clone(verbs)
	}
	c.Unserve(r)
	c.served = append(c.served, r)
	c.known = append(slices.DeleteFunc(c.known, named(r.GroupVersionResource)), r)
}

// Unserve stops serving a resource.
func (c *Catalog) Unserve(r gvr.Resource) {
	c.served = slices.DeleteFunc(c.served, named(r.GroupVersionResource))
}

// Served returns what is served.
func (c *Catalog) Served() []gvr.Resource { return slices.Clone(c.served) }

// Known returns what was ever served.
func (c *Catalog) Known() []gvr.Resource { return slices.Clone(c.known) }

// Find returns the resource that is served under a name, or the 404 of a path where nothing is.
func (c *Catalog) Find(name schema.GroupVersionResource) (gvr.Resource, error) {
	if i := slices.IndexFunc(c.served, named(name)); i >= 0 {
		return c.served[i], nil
	}
	return gvr.Resource{}, Unknown()
}

func named(name schema.GroupVersionResource) func(gvr.Resource) bool {
	return func(r gvr.Resource) bool { return r.GroupVersionResource == name }
}

// Unknown returns the 404 of a path where nothing is served.
func Unknown() error {
	err := apierrors.NewGenericServerResponse(http.StatusNotFound, "", schema.GroupResource{}, "", "", 0, false)
	err.ErrStatus.Details = nil
	return err
}
