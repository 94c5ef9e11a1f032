package door

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sort"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gvrwatch/gvrwatch/internal/testing/apiserver/script"
	"github.com/gvrwatch/gvrwatch/internal/testing/apiserver/store"
)

// continueToken is as in apiserver storage/continue.go.
type continueToken struct {
	APIVersion      string `json:"v"`
	ResourceVersion int64  `json:"rv"` // -1: the newest
	StartKey        string `json:"start"`
}

func (t continueToken) String() string {
	data, err := json.Marshal(t)
	if err != nil {
		panic(err)
	}
	return base64.RawURLEncoding.EncodeToString(data)
}

func readToken(text string) (continueToken, error) {
	var t continueToken
	data, _ := base64.RawURLEncoding.DecodeString(text) // what remains of an invalid text is not JSON
	if err := json.Unmarshal(data, &t); err != nil || t.APIVersion != "meta.k8s.io/v1" || t.ResourceVersion == 0 {
		return t, apierrors.NewBadRequest("continue key is not valid")
	}
	return t, nil
}

// The messages are those of apiserver storage/etcd3/errors.go, shortened.
const (
	tooOldList     = "The resourceVersion for the provided list is too old."
	tooOldContinue = "The provided continue parameter is too old to display a consistent list result. You can start " +
		"a new list without the continue parameter, or use the continue token in this response to retrieve the " +
		"remainder of the results, which is then inconsistent."
)

func (a *answer) serveList(f *script.Fault) {
	c := a.conn
	if err := a.waitForVersion(); err != nil {
		c.writeError(err)
		return
	}
	unlock := a.door.lock()
	body, err := a.list(f)
	if err == nil && f != nil && damageList(body, f) {
		a.door.script.Happened(f)
	}
	unlock()
	switch {
	case err != nil:
		c.writeError(err)
	case f.Is("endless list"):
		c.writeEndlessList(body)
	default:
		c.write(http.StatusOK, body)
	}
}

// damageList puts an error into a list, or into its first object. It reports whether the fault can happen.
func damageList(list map[string]any, f *script.Fault) bool {
	switch items := list["items"].([]any); {
	case f.Is("no version"):
		delete(list["metadata"].(map[string]any), "resourceVersion")
	case f.Is("endless list"): // once it is written
	case f.NeedsObjects() && len(items) > 0:
		damage(items[0].(map[string]any), f.Usage)
	default:
		return false
	}
	return true
}

// writeEndlessList writes a list with more and more objects.
func (c *conn) writeEndlessList(list map[string]any) {
	c.header(http.StatusOK, c.row.format().contentType())
	n := 0
	begin, object := c.row.format().endlessList(list)
	c.writeEndless(begin, func() string {
		n++
		return object(map[string]any{
			"namespace": "default", "name": fmt.Sprint("n", n), "uid": fmt.Sprint("u", n), "resourceVersion": "1",
		})
	})
}

// waitForVersion waits until the server reaches the version of the request, for up to 3 seconds, as the
// kube-apiserver's watch cache does.
func (a *answer) waitForVersion() error {
	timeout := time.After(3 * time.Second)
	want := store.ParseVersion(a.query.request.ResourceVersion)
	for {
		unlock := a.door.lock()
		now, changed := a.door.store.Revisions().Newest(), a.door.changed
		unlock()
		if want <= now {
			return nil
		}
		select {
		case <-changed:
		case <-timeout:
			const tooLarge = "Too large resource version"
			err := apierrors.NewTimeoutError(fmt.Sprintf("%s: %d, current: %d", tooLarge, want, now), 1)
			cause := metav1.StatusCause{Type: metav1.CauseTypeResourceVersionTooLarge, Message: tooLarge}
			err.ErrStatus.Details.Causes = []metav1.StatusCause{cause}
			return err
		case <-a.conn.r.Context().Done():
			return apierrors.NewServiceUnavailable("the server is shutting down")
		}
	}
}

