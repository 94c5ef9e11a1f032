package mux

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
)

// askTimeout is how long an answer may take.
const askTimeout = 3 * time.Second

// asker asks the server what may be watched: with reviews, where it has them
// (authorization.k8s.io), else by trying.
type asker struct {
	client            dynamic.Interface
	noAccess, noRules atomic.Bool // the server has no reviews of this kind
}

var (
	reviews       = schema.GroupVersion{Group: "authorization.k8s.io", Version: "v1"}
	accessReviews = reviews.WithResource("selfsubjectaccessreviews")
	rulesReviews  = reviews.WithResource("selfsubjectrulesreviews")
)

// mayWatch says whether a resource may be listed and watched in a namespace, or if
// that is empty across the cluster.
func (a *asker) mayWatch(ctx context.Context, r gvr.Resource, namespace string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	if a.noAccess.Load() {
		return a.try(ctx, r, namespace)
	}
	for _, verb := range []string{"list", "watch"} {
		yes, err := a.access(ctx, r, namespace, verb)
		if isUnserved(err) {
			a.noAccess.Store(true)
			return a.try(ctx, r, namespace)
		}
		if err != nil || !yes {
			return false, err
		}
	}
	return true, nil
}

func (a *asker) access(ctx context.Context, r gvr.Resource, namespace, verb string) (bool, error) {
	found, err := a.review(ctx, accessReviews, "SelfSubjectAccessReview", map[string]any{"resourceAttributes": map[string]any{
		"verb": verb, "group": r.Group, "version": r.Version, "resource": r.Resource, "namespace": namespace,
	}})
	if err == nil && found.Allowed == nil { // as client-go's fakes, which keep the question
		err = apierrors.NewMethodNotSupported(accessReviews.GroupResource(), "create")
	}
	return err == nil && *found.Allowed, err
}

// reviewStatus is the answer to a review of either kind. What it lacks is nil.
type reviewStatus struct {
	Allowed       *bool `json:"allowed"`
	Incomplete    *bool `json:"incomplete"`
	ResourceRules rules `json:"resourceRules"`
}

func (a *asker) review(
	ctx context.Context, resource schema.GroupVersionResource, kind string, spec map[string]any,
) (reviewStatus, error) {
	var review struct {
		Status reviewStatus `json:"status"`
	}
	created, err := a.client.Resource(resource).Create(ctx, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": reviews.String(), "kind": kind, "spec": spec,
	}}, metav1.CreateOptions{})
	if err == nil {
		err = runtime.DefaultUnstructuredConverter.FromUnstructured(created.Object, &review)
	}
	return review.Status, err
}

// try lists one object. Whether it may be watched as well only a watch can tell.
func (a *asker) try(ctx context.Context, r gvr.Resource, namespace string) (bool, error) {
	_, err := a.client.Resource(r.GroupVersionResource).Namespace(namespace).List(ctx, metav1.ListOptions{Limit: 1})
	if apierrors.IsForbidden(err) {
		return false, nil
	}
	return err == nil, err
}

// rules are what may be done in a namespace.
type rules []rule

type rule struct {
	Verbs         []string `json:"verbs"`
	Groups        []string `json:"apiGroups"`
	Resources     []string `json:"resources"`
	ResourceNames []string `json:"resourceNames"` // it is of these objects alone
}

// rules returns those of a namespace, and whether those are all there are.
func (a *asker) rules(ctx context.Context, namespace string) (rules, bool) {
	if a.noRules.Load() {
		return nil, false
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	found, err := a.review(ctx, rulesReviews, "SelfSubjectRulesReview", map[string]any{"namespace": namespace})
	if isUnserved(err) {
		a.noRules.Store(true)
	}
	return found.ResourceRules, err == nil && found.Incomplete != nil && !*found.Incomplete
}

// allow says whether they let one list and watch a resource.
func (rs rules) allow(r gvr.Resource) bool {
	allowed := func(verb string) bool {
		return slices.ContainsFunc(rs, func(of rule) bool {
			return len(of.ResourceNames) == 0 &&
				holds(of.Verbs, verb) && holds(of.Groups, r.Group) && holds(of.Resources, r.Resource)
		})
	}
	return allowed("list") && allowed("watch")
}

func holds(list []string, one string) bool {
	return slices.Contains(list, "*") || slices.Contains(list, one)
}

// isUnserved says whether the server does not answer questions of this sort.
func isUnserved(err error) bool {
	return apierrors.IsNotFound(err) || apierrors.IsForbidden(err) || apierrors.IsMethodNotSupported(err)
}
