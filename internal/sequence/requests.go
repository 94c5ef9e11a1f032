package sequence

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
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
	// minute. pacing.timeout doubles it with repeated failures, up to 16 minutes, for pages that take longer.
	pageTimeout = 2 * time.Minute
	// minWatch and maxWatch bound the lifetime of a watch, if Requests.WatchLifetime is zero.
	minWatch, maxWatch = 5 * time.Minute, 10 * time.Minute
	// openTimeout ends the opening of a watch without an answer. The server only has to accept the watch, but may queue
	// it first (priority and fairness).
	openTimeout  = 30 * time.Second
	probeTimeout = 15 * time.Second
	// probeLimit is how many objects a probe requests. The first page of a list requests more, unless such a page was
	// too large: by that, tests distinguish them (script.ProbeLimit).
	probeLimit = 1
	// markerTimeout limits how long a streaming list may be silent at a time, streamedTimeout how long in all. After
	// that the Stream assumes that the bookmark at its end will never arrive.
	markerTimeout   = 10 * time.Second
	streamedTimeout = 5 * time.Minute
	// fakeVersion is the version of a list of client-go's fake that has none: a list that a reactor of a test returns.
	// The fake itself gives it to a list without objects.
	fakeVersion = "1"
	// A server that has lost the history since a version sends that error as the first event of a watch, at once: a
	// kube-apiserver in the request, before anything else. A watch that is silent for so long is taken to go on.
	confirmed = time.Second
	// A watch may be open for longer than was requested, by a tenth of its lifetime within these bounds. Then the
	// server does not heed timeoutSeconds, and it may have forgotten the watch.
	minGrace, maxGrace = time.Second, 30 * time.Second
)

// requests sends the requests of one Worker.
type requests struct {
	scope    scope
	reader   client.Reader
	inbox    *inbox
	knows    func(namespace, name []byte) bool // whether the index has an object of a name
	buffered func() bool                       // whether events may wait for the caller: see client.Hints
	watch    *connection                       // nil while no watch is open
	early    *attempt                          // to open watch; nil unless connectEarly has made it
	ahead    *pageAhead                        // nil if no page is read ahead
	pages    pageSizes
}

// scope is what requests are about, and who hears of them.
type scope struct {
	target    *Target
	namespace string
	log       logger
}

// list reads the page of a token. It returns how long the request took.
func (r *requests) list(ctx context.Context, token string, timeout time.Duration) (protocol.Input, time.Duration) {
	a, ok := r.takePageAhead()
	if !ok {
		a = r.requestPage(ctx, r.page(token), timeout)
	}
	f := failure(a.err)
	if r.pages.resize(r.scope.target.Requests.PageSize, a.err) {
		f.Class = protocol.Transient
	}
	objects := 0
	var in protocol.Input = protocol.Failed{Cause: f}
	if a.err == nil {
		in = r.receivePage(a.list)
		objects = len(r.inbox.page)
	}
	r.scope.done(Request{Verb: "list", Continued: token != "", Objects: objects, Duration: a.took}, in)
	return in, a.took
}

// page returns the options to request the page of a token.
func (r *requests) page(token string) metav1.ListOptions {
	return metav1.ListOptions{Limit: int64(cmp.Or(r.pages.size, r.scope.target.Requests.PageSize)), Continue: token}
}

// probe lists one object, for the resourceVersion of the list, or a page of a whole list, to see that the server can.
func (r *requests) probe(
	ctx context.Context, s protocol.Probing, timeout time.Duration,
) (protocol.Input, time.Duration) {
	o := metav1.ListOptions{Limit: probeLimit}
	if s.Whole() {
		o = r.page(s.Token())
	}
	a := r.requestPage(ctx, o, timeout)
	var in protocol.Input = protocol.Failed{Cause: failure(a.err)}
	switch {
	case a.err != nil:
	case s.Whole():
		in = r.receivePage(a.list)
	default:
		in = protocol.Page{Version: a.list.GetResourceVersion(), Token: a.list.GetContinue()}
	}
	r.scope.done(Request{Verb: "probe", Continued: o.Continue != "", Duration: a.took}, in)
	return in, a.took
}

