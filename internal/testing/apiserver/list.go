package apiserver

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sort"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

func (c *conn) serveList(f *fault) {
	s := c.server
	if err := c.waitForVersion(); err != nil {
		c.writeError(err)
		return
	}
	s.mu.Lock()
	body, err := s.state.store.list(c.query, f)
	if err == nil && f != nil {
		damageList(body, f)
	}
	s.mu.Unlock()
	switch {
	case err != nil:
		c.writeError(err)
	case f.is("endless list"):
		c.writeEndlessList(body)
	default:
		c.write(http.StatusOK, body)
	}
}

// damageList puts an error into a list, or into its first object.
func damageList(list map[string]any, f *fault) {
	switch items := list["items"].([]any); {
	case f.is("no version"):
		delete(list["metadata"].(map[string]any), "resourceVersion")
	case f.is("endless list"):
	case slices.Contains(inList, f.usage) && len(items) > 0:
		damage(items[0].(map[string]any), f.usage)
	default:
		return
	}
	f.line.fired = true
}

// writeEndlessList writes a list with more and more objects.
func (c *conn) writeEndlessList(list map[string]any) {
	c.header(http.StatusOK, c.query.contentType())
	n := 0
	begin, object := c.query.endlessList(list)
	c.writeEndless(begin, func() string {
		n++
		return object(map[string]any{
			"namespace": "default", "name": fmt.Sprint("n", n), "uid": fmt.Sprint("u", n), "resourceVersion": "1",
		})
	})
}

// validate refuses the lists and watches that a kube-apiserver refuses.
func (q *query) validate() error {
	const exact, notOlder = metav1.ResourceVersionMatchExact, metav1.ResourceVersionMatchNotOlderThan
	match, list, why := q.ResourceVersionMatch, q.Verb == "list", ""
	switch {
	case list && q.SendInitialEvents != nil:
		why = "sendInitialEvents is forbidden for list"
	case q.SendInitialEvents != nil && match != notOlder:
		why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
	case match == "" || q.SendInitialEvents != nil:
	case !list:
		why = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
	case q.ResourceVersion == "":
		why = "resourceVersionMatch is forbidden unless resourceVersion is provided"
	case q.Continue != "":
		why = "resourceVersionMatch is forbidden when continue is provided"
	case match != exact && match != notOlder:
		why = "supported values of resourceVersionMatch: Exact, NotOlderThan"
	case match == exact && q.ResourceVersion == "0":
		why = `resourceVersionMatch "exact" is forbidden for resourceVersion "0"`
	}
	switch {
	case why != "":
		return failure(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, why)
	case q.Continue != "" && q.ResourceVersion != "" && q.ResourceVersion != "0":
		return apierrors.NewBadRequest("specifying resource version is not allowed when using continue")
	case q.ResourceVersion != "" && parseVersion(q.ResourceVersion) < 0:
		return apierrors.NewBadRequest(fmt.Sprintf("invalid resource version: %q is not a number", q.ResourceVersion))
	}
	return nil
}

// exact reports whether a list asks for the state at one version. That is the default with a limit (apiserver
// storage/etcd3/store.go, "legacy exact").
func (q *query) exact() bool {
	return q.ResourceVersionMatch == metav1.ResourceVersionMatchExact ||
		q.ResourceVersionMatch == "" && q.Limit > 0 && parseVersion(q.ResourceVersion) > 0
}

// waitForVersion waits until the server reaches the version of the request, for up to 3 seconds, as the
// kube-apiserver's watch cache does.
func (c *conn) waitForVersion() error {
	s := c.server
	timeout := time.NewTimer(3 * time.Second)
	defer timeout.Stop()
	want := parseVersion(c.query.ResourceVersion)
	for {
		s.mu.Lock()
		now, changed := s.state.store.rev, s.state.changed
		s.mu.Unlock()
		if want <= now {
			return nil
		}
		select {
		case <-changed:
		case <-timeout.C:
			const tooLarge = "Too large resource version"
			err := apierrors.NewTimeoutError(fmt.Sprintf("%s: %d, current: %d", tooLarge, want, now), 1)
			cause := metav1.StatusCause{Type: metav1.CauseTypeResourceVersionTooLarge, Message: tooLarge}
			err.ErrStatus.Details.Causes = []metav1.StatusCause{cause}
			return err
		case <-c.r.Context().Done():
			return apierrors.NewServiceUnavailable("the server is shutting down")
		}
	}
}

// list makes the answer to a list.
func (st *store) list(q *query, f *fault) (map[string]any, error) {
	if err := q.validate(); err != nil {
		return nil, err
	}
	v, err := newView(q.resource, q.selection())
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	v.metadata = q.Metadata
	rev, start := st.back(q.lag), ""
	switch {
	case q.Continue != "":
		token, err := readToken(q.Continue)
		if err != nil {
			return nil, err
		}
		start = token.StartKey
		if token.ResourceVersion > 0 && !f.is("inconsistent pages") {
			rev = token.ResourceVersion
		}
		if rev > st.rev {
			future := errors.New("etcdserver: mvcc: required revision is a future revision")
			return nil, apierrors.NewInternalError(future)
		}
		if st.expired(q.resource.GroupResource(), rev) {
			expired := apierrors.NewResourceExpired(tooOldContinue)
			expired.ErrStatus.Continue = continueToken{"meta.k8s.io/v1", -1, start}.String()
			return nil, expired
		}
	case q.exact():
		rev = parseVersion(q.ResourceVersion)
		if st.expired(q.resource.GroupResource(), rev) {
			return nil, apierrors.NewResourceExpired(tooOldList)
		}
	}
	return st.page(q, v, rev, start, f), nil
}

func (st *store) page(q *query, v view, rev int64, start string, f *fault) map[string]any {
	all := st.snapshot(q.resource.GroupResource(), rev)
	all = all[sort.Search(len(all), func(i int) bool { return all[i].key >= start }):]
	items, token := []any{}, ""
	metadata := map[string]any{"resourceVersion": formatVersion(rev)}
	for i, it := range all {
		if !v.matches(it.object) {
			continue
		}
		if q.Limit > 0 && len(items) == int(q.Limit) {
			token = continueToken{"meta.k8s.io/v1", rev, all[i-1].key + "\x00"}.String()
			if v.labels.Empty() && v.fields.Empty() { // with a selector the kube-apiserver does not know the count
				metadata["remainingItemCount"] = v.count(all[i:])
			}
			break
		}
		items = append(items, v.render(it.object))
	}
	if f.is("token circle") {
		if token = q.Continue; token == "" {
			token = continueToken{"meta.k8s.io/v1", rev, start}.String()
		}
	}
	if token != "" {
		metadata["continue"] = token
	}
	kind, apiVersion := q.resource.Kind+"List", q.resource.GroupVersion().String()
	if v.metadata {
		kind, apiVersion = "PartialObjectMetadataList", "meta.k8s.io/v1"
	}
	return map[string]any{"kind": kind, "apiVersion": apiVersion, "metadata": metadata, "items": items}
}

func (v view) count(items []item) (n int64) {
	for _, it := range items {
		if v.matches(it.object) {
			n++
		}
	}
	return n
}

func (q *query) selection() Selection {
	of := Selection{Labels: q.LabelSelector, Fields: q.FieldSelector}
	if q.Namespace != "" {
		of.Namespaces = []string{q.Namespace}
	}
	return of
}
