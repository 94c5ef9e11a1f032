package stream

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gvrwatch/gvrwatch/internal/client"
	"github.com/gvrwatch/gvrwatch/internal/client/decode"
	"github.com/gvrwatch/gvrwatch/internal/guard"
	"github.com/gvrwatch/gvrwatch/internal/protocol"
)

const (
	// pageTimeout ends a request for a list page without an answer. A kube-apiserver ends requests itself after one
	// minute. Repeated failures double the timeout, up to 16 minutes, for pages that take longer.
	pageTimeout  = 2 * time.Minute
	maxDoublings = 3
	// openTimeout ends the opening of a watch without an answer. The server only has to accept the watch, but may queue
	// it first (priority and fairness).
	openTimeout  = 30 * time.Second
	probeTimeout = 15 * time.Second
	// markerTimeout limits how long a streaming list may be silent at a time, streamedTimeout how long in all. After
	// that the Stream assumes that the bookmark at its end will never arrive.
	markerTimeout   = 10 * time.Second
	streamedTimeout = 5 * time.Minute
)

var (
	errNoVersion = errors.New("the server sent a list without a resourceVersion to watch from")
	errNameless  = errors.New("the server sent an object that lacks its name or namespace")
	errNotList   = errors.New("the server answered a list request with something else")
)

// list reads the page of a token.
func (w *worker) list(ctx context.Context, token string, failures int) protocol.Input {
	a, ok := w.takePageAhead()
	if !ok {
		a = w.requestPage(ctx, w.page(token), w.timeout(pageTimeout, failures))
	}
	f := failure(a.err)
	if w.pages.resize(w.options.Requests.PageSize, a.err) {
		f.Class = protocol.Transient
	}
	var in protocol.Input = protocol.Failed{Failure: f}
	if a.err == nil {
		in = w.takePage(a.list, token != "")
	}
	w.requestDone(Request{Verb: "list", Continued: token != "", Objects: len(w.items), Duration: a.took}, in)
	return in
}

// page returns the options to request the page of a token.
func (w *worker) page(token string) metav1.ListOptions {
	return metav1.ListOptions{Limit: int64(cmp.Or(w.pages.size, w.options.Requests.PageSize)), Continue: token}
}

// pageSizes are those of one snapshot. Zero means Requests.PageSize.
type pageSizes struct {
	size    int // of the next page
	refused int // the smallest size of a page that was too large
}

// resize makes the next page smaller if err says that this one, of up to most objects, was too large. Otherwise it
// makes the next page larger again, up to a size that was not refused in this snapshot. It returns false if a smaller
// page does not help: this one was of one object, or err is another error.
func (p *pageSizes) resize(most int, err error) bool {
	refused, _ := errors.AsType[*guard.Error](err)
	size := cmp.Or(p.size, most)
	switch {
	case err == nil && 2*size < p.refused:
		p.size = 2 * size
	case refused != nil && refused.TooLarge && size > 1:
		p.size, p.refused = max(size/4, 1), size
		return true
	}
	return false
}

// probe lists one object, for the resourceVersion of the list.
func (w *worker) probe(ctx context.Context) protocol.Input {
	a := w.requestPage(ctx, metav1.ListOptions{Limit: 1}, w.timeout(probeTimeout, 0))
	var in protocol.Input = protocol.Failed{Failure: failure(a.err)}
	if a.err == nil {
		in = protocol.Page{Version: a.list.GetResourceVersion()}
	}
	w.requestDone(Request{Verb: "probe", Duration: a.took}, in)
	return in
}

// answer is the result of a request for a page.
type answer struct {
	list client.List
	err  error
	took time.Duration

	panicked any // the value that the request for a page ahead panicked with
}

// requestPage requests a list without a resourceVersion: only the newest state is certain not to be older than what was
// delivered. It does not change the worker, because readPageAhead calls it from another goroutine.
func (w *worker) requestPage(ctx context.Context, o metav1.ListOptions, timeout time.Duration) answer {
	began := time.Now()
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, client.ErrNoAnswer)
	defer cancel()
	o.LabelSelector, o.FieldSelector = w.options.LabelSelector, w.options.FieldSelector
	w.options.Logger.DebugContext(ctx, "listing",
		"resource", w.resource.String(), "namespace", w.namespace, "limit", o.Limit, "continue", o.Continue != "")
	list, err := w.reader.List(ctx, o, w.hints())
	switch {
	case err != nil && ctx.Err() != nil:
		err = context.Cause(ctx)
	case err != nil:
	case list.UnstructuredList == nil || w.isNotList(list.GetKind()):
		err = errNotList
	case !protocol.Usable(list.GetResourceVersion()):
		err = errNoVersion
	}
	if err != nil {
		err = w.requestError("list", err)
	}
	return answer{list: list, err: err, took: time.Since(began)}
}

// takePage keeps the objects of a page in w.items until they are delivered.
func (w *worker) takePage(list client.List, continued bool) protocol.Input {
	w.items = make([]object, list.Len())
	for i := range w.items {
		var u *unstructured.Unstructured
		var raw decode.Raw
		if i < len(list.Raw) {
			raw = list.Raw[i]
		} else { // a new Unstructured: a pointer into Items would keep the whole page in memory
			u = &unstructured.Unstructured{Object: list.Items[i].Object}
		}
		o, err := w.accept(u, raw)
		if err != nil {
			w.items = nil
			return protocol.Failed{Failure: failure(w.requestError("list", err))}
		}
		w.items[i] = o
	}
	return protocol.Page{
		Version: list.GetResourceVersion(), Token: list.GetContinue(), Duplicate: w.allSeen() && continued,
	}
}