// requestPage requests a list without a resourceVersion: only the newest state is certain not to be older than what was
// delivered. It changes nothing in r, because readPageAhead calls it from another goroutine.
func (r *requests) requestPage(ctx context.Context, o metav1.ListOptions, timeout time.Duration) answer {
	began := time.Now()
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, client.ErrNoAnswer)
	defer cancel()
	o.LabelSelector, o.FieldSelector = r.scope.target.LabelSelector, r.scope.target.FieldSelector
	r.scope.log.log(ctx, slog.LevelDebug, "listing", "limit", o.Limit, "continue", o.Continue != "")
	list, err := r.reader.List(ctx, o, r.hints())
	switch {
	case err != nil && ctx.Err() != nil:
		err = context.Cause(ctx)
	case err != nil:
	case !r.scope.target.isList(list):
		err = notList(list)
	case list.GetContinue() == "" && remaining(list) > 0:
		err = fmt.Errorf("%w: a list without a continue token that lacks %d objects", errNotList, remaining(list))
	case r.scope.target.Fake && list.GetResourceVersion() == "":
		list.SetResourceVersion(fakeVersion)
	}
	if err != nil {
		err = r.scope.requestError("list", err)
	}
	return answer{list: list, err: err, took: time.Since(began)}
}

// remaining returns how many objects a list lacks, as far as it says so.
func remaining(list client.List) int64 {
	if n := list.GetRemainingItemCount(); n != nil {
		return *n
	}
	return 0
}

// receivePage puts the objects of a page into the inbox.
func (r *requests) receivePage(list client.List) protocol.Input {
	objects := make([]object, list.Len())
	page := protocol.Page{Version: list.GetResourceVersion(), Token: list.GetContinue(), Empty: len(objects) == 0}
	for i := range objects {
		var u *unstructured.Unstructured
		var raw decode.Raw
		if i < len(list.Raw) {
			raw = list.Raw[i]
		} else { // a new Unstructured: a pointer into Items would keep the whole page in memory
			u = &unstructured.Unstructured{Object: list.Items[i].Object}
		}
		o, err := r.scope.target.accept(u, raw)
		if err != nil {
			r.inbox.putPage(nil)
			return protocol.Failed{Cause: failure(r.scope.requestError("list", err))}
		}
		objects[i] = o
		page.Newest = page.Newest || o.ResourceVersion == page.Version
		page.Ahead = page.Ahead || protocol.Before(page.Version, o.ResourceVersion)
	}
	r.inbox.putPage(objects)
	if !protocol.Usable(page.Version) {
		page.NoVersion = r.scope.requestError("list", protocol.ErrNoVersion)
	}
	return page
}

// connect opens a watch: at a version, or one that begins with a snapshot.
func (r *requests) connect(
	ctx context.Context, version string, initial bool, timeout time.Duration,
) (protocol.Input, time.Duration) {
	r.pages = pageSizes{}
	if early := r.early; early != nil {
		r.early = nil
		return early.result, early.took
	}
	return r.send(ctx, version, initial, timeout)
}

// send requests a watch.
func (r *requests) send(
	ctx context.Context, version string, initial bool, timeout time.Duration,
) (protocol.Input, time.Duration) {
	t := r.scope.target
	lifetime := t.Requests.WatchLifetime
	if lifetime == 0 {
		lifetime = t.Between(minWatch, maxWatch)
	}
	lifetime = lifetime.Truncate(time.Second)
	seconds := int64(lifetime / time.Second)
	o := metav1.ListOptions{
		LabelSelector:       t.LabelSelector,
		FieldSelector:       t.FieldSelector,
		ResourceVersion:     version,
		AllowWatchBookmarks: true,
		TimeoutSeconds:      &seconds,
	}
	if initial {
		r.inbox.putPage(nil) // left by an earlier attempt
		all := true
		o.ResourceVersion, o.SendInitialEvents = "", &all
		o.ResourceVersionMatch = metav1.ResourceVersionMatchNotOlderThan
	}
	r.scope.log.log(ctx, slog.LevelDebug, "watching",
		"resourceVersion", o.ResourceVersion, "initialEvents", initial, "lifetime", lifetime)
	began := time.Now()
	in := r.open(ctx, o, lifetime, timeout)
	took := time.Since(began)
	r.scope.done(Request{Verb: "watch", ResourceVersion: o.ResourceVersion, InitialEvents: initial, Duration: took}, in)
	return in, took
}