// list makes the answer to a list. The lock is held.
func (a *answer) list(f *script.Fault) (map[string]any, error) {
	st, request := a.door.store.Revisions(), &a.query.request
	v, err := request.view(a.query.resource)
	if err != nil {
		return nil, err
	}
	rev, start, gr := st.Back(a.query.lag), "", v.Resource.GroupResource()
	switch {
	case request.Continue != "":
		token, err := readToken(request.Continue)
		if err != nil {
			return nil, err
		}
		start = token.StartKey
		if token.ResourceVersion > 0 && !f.Is("inconsistent pages") {
			rev = token.ResourceVersion
		}
		if rev > st.Newest() {
			future := errors.New("etcdserver: mvcc: required revision is a future revision")
			return nil, apierrors.NewInternalError(future)
		}
		if st.Expired(gr, rev) {
			expired := apierrors.NewResourceExpired(tooOldContinue)
			expired.ErrStatus.Continue = continueToken{"meta.k8s.io/v1", -1, start}.String()
			return nil, expired
		}
	case request.exact():
		rev = store.ParseVersion(request.ResourceVersion)
		if st.Expired(gr, rev) {
			return nil, apierrors.NewResourceExpired(tooOldList)
		}
	}
	list, token := page(v, st.Snapshot(gr, rev), rev, start, int(request.Limit))
	if f.Is("token circle") {
		if token = request.Continue; token == "" {
			token = continueToken{"meta.k8s.io/v1", rev, start}.String()
		}
	}
	if token != "" {
		list["metadata"].(map[string]any)["continue"] = token
	}
	return list, nil
}

// page returns up to limit of all objects at rev, from the key start on. The token is empty if no objects are left.
func page(v store.View, all []store.Item, rev int64, start string, limit int) (list map[string]any, token string) {
	all = all[sort.Search(len(all), func(i int) bool { return all[i].Key >= start }):]
	items, metadata := []any{}, map[string]any{"resourceVersion": store.FormatVersion(rev)}
	for i, it := range all {
		if !v.Matches(it.Object) {
			continue
		}
		if limit > 0 && len(items) == limit {
			token = continueToken{"meta.k8s.io/v1", rev, all[i-1].Key + "\x00"}.String()
			if n, known := v.Count(all[i:]); known {
				metadata["remainingItemCount"] = n
			}
			break
		}
		items = append(items, v.Render(it.Object))
	}
	kind, apiVersion := v.Resource.Kind+"List", v.Resource.GroupVersion().String()
	if v.Metadata {
		kind, apiVersion = "PartialObjectMetadataList", "meta.k8s.io/v1"
	}
	return map[string]any{"kind": kind, "apiVersion": apiVersion, "metadata": metadata, "items": items}, token
}

// maxBody is the size of a request that the kube-apiserver accepts.
const maxBody = 3 << 20

// serveObject serves the requests for one object.
func (a *answer) serveObject() {
	c, request := a.conn, &a.query.request
	body, err := io.ReadAll(http.MaxBytesReader(c.w, c.r.Body, maxBody))
	if err != nil {
		c.writeError(apierrors.NewRequestEntityTooLargeError(err.Error()))
		return
	}
	unlock := a.door.lock()
	o, err := a.object(c.r.Header.Get("Content-Type"), body)
	unlock()
	code, v := http.StatusOK, store.View{Resource: a.query.resource, Metadata: request.Metadata}
	if request.Verb == "create" {
		code = http.StatusCreated
	}
	switch {
	case err != nil:
		c.writeError(err)
	case a.query.name.Group == Reviews.Group:
		c.write(http.StatusCreated, o.Object)
	default:
		c.write(code, v.Render(o.Object))
	}
}

// object reads or changes an object. The lock is held.
func (a *answer) object(contentType string, body []byte) (*unstructured.Unstructured, error) {
	st, q, request := a.door.store, a.query, &a.query.request
	switch request.Verb {
	case "get":
		key := store.Key(request.Namespace, request.Name)
		for _, it := range st.Revisions().Snapshot(q.resource.GroupResource(), st.Revisions().Back(q.lag)) {
			if it.Key == key {
				return &unstructured.Unstructured{Object: it.Object}, nil
			}
		}
		return nil, apierrors.NewNotFound(q.resource.GroupResource(), request.Name)
	case "delete":
		return st.Delete(q.resource, request.Namespace, request.Name)
	case "create", "update":
	default:
		return nil, apierrors.NewMethodNotSupported(q.resource.GroupResource(), request.Verb)
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
	if q.name.Group == Reviews.Group {
		return o, a.door.rights.review(o, st.Catalog().Served())
	}
	if request.Verb == "create" {
		return st.Create(q.resource, request.Namespace, o)
	}
	return st.Update(q.resource, request.Namespace, request.Name, o)
}
