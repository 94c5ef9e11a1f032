package streamtest

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sort"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// continueToken is that of the kube-apiserver (apiserver storage/continue.go).
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
	data, err := base64.RawURLEncoding.DecodeString(text)
	if err == nil {
		err = json.Unmarshal(data, &t)
	}
	if err != nil || t.APIVersion != "meta.k8s.io/v1" || t.ResourceVersion == 0 {
		return t, apierrors.NewBadRequest("continue key is not valid")
	}
	return t, nil
}

// The messages of apiserver storage/etcd3/errors.go.
const (
	tooOldList     = "The resourceVersion for the provided list is too old."
	tooOldContinue = "The provided continue parameter is too old to display a consistent list result. You can start a new list without " +
		"the continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided " +
		"token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned " +
		"and now may show up in the list."
)

func (s *Server) serveList(c *conn, q *query, f *fault) {
	if err := s.waitFor(c, q); err != nil {
		c.writeError(err)
		return
	}
	s.mu.Lock()
	body, err := s.list(q, f)
	s.mu.Unlock()
	if err != nil {
		c.writeError(err)
		return
	}
	c.writeJSON(http.StatusOK, body)
}

func validateList(q *query) error {
	var errs field.ErrorList
	match := field.NewPath("resourceVersionMatch")
	switch m := metav1.ResourceVersionMatch(q.ResourceVersionMatch); {
	case m == "":
	case q.ResourceVersion == "":
		errs = append(errs, field.Forbidden(match, "resourceVersionMatch is forbidden unless resourceVersion is provided"))
	case q.Continue != "":
		errs = append(errs, field.Forbidden(match, "resourceVersionMatch is forbidden when continue is provided"))
	case m != metav1.ResourceVersionMatchExact && m != metav1.ResourceVersionMatchNotOlderThan:
		errs = append(errs, field.NotSupported(match, m, []metav1.ResourceVersionMatch{metav1.ResourceVersionMatchExact, metav1.ResourceVersionMatchNotOlderThan}))
	case m == metav1.ResourceVersionMatchExact && q.ResourceVersion == "0":
		errs = append(errs, field.Forbidden(match, `resourceVersionMatch "exact" is forbidden for resourceVersion "0"`))
	}
	if q.initial != nil {
		errs = append(errs, field.Forbidden(field.NewPath("sendInitialEvents"), "sendInitialEvents is forbidden for list"))
	}
	if len(errs) > 0 {
		return invalidOptions(errs)
	}
	if q.Continue != "" && q.ResourceVersion != "" && q.ResourceVersion != "0" {
		return apierrors.NewBadRequest("specifying resource version is not allowed when using continue")
	}
	return validateVersion(q)
}

func invalidOptions(errs field.ErrorList) error {
	return apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: "ListOptions"}, "", errs)
}

func validateVersion(q *query) error {
	if q.ResourceVersion != "" && parseVersion(q.ResourceVersion) < 0 {
		return apierrors.NewBadRequest(fmt.Sprintf("invalid resource version: %q is not a number", q.ResourceVersion))
	}
	return nil
}

// exact says that a list wants the state of one version. With a limit, that is so
// if nothing else is said (apiserver storage/etcd3/store.go, "legacy exact").
func (q *query) exact() bool {
	return q.ResourceVersionMatch == string(metav1.ResourceVersionMatchExact) ||
		q.ResourceVersionMatch == "" && q.Limit > 0 && parseVersion(q.ResourceVersion) > 0
}

// waitFor waits until the server has got to the version that a client insists on,
// for 3 seconds, as the kube-apiserver's watch cache does.
func (s *Server) waitFor(c *conn, q *query) error {
	timeout := time.NewTimer(3 * time.Second)
	defer timeout.Stop()
	want := parseVersion(q.ResourceVersion)
	for {
		s.mu.Lock()
		now, changed := s.store.rev, s.changed
		s.mu.Unlock()
		if want <= now {
			return nil
		}
		select {
		case <-changed:
		case <-timeout.C:
			err := apierrors.NewTimeoutError(fmt.Sprintf("Too large resource version: %d, current: %d", want, now), 1)
			err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: metav1.CauseTypeResourceVersionTooLarge, Message: "Too large resource version"}}
			return err
		case <-c.cut:
			return apierrors.NewServiceUnavailable("the server is shutting down")
		case <-c.r.Context().Done():
			return errGone
		case <-s.closed:
			return errGone
		}
	}
}

// list makes the answer, under s.mu.
func (s *Server) list(q *query, f *fault) (map[string]any, error) {
	if err := validateList(q); err != nil {
		return nil, err
	}
	v, err := newView(q.resource, q.scope())
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	v.metadata = q.Metadata
	rev, start := s.store.back(q.lag), ""
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
		if rev > s.store.rev {
			return nil, apierrors.NewInternalError(errors.New("etcdserver: mvcc: required revision is a future revision"))
		}
		if s.store.expired(q.resource.GroupResource(), rev) {
			expired := apierrors.NewResourceExpired(tooOldContinue)
			expired.ErrStatus.Continue = continueToken{"meta.k8s.io/v1", -1, start}.String()
			return nil, expired
		}
	case q.exact():
		rev = parseVersion(q.ResourceVersion)
		if s.store.expired(q.resource.GroupResource(), rev) {
			return nil, apierrors.NewResourceExpired(tooOldList)
		}
	}
	return s.page(q, v, rev, start, f), nil
}

func (s *Server) page(q *query, v view, rev int64, start string, f *fault) map[string]any {
	all := s.store.snapshot(q.resource.GroupResource(), rev)
	all = all[sort.Search(len(all), func(i int) bool { return all[i].key >= start }):]
	items, token := []any{}, ""
	metadata := map[string]any{"resourceVersion": formatVersion(rev)}
	for i, it := range all {
		if !v.matches(it.object) {
			continue
		}
		if q.Limit > 0 && len(items) == int(q.Limit) {
			token = continueToken{"meta.k8s.io/v1", rev, all[i-1].key + "\x00"}.String()
			// With a selector the number is not known, and not told.
			if v.all() {
				metadata["remainingItemCount"] = s.remaining(v, all[i:])
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
	if f.is("no version") {
		delete(metadata, "resourceVersion")
	}
	kind, apiVersion := q.resource.Kind+"List", q.resource.GroupVersion().String()
	if v.metadata {
		kind, apiVersion = "PartialObjectMetadataList", "meta.k8s.io/v1"
	}
	return map[string]any{"kind": kind, "apiVersion": apiVersion, "metadata": metadata, "items": items}
}

func (s *Server) remaining(v view, rest []item) int64 {
	if len(v.namespaces) == 0 {
		return int64(len(rest))
	}
	var n int64
	for _, it := range rest {
		if v.matches(it.object) {
			n++
		}
	}
	return n
}

func (q *query) scope() Scope {
	scope := Scope{LabelSelector: q.LabelSelector, FieldSelector: q.FieldSelector}
	if q.Namespace != "" {
		scope.Namespaces = []string{q.Namespace}
	}
	return scope
}