func (r *requests) open(ctx context.Context, o metav1.ListOptions, lifetime, timeout time.Duration) protocol.Input {
	ctx, cancel := context.WithCancelCause(ctx)
	noAnswer := time.AfterFunc(timeout, func() { cancel(client.ErrNoAnswer) })
	watch, err := r.reader.Watch(ctx, o, r.hints())
	if !noAnswer.Stop() {
		if watch != nil {
			watch.Stop()
		}
		err = context.Cause(ctx)
	}
	if err != nil {
		cancel(nil)
		return protocol.Failed{Cause: failure(r.scope.requestError("watch", err))}
	}
	r.watch = &connection{
		scope: r.scope, inbox: r.inbox, watch: watch, cancel: cancel, opened: time.Now(), lifetime: lifetime,
		versionless: o.ResourceVersion == "" && o.SendInitialEvents == nil,
		end:         Request{Verb: "watch", Namespace: r.scope.namespace},
	}
	return protocol.Opened{}
}

// receive waits for the next frame of the watch, or for another Input: its end or, if nothing arrives within timeout,
// otherwise. Events that change nothing for the caller, after a version, may be skipped if skip is set.
func (r *requests) receive(
	ctx context.Context, timeout time.Duration, otherwise protocol.Input, version string, skip bool,
) (protocol.Frame, protocol.Input) {
	r.watch.skipped.allow(version, skip && r.scope.target.Hooks.FrameReceived == nil)
	if otherwise != (protocol.Silent{}) { // the watch may go on
		f, other := r.watch.receive(ctx, timeout, r.watch.watch.Pause)
		if other == (protocol.Silent{}) {
			other = otherwise
		}
		return f, other
	}
	return r.receiveOrSilent(ctx, timeout)
}

// receiveOrSilent waits for the next frame of the watch, or for its end, which is also Silent.
func (r *requests) receiveOrSilent(ctx context.Context, timeout time.Duration) (protocol.Frame, protocol.Input) {
	f, other := r.watch.receive(ctx, timeout, r.watch.watch.Wait)
	if other == (protocol.Silent{}) {
		r.watch.dead()
	}
	return f, other
}

// untilConfirmed returns how long the watch must still be silent until no error is expected because of the version at
// which it began.
func (r *requests) untilConfirmed() time.Duration { return confirmed - time.Since(r.watch.opened) }

// receiveInitial waits for the next Input of a streaming list.
func (r *requests) receiveInitial(ctx context.Context) protocol.Input {
	if r.watch.silence > streamedTimeout {
		return protocol.Silent{}
	}
	f, other := r.receiveOrSilent(ctx, markerTimeout)
	if other == nil {
		return f
	}
	return other
}

// peek puts the objects of ADDED and MODIFIED that have arrived, and were not received yet, into the inbox.
func (r *requests) peek() { r.inbox.putComing(r.watch.peekObjects()) }

// restart prepares for a run.
func (r *requests) restart() { r.pages = pageSizes{} }

// disconnect ends the watch, if one is open.
func (r *requests) disconnect() {
	r.early = nil
	if r.watch != nil {
		hook(r.scope.target.Hooks.WatchClosed, r.watch.close())
		r.watch = nil
	}
}

// hints returns what is requested from the client.
func (r *requests) hints() client.Hints {
	return client.Hints{Objects: r.scope.target.Objects, Filter: r.filter(), Buffered: r.buffered()}
}

// requestError returns the error of a request. It redacts err: every error about a request comes from here.
func (s scope) requestError(verb string, err error) error {
	if paced := (*client.RetryAfterError)(nil); errors.As(err, &paced) {
		err = &client.RetryAfterError{Err: guard.Redact(paced.Err), After: paced.After}
	} else {
		err = guard.Redact(err)
	}
	return s.target.Errors.Request(verb, s.namespace, err)
}

// done reports a request that was answered, or has failed.
func (s scope) done(r Request, in protocol.Input) {
	r.Namespace = s.namespace
	if in, ok := in.(protocol.Failed); ok {
		r.Err = in.Cause.Err
	}
	hook(s.target.Hooks.RequestDone, r)
}
