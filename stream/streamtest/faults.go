package streamtest

import (
	"io"
	"net/http"
	"slices"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gvrwatch/gvrwatch/gvr"
)

// class is a set of kinds of requests, as the script names them.
type class int

const (
	classList    class = 1 << iota // a list's first page
	classPage                      // with a continue token
	classProbe                     // limit=1
	classWatch                     // without sendInitialEvents
	classInitial                   // with it
	classGet
	classWrite
	classDiscovery

	lists   = classList | classPage | classProbe
	watches = classWatch | classInitial
	anyOf   = lists | watches | classGet | classWrite | classDiscovery
)

func (q *query) class() class {
	switch q.Verb {
	case "discovery":
		return classDiscovery
	case "watch":
		if q.SendInitialEvents {
			return classInitial
		}
		return classWatch
	case "list":
		switch {
		case q.Continue != "":
			return classPage
		case q.Limit == 1:
			return classProbe
		}
		return classList
	case "get":
		return classGet
	case "create", "update", "patch", "delete", "deletecollection":
		return classWrite
	}
	return 0
}

// fault is what shall happen to a request, or to a frame.
type fault struct {
	faultKind
	code       int                 // for "status"
	reason     metav1.StatusReason // if not the usual one
	plain      bool                // a text instead of a Status
	retryAfter time.Duration
	inStatus   bool // retryAfter is not in the header
	n          int
	duration   time.Duration

	// When in a watch it happens: after so many frames, or so long.
	afterFrames int
	after       time.Duration
}

// faultKind is a word of the script.
type faultKind struct {
	kind string
	on   class
	arg  argument
	at   moment
}

type argument int

const (
	argNone argument = iota
	argCount
	argDuration
	argStatus
)

// moment is when a fault happens.
type moment int

const (
	answering moment = iota
	betweenFrames
	inFrame // instead of one, or inside
)

// faultKinds are all of them: a name that begins with another comes first.
var faultKinds = []faultKind{
	{"status", anyOf, argStatus, answering},
	{"refuse", anyOf, argNone, answering},
	{"hang", anyOf, argNone, answering},
	{"slow", anyOf, argDuration, answering},
	{"stale", lists | watches | classGet, argCount, answering},
	{"inconsistent pages", classPage, argNone, answering},
	{"token circle", classList | classPage, argNone, answering},
	{"no marker", classInitial, argNone, answering},
	{"plain marker", classInitial, argNone, answering},
	{"ignore initial", classInitial, argNone, answering},
	{"close", anyOf, argNone, betweenFrames},
	{"reset inside frame", watches, argNone, inFrame},
	{"reset", anyOf, argNone, betweenFrames},
	{"half-open", anyOf, argNone, betweenFrames},
	{"410 in stream", watches, argNone, betweenFrames},
	{"error frame", watches, argNone, betweenFrames},
	{"error not status", watches, argNone, betweenFrames},
	{"frames after error", watches, argNone, betweenFrames},
	{"replay", watches, argCount, betweenFrames},
	{"garbage", anyOf, argNone, inFrame},
	{"no version", watches | lists, argNone, inFrame},
	{"no name", watches, argNone, inFrame},
	{"no kind", watches, argNone, inFrame},
	{"unknown type", watches, argNone, inFrame},
	{"1e400", watches, argNone, inFrame},
	{"invalid utf-8", watches, argNone, inFrame},
	{"huge frame", watches, argNone, inFrame},
}

func (f *fault) is(kind string) bool { return f != nil && f.kind == kind }
func (f *fault) spoils() bool        { return f.at == inFrame }
func (f *fault) atFrames() bool      { return f.at != answering }

// rule is a line of the script about requests.
type rule struct {
	on        class
	resources []gvr.Resource // empty: all
	namespace string         // empty: all
	from, to  int            // which of them; 0 for to: no end
	seen      int
	fault     fault
}

// faultFor counts a request in every rule that is about such, and is the fault of
// the first one whose turn it is.
func (s *Server) faultFor(q *query) *fault {
	var found *fault
	for _, r := range s.rules {
		if r.on&r.fault.on&q.class() == 0 || r.namespace != "" && r.namespace != q.Namespace || !among(r.resources, q) {
			continue
		}
		r.seen++
		if found == nil && r.seen >= r.from && (r.to == 0 || r.seen <= r.to) {
			found = &r.fault
		}
	}
	return found
}

func among(resources []gvr.Resource, q *query) bool {
	asked := gvr.Resource{GroupVersionResource: schema.GroupVersionResource{Group: q.group, Version: q.version, Resource: q.plural}}
	return len(resources) == 0 || slices.ContainsFunc(resources, sameName(asked))
}

// disturb lets the fault happen before there is an answer. It says whether that
// was all.
func (c *conn) disturb(q *query, f *fault) bool {
	isWatch := q.Verb == "watch"
	switch f.kind {
	case "status":
		c.writeScripted(q, f)
	case "refuse":
		c.refuse()
	case "hang":
		c.fallSilent()
	case "slow":
		return !isWatch && c.delayed(f.duration)
	case "stale":
		q.lag = f.n
		return false
	default:
		if isWatch || !f.atFrames() || f.is("no version") {
			return false
		}
		c.header(http.StatusOK, "application/json")
		c.breakBody(f)
	}
	return true
}

func (c *conn) delayed(d time.Duration) bool {
	err := c.wait(d)
	if err != nil {
		c.reset()
	}
	return err != nil
}

// breakBody ends the body of an answer too early, or makes it unreadable.
func (c *conn) breakBody(f *fault) {
	switch f.kind {
	case "reset":
		c.half()
		c.reset()
	case "half-open":
		c.half()
		c.fallSilent()
	case "garbage":
		_, _ = io.WriteString(c.w, "this is not JSON\n")
	}
}

// writeScripted answers with the status of the script.
func (c *conn) writeScripted(q *query, f *fault) {
	seconds := int(f.retryAfter / time.Second)
	if seconds > 0 && !f.inStatus {
		c.w.Header().Set("Retry-After", strconv.Itoa(seconds))
	}
	if f.plain {
		c.header(f.code, "text/plain; charset=utf-8")
		_, _ = io.WriteString(c.w, "scripted: "+http.StatusText(f.code)+"\n")
		return
	}
	err := apierrors.NewGenericServerResponse(f.code, q.Verb, schema.GroupResource{Group: q.group, Resource: q.plural}, q.Name, "scripted", seconds, false)
	if f.code == http.StatusGone {
		err = apierrors.NewResourceExpired("too old resource version: " + q.ResourceVersion)
	}
	if f.reason != "" {
		err.ErrStatus.Reason = f.reason
	}
	c.writeJSON(f.code, statusOf(err))
}
