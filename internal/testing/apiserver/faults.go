package apiserver

import (
	"io"
	"net/http"
	"slices"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// class is a set of kinds of requests, as the script names them.
type class int

const (
	classList    class = 1 << iota // the first page of a list
	classPage                      // a list with a continue token
	classProbe                     // a list with limit=1
	classWatch                     // a watch without sendInitialEvents
	classInitial                   // a watch with it
	classGet
	classWrite
	classDiscovery

	lists   = classList | classPage | classProbe
	watches = classWatch | classInitial
	anyOf   = lists | watches | classGet | classWrite | classDiscovery
)

func (q *query) class() class {
	switch {
	case q.Verb == "list" && q.Continue != "":
		return classPage
	case q.Verb == "list" && q.Limit == 1:
		return classProbe
	case q.Verb == "watch" && q.Initial():
		return classInitial
	case slices.Contains([]string{"create", "update", "patch", "delete"}, q.Verb):
		return classWrite
	}
	return classes[q.Verb] // list, watch, get, discovery
}

// classes are the words of triggers.
var classes = map[string]class{
	"list": classList, "page": classPage, "probe": classProbe, "watch": classWatch, "initial": classInitial,
	"get": classGet, "write": classWrite, "discovery": classDiscovery, "any": anyOf,
}

// fault is what happens to a request or to a frame.
type fault struct {
	faultKind
	args
	// Within a watch it happens after so many frames, or after so long.
	afterFrames int
	after       time.Duration
	line        *line // that it is from
}

// faultKind is a fault as the script language has it.
type faultKind struct {
	usage string
	on    class
	at    moment
}

// moment is when a fault happens.
type moment int

const (
	answering     moment = iota // at the beginning of the answer; it may affect all of it, and each frame of a watch
	betweenFrames               // in a watch between two frames; instead of the body of any other answer
	inFrame                     // in a watch instead of a frame or inside one; instead of the body of any other answer
)

// faultKinds are the faults of the script language. CONTRIBUTING says what else a new one needs.
var faultKinds = []faultKind{
	{"CODE", anyOf, answering},
	{"CODE plain", anyOf, answering},
	{"CODE Gone", anyOf, answering},
	{"CODE retry-after SECONDS", anyOf, answering},
	{"CODE in status SECONDS", anyOf, answering},
	{"CODE endless", anyOf, answering},
	{"switch protocols", anyOf, answering},
	{"redirect", anyOf, answering},
	{"no content type", anyOf, answering},
	{"refuse", anyOf, answering},
	{"hang", anyOf, answering},
	{"slow DURATION", anyOf, answering},
	{"stale N", lists | watches | classGet, answering},
	{"inconsistent pages", classPage, answering},
	{"token circle", classList | classPage, answering},
	{"no marker", classInitial, answering},
	{"plain marker", classInitial, answering},
	{"ignore initial", classInitial, answering},
	{"close", anyOf, betweenFrames},
	{"reset", anyOf, betweenFrames},
	{"half-open", anyOf, betweenFrames},
	{"410 in stream", watches, betweenFrames},
	{"error frame", watches, betweenFrames},
	{"error not status", watches, betweenFrames},
	{"frames after error", watches, betweenFrames},
	{"replay N", watches, betweenFrames},
	{"reset inside frame", watches, inFrame},
	{"garbage", anyOf, inFrame},
	{"endless", anyOf, inFrame},
	{"endless list", lists, inFrame},
	{"no version", watches | lists, inFrame},
	{"no name", watches | lists, inFrame},
	{"no kind", watches | lists, inFrame},
	{"unknown type", watches, inFrame},
	{"1e400", watches | lists, inFrame},
	{"invalid utf-8", watches, inFrame},
	{"huge object", watches | lists, inFrame},
	{"dense object", watches | lists, inFrame},
}

func (f *fault) is(usage string) bool { return f != nil && f.usage == usage }

// injectBefore lets the fault happen before the answer. It reports whether the request is finished.
func (c *conn) injectBefore(q *query, f *fault) bool {
	isWatch := q.Verb == "watch"
	switch {
	case f.usage == "refuse":
		c.refuse()
	case f.usage == "hang":
		c.fallSilent()
	case f.usage == "slow DURATION" && !isWatch:
		err := c.wait(f.duration)
		if err != nil {
			c.reset()
		}
		return err != nil
	case f.usage == "no content type":
		c.untyped = true
		return false
	case f.usage == "stale N":
		q.lag = f.n
		return false
	case f.code > 0:
		c.writeScripted(q, f)
	case f.usage == "switch protocols":
		c.w.Header().Set("Upgrade", "scripted")
		c.header(http.StatusSwitchingProtocols, "application/json")
		c.fallSilent()
	case f.usage == "redirect":
		c.w.Header().Set("Location", "https://other.invalid/")
		c.header(http.StatusFound, "text/plain")
	case isWatch || f.at == answering || slices.Contains(inList, f.usage):
		return false
	default:
		c.header(http.StatusOK, q.contentType())
		c.breakBody(f)
	}
	return true
}

// inList are the faults of a list that need its objects.
var inList = []string{
	"no version", "no name", "no kind", "1e400", "endless list", "huge object", "dense object",
}

// breakBody writes a broken body instead of the answer's, which has not been made yet.
func (c *conn) breakBody(f *fault) {
	switch f.usage {
	case "reset":
		c.writeHalf()
		c.reset()
	case "half-open":
		c.writeHalf()
		c.fallSilent()
	case "garbage":
		_, _ = io.WriteString(c.w, garbage)
	case "endless":
		c.writeEndless(c.query.endless(`{"kind":"`), func() string { return padding })
	case "close": // no body
	default:
		panic("streamtest: no body for the fault " + f.usage)
	}
}

// writeScripted answers with the status code of the script.
func (c *conn) writeScripted(q *query, f *fault) {
	seconds := int(f.duration / time.Second)
	if f.usage == "CODE retry-after SECONDS" {
		c.w.Header().Set("Retry-After", strconv.Itoa(seconds))
	}
	if f.usage == "CODE endless" {
		c.header(f.code, "application/json")
		c.writeEndless(`{"kind":"Status","apiVersion":"v1","message":"`, func() string { return padding })
		return
	}
	if f.usage == "CODE plain" {
		c.header(f.code, "text/plain; charset=utf-8")
		_, _ = io.WriteString(c.w, "scripted: "+http.StatusText(f.code)+"\n")
		return
	}
	resource := schema.GroupResource{Group: q.group, Resource: q.plural}
	err := apierrors.NewGenericServerResponse(f.code, q.Verb, resource, q.Name, "scripted", seconds, false)
	if f.code == http.StatusGone {
		err = apierrors.NewResourceExpired("too old resource version: " + q.ResourceVersion)
	}
	if f.usage == "CODE Gone" {
		err.ErrStatus.Reason = metav1.StatusReasonGone
	}
	c.write(f.code, statusOf(err))
}