// isNotList reports whether an answer of this kind is not a list of objects. client-go turns such an answer into an
// empty list, and every object would seem deleted. (The kind of a real list can have any name: spec.names.listKind of
// the CRD. Only if the kind of the objects is not known, it must end in "List".)
func (w *worker) isNotList(kind string) bool {
	if w.resource.Kind == "" && !strings.HasSuffix(kind, "List") {
		return !w.fake
	}
	return !w.fake && slices.Contains([]string{"", "Status", "Table", "PartialObjectMetadata", w.resource.Kind}, kind)
}

// allSeen reports whether the pages before this one had all of its objects. For objects that the index does not have,
// it relies on servers that list in the order of names.
func (w *worker) allSeen() bool {
	all := true
	for _, o := range w.items {
		n, last := o.NamespacedName(), w.lastName
		if cmp.Or(cmp.Compare(n.Namespace, last.Namespace), cmp.Compare(n.Name, last.Name)) > 0 {
			w.lastName, all = n, false
		} else if w.selects(o) && !w.index.Saw(n) {
			all = false
		}
	}
	return all
}

// connect opens a watch.
func (w *worker) connect(ctx context.Context, s protocol.Connecting) protocol.Input {
	w.pages = pageSizes{}
	lifetime := w.options.Requests.WatchLifetime
	if lifetime == 0 {
		lifetime = w.jitter(minWatch, maxWatch)
	}
	lifetime = lifetime.Truncate(time.Second)
	seconds := int64(lifetime / time.Second)
	o := metav1.ListOptions{
		LabelSelector:       w.options.LabelSelector,
		FieldSelector:       w.options.FieldSelector,
		ResourceVersion:     s.Version(),
		AllowWatchBookmarks: true,
		TimeoutSeconds:      &seconds,
	}
	if s.Initial() {
		w.items, w.itemBytes = nil, 0 // left by an earlier attempt
		all := true
		o.ResourceVersion, o.SendInitialEvents = "", &all
		o.ResourceVersionMatch = metav1.ResourceVersionMatchNotOlderThan
	}
	w.options.Logger.DebugContext(ctx, "watching", "resource", w.resource.String(), "namespace", w.namespace,
		"resourceVersion", o.ResourceVersion, "initialEvents", s.Initial(), "lifetime", lifetime)
	began := time.Now()
	in := w.open(ctx, o, lifetime, w.timeout(openTimeout, s.Failures()))
	w.requestDone(Request{Verb: "watch", ResourceVersion: o.ResourceVersion, InitialEvents: s.Initial(),
		Duration: time.Since(began)}, in)
	return in
}

func (w *worker) open(ctx context.Context, o metav1.ListOptions, lifetime, timeout time.Duration) protocol.Input {
	ctx, cancel := context.WithCancelCause(ctx)
	noAnswer := time.AfterFunc(timeout, func() { cancel(client.ErrNoAnswer) })
	watch, err := w.reader.Watch(ctx, o, w.hints())
	if !noAnswer.Stop() {
		if watch != nil {
			watch.Stop()
		}
		err = context.Cause(ctx)
	}
	if err != nil {
		cancel(nil)
		return protocol.Failed{Failure: failure(w.requestError("watch", err))}
	}
	w.conn = &connection{
		worker: w, watch: watch, cancel: cancel, opened: time.Now(), lifetime: lifetime,
		end: Request{Verb: "watch", Namespace: w.namespace},
	}
	return protocol.Opened{}
}

// hints returns what the worker requests from its client.
func (w *worker) hints() client.Hints {
	return client.Hints{Objects: client.Objects(w.options.Objects), Filter: w.filter(), Buffered: w.writesAhead()}
}

// accept converts an object, decoded or raw, or returns an error if it has no name or namespace.
func (s *Stream) accept(o *unstructured.Unstructured, raw decode.Raw) (object, error) {
	var accepted object
	switch {
	case raw.Version.ResourceVersion != "":
		accepted = receivedWith(o, raw)
	case raw.JSON != nil:
		var err error
		if o, err = decode.Decode(raw.JSON); err != nil {
			return object{}, err
		}
		accepted = received(o)
	case s.fake:
		accepted = receivedFromFake(o)
	default:
		accepted = received(o)
	}
	if accepted.Name == "" || s.resource.Namespaced && accepted.Namespace == "" && !s.fake {
		return object{}, errNameless
	}
	var err error
	switch {
	case s.options.Objects == Metadata:
		accepted.decoded = s.typeMeta.metadataOf(accepted.decoded)
	case s.options.Objects == Raw && accepted.json == nil:
		accepted.json, err = json.Marshal(accepted.decoded.Object)
		accepted.decoded = nil
	}
	return accepted, err
}

// requestError returns the RequestError of a request. It redacts err: every error about a request comes from here.
func (w *worker) requestError(verb string, err error) error {
	if paced, ok := errors.AsType[*client.RetryAfterError](err); ok {
		err = &client.RetryAfterError{Err: guard.Redact(paced.Err), After: paced.After}
	} else {
		err = guard.Redact(err)
	}
	return &RequestError{Verb: verb, Resource: w.resource, Namespace: w.namespace, Err: err}
}

func (w *worker) requestDone(r Request, in protocol.Input) {
	r.Namespace = w.namespace
	if in, ok := in.(protocol.Failed); ok {
		r.Err = in.Err
		w.failedFor += r.Duration
	}
	trace(w.options.Trace.RequestDone, r)
}
