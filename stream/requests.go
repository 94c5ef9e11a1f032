package stream

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const (
	pageSize = 500
	// requestTimeout ends a list page, or the opening of a watch, that gets no
	// answer. A kube-apiserver gives up on requests after one minute itself.
	// Repeated failures double it, up to 16 minutes, for pages that take longer.
	requestTimeout = 2 * time.Minute
	maxDoublings   = 3
	// The server is asked to end each watch after a time between these, so that
	// many watches do not come back all at once.
	minWatch, maxWatch = 5 * time.Minute, 10 * time.Minute
)

var (
	errNoAnswer   = errors.New("the server did not answer in time")
	errNameless   = errors.New("the server sent an object that lacks its name, or its namespace")
	errNoList     = errors.New("the server answered a list with something else")
	errNoWatch    = errors.New("the client returned neither a watch nor an error")
	errWatchBroke = errors.New("the connection broke while the watch was being opened")
)

// list reads the page that token stands for.
func (r *run) list(ctx context.Context, token string, failures int) input {
	ctx, cancel := context.WithTimeoutCause(ctx, requestTimeout<<min(failures, maxDoublings), errNoAnswer)
	defer cancel()
	r.options.Logger.DebugContext(ctx, "listing", "resource", r.resource.String(), "continue", token != "")
	list, err := r.client.List(ctx, metav1.ListOptions{
		LabelSelector: r.options.LabelSelector,
		FieldSelector: r.options.FieldSelector,
		Limit:         pageSize,
		Continue:      token,
		// No resourceVersion: only the newest state is sure not to be older than
		// what has been told.
	})
	switch {
	case err != nil && ctx.Err() != nil:
		return failed{r.requestError("list", context.Cause(ctx))}
	case err != nil:
		return failed{r.requestError("list", err)}
	case list == nil || r.resource.Kind != "" && list.GetKind() == r.resource.Kind:
		return failed{r.requestError("list", errNoList)}
	}
	rv := list.GetResourceVersion()
	if rv == "" || rv == "0" {
		return failed{r.requestError("list", errNoVersion)} // a watch at 0 may begin anywhere in the past
	}
	r.items = make([]object, len(list.Items))
	for i := range list.Items {
		// A new Unstructured: a pointer into Items would keep all of the page alive.
		o, err := r.check(&unstructured.Unstructured{Object: list.Items[i].Object})
		if err != nil {
			return failed{r.requestError("list", err)}
		}
		r.items[i] = o
	}
	return page{rv: rv, token: list.GetContinue()}
}

// connect opens a watch at rv.
func (r *run) connect(ctx context.Context, rv string) input {
	lifetime := minWatch + rand.N(maxWatch-minWatch)
	seconds := int64(lifetime / time.Second)
	ctx, cancel := context.WithCancelCause(ctx)
	noAnswer := time.AfterFunc(requestTimeout, func() { cancel(errNoAnswer) })
	r.options.Logger.DebugContext(ctx, "watching", "resource", r.resource.String(), "resourceVersion", rv, "lifetime", lifetime)
	w, err := r.client.Watch(ctx, metav1.ListOptions{
		LabelSelector:       r.options.LabelSelector,
		FieldSelector:       r.options.FieldSelector,
		ResourceVersion:     rv,
		AllowWatchBookmarks: true,
		TimeoutSeconds:      &seconds,
	})
	answered := noAnswer.Stop()
	switch {
	case !answered:
		err = context.Cause(ctx)
	case err == nil && w == nil:
		err = errNoWatch
	case err == nil && !r.fake && brokenWatch(w):
		err = errWatchBroke
	}
	if err != nil {
		if w != nil {
			w.Stop()
		}
		cancel(nil)
		return failed{r.requestError("watch", err)}
	}
	if r.failed {
		r.failed = false
		r.options.Logger.InfoContext(ctx, "watching again", "resource", r.resource.String(), "resourceVersion", rv)
	}
	r.conn = &connection{
		watch: w, cancel: cancel, check: r.check,
		opened: time.Now(), death: time.NewTimer(lifetime + overtime),
	}
	return opened{}
}

// check takes an object in, if it can be told from others.
func (s *Stream) check(o *unstructured.Unstructured) (object, error) {
	switch {
	case o.GetName() == "":
		return object{}, errNameless
	case s.fake:
		return faked(o), nil
	case s.resource.Namespaced && o.GetNamespace() == "":
		return object{}, errNameless
	}
	return received(o), nil
}

func (r *run) requestError(verb string, err error) error {
	return &RequestError{Verb: verb, Resource: r.resource, Namespace: r.options.Namespace, Err: err}
}
