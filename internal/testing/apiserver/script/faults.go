package script

import (
	"slices"
	"time"
)

// class is a set of kinds of requests, as the script names them.
type class int

// ProbeLimit is the limit of the lists that are no snapshots but probes, as a Stream sends them (package sequence).
const ProbeLimit = 1

const (
	classList    class = 1 << iota // the first page of a list
	classPage                      // a list with a continue token
	classProbe                     // a list of ProbeLimit objects
	classWatch                     // a watch without sendInitialEvents
	classInitial                   // a watch with it
	classGet
	classWrite
	classDiscovery

	lists   = classList | classPage | classProbe
	watches = classWatch | classInitial
	anyOf   = lists | watches | classGet | classWrite | classDiscovery
)

func (q Request) class() class {
	switch {
	case q.Verb == "list" && q.Page:
		return classPage
	case q.Verb == "list" && q.Probe:
		return classProbe
	case q.Verb == "watch" && q.Initial:
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

// Fault is what happens to a request or to a frame. Nobody changes it.
type Fault struct {
	Usage string // as Language has it
	At    Moment
	on    class
	line  int // in Script.lines
	// The values of CODE, N, and DURATION or SECONDS.
	Code, N  int
	Duration time.Duration
	// Within a watch it happens after so many frames, or after so long.
	AfterFrames int
	After       time.Duration
}

// Is reports whether there is a fault, and it is this one.
func (f *Fault) Is(usage string) bool { return f != nil && f.Usage == usage }

// NeedsObjects reports whether the fault breaks a list or its objects, and no other answer.
func (f *Fault) NeedsObjects() bool { return f.At == InFrame && f.on&lists != 0 && f.on != anyOf }

// faultKind is a fault as the script language has it.
type faultKind struct {
	usage string
	on    class
	at    Moment
}

// Moment is when a fault happens.
type Moment int

const (
	Answering     Moment = iota // at the beginning of the answer; it may affect all of it, and each frame of a watch
	BetweenFrames               // in a watch between two frames; instead of the body of any other answer
	InFrame                     // in a watch instead of a frame or inside one; instead of the body of any other answer
)

// faultKinds are the faults of the script language. CONTRIBUTING says what else a new one needs.
var faultKinds = []faultKind{
	{"CODE", anyOf, Answering},
	{"CODE plain", anyOf, Answering},
	{"CODE Gone", anyOf, Answering},
	{"CODE retry-after SECONDS", anyOf, Answering},
	{"CODE in status SECONDS", anyOf, Answering},
	{"CODE endless", anyOf, Answering},
	{"switch protocols", anyOf, Answering},
	{"redirect", anyOf, Answering},
	{"no content type", anyOf, Answering},
	{"refuse", anyOf, Answering},
	{"hang", anyOf, Answering},
	{"slow DURATION", anyOf, Answering},
	{"stale N", lists | watches | classGet, Answering},
	{"inconsistent pages", classPage, Answering},
	{"token circle", classList | classPage, Answering},
	{"no marker", classInitial, Answering},
	{"plain marker", classInitial, Answering},
	{"ignore initial", classInitial, Answering},
	{"close", anyOf, BetweenFrames},
	{"reset", anyOf, BetweenFrames},
	{"half-open", anyOf, BetweenFrames},
	{"410 in stream", watches, BetweenFrames},
	{"error frame", watches, BetweenFrames},
	{"error not status", watches, BetweenFrames},
	{"frames after error", watches, BetweenFrames},
	{"replay N", watches, BetweenFrames},
	{"reset inside frame", watches, InFrame},
	{"garbage", anyOf, InFrame},
	{"endless", anyOf, InFrame},
	{"endless list", lists, InFrame},
	{"no version", watches | lists, InFrame},
	{"no name", watches | lists, InFrame},
	{"no kind", watches | lists, InFrame},
	{"unknown type", watches, InFrame},
	{"1e400", watches | lists, InFrame},
	{"invalid utf-8", watches, InFrame},
	{"huge object", watches | lists, InFrame},
	{"dense object", watches | lists, InFrame},
}
