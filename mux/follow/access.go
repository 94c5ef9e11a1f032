package follow

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/internal/guard"
)

// checkTimeout bounds the wait for an answer.
const checkTimeout = 3 * time.Second

// timeout returns a context that ends after checkTimeout, without a deadline: with one, client-go's rate limiter would
// refuse at once a request that has to wait longer.
func timeout(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	timer := time.AfterFunc(checkTimeout, cancel)
	return ctx, func() {
		timer.Stop()
		cancel()
	}
}

// accessChecker asks the server what may be watched: with the reviews of authorization.k8s.io if the server has them,
// else by listing an object.
type accessChecker struct {
	client            dynamic.Interface
	noAccess, noRules atomic.Bool // the server has no SelfSubjectAccessReview, or no SelfSubjectRulesReview
	pace              func()      // is called before each request
}

func newAccessChecker(c dynamic.Interface) *accessChecker {
	return &accessChecker{client: c, pace: func() {}}
}

var (
	reviews       = schema.GroupVersion{Group: "authorization.k8s.io", Version: "v1"}
	accessReviews = reviews.WithResource("selfsubjectaccessreviews")
	rulesReviews  = reviews.WithResource("selfsubjectrulesreviews")
)

// mayWatch reports whether a resource may be listed and watched in a namespace, or if that is empty across the cluster.
func (a *accessChecker) mayWatch(ctx context.Context, r gvr.Resource, namespace string) (bool, error) {
	ctx, cancel := timeout(ctx)
	defer cancel()
	for _, verb := range []string{"list", "watch"} {
		if a.noAccess.Load() {
			return a.tryList(ctx, r, namespace)
		}
		found, err := a.review(ctx, accessReviews, "SelfSubjectAccessReview",
			map[string]any{"resourceAttributes": map[string]any{
				"verb": verb, "group": r.Group, "version": r.Version, "resource": r.Resource, "namespace": namespace,
			}})
		if isUnserved(err) || err == nil && found.Allowed == nil { // client-go's fakes return the request
			a.noAccess.Store(true)
			return a.tryList(ctx, r, namespace)
		}
		if err != nil || !*found.Allowed {
			return false, err
		}
	}
	return true, nil
}

// reviewStatus is the answer to a review of either kind. Fields that it lacks are nil.
type reviewStatus struct {
	Allowed       *bool `json:"allowed"`
	Incomplete    *bool `json:"incomplete"`
	ResourceRules rules `json:"resourceRules"`
}

func (a *accessChecker) review(
	ctx context.Context, resource schema.GroupVersionResource, kind string, spec map[string]any,
) (reviewStatus, error) {
	var review struct {
		Status reviewStatus `json:"status"`
	}
	a.pace()
	created, err := a.client.Resource(resource).Create(ctx, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": reviews.String(), "kind": kind, "spec": spec,
	}}, metav1.CreateOptions{})
	if err == nil {
		err = runtime.DefaultUnstructuredConverter.FromUnstructured(created.Object, &review)
	}
	return review.Status, err
}

// tryList lists one object. Success does not show that the resource may also be watched.
func (a *accessChecker) tryList(ctx context.Context, r gvr.Resource, namespace string) (bool, error) {
	a.pace()
	_, err := a.client.Resource(r.GroupVersionResource).Namespace(namespace).List(ctx, metav1.ListOptions{Limit: 1})
	if apierrors.IsForbidden(err) && !guard.IsGateway(err) {
		return false, nil
	}
	return err == nil, err
}

// rules say what is allowed in a namespace.
type rules []rule

type rule struct {
	Verbs         []string `json:"verbs"`
	Groups        []string `json:"apiGroups"`
	Resources     []string `json:"resources"`
	ResourceNames []string `json:"resourceNames"` // if set, it allows only these objects
}

// rules returns the rules of a namespace, as far as the server gives them, and whether they are complete.
func (a *accessChecker) rules(ctx context.Context, namespace string) (rules, bool) {
	if a.noRules.Load() {
		return nil, false
	}
	ctx, cancel := timeout(ctx)
	defer cancel()
	found, err := a.review(ctx, rulesReviews, "SelfSubjectRulesReview", map[string]any{"namespace": namespace})
	if isUnserved(err) {
		a.noRules.Store(true)
	}
	return found.ResourceRules, err == nil && found.Incomplete != nil && !*found.Incomplete
}

// allow reports whether a resource may be listed and watched.
func (rs rules) allow(r gvr.Resource) bool {
	allowed := func(verb string) bool {
		return slices.ContainsFunc(rs, func(one rule) bool {
			return len(one.ResourceNames) == 0 &&
				matches(one.Verbs, verb) && matches(one.Groups, r.Group) && matches(one.Resources, r.Resource)
		})
	}
	return allowed("list") && allowed("watch")
}

func matches(list []string, one string) bool {
	return slices.Contains(list, "*") || slices.Contains(list, one)
}

// isUnserved reports whether an error means that the server does not answer reviews of this kind.
func isUnserved(err error) bool {
	unserved := apierrors.IsNotFound(err) || apierrors.IsForbidden(err) || apierrors.IsMethodNotSupported(err)
	return unserved && !guard.IsGateway(err)
}
