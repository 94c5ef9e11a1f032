package stream

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const (
	pageSize = 500
	// requestTimeout ends a list page, or the opening of a watch, that gets no
	// answer. A kube-apiserver gives up on requests after one minute itself.
	requestTimeout = 2 * time.Minute
	// The server is asked to end each watch after a time between these, so that
	// many watches do not come back all at once.
	minWatch, maxWatch = 5 * time.Minute, 10 * time.Minute
)

var (
	errNoAnswer   = fmt.Errorf("the server did not answer within %v", requestTimeout)
	errNameless   = errors.New("the server sent an object without a name")
	errNoList     = errors.New("the client returned neither a list nor an error")
	errWatchBroke = errors.New("the connection broke while the watch was being opened")
)

// list reads the page that token stands for.
func (r *run) list(ctx context.Context, token string) input {
	ctx, cancel := context.WithTimeoutCause(ctx, requestTimeout, errNoAnswer)
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
	case list == nil:
		return failed{r.requestError("list", errNoList)}
	}
	rv := list.GetResourceVersion()
	if rv == "" || rv == "0" {
		return failed{r.requestError("list", errNoVersion)} // a watch at 0 may begin anywhere in the past
	}
	r.items = make([]*unstructured.Unstructured, len(list.Items))
	for i := range list.Items {
		// A new Unstructured: a pointer into Items would keep all of the page alive.
		r.items[i] = &unstructured.Unstructured{Object: list.Items[i].Object}
		if list.Items[i].GetName() == "" {
			return failed{r.requestError("list", errNameless)}
		}
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
	case err == nil && brokenWatch(w):
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
	r.conn = newConnection(w, cancel, lifetime)
	return opened{}
}

func (r *run) requestError(verb string, err error) error {
	return &RequestError{Verb: verb, Resource: r.resource, Namespace: r.options.Namespace, Err: err}
}
