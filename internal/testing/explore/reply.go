package explore

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gvrwatch/gvrwatch/internal/protocol"
)

// reply is what a Stream receives.
type reply struct {
	kind    replyKind
	version int8  // of a page, a marker or a bookmark
	token   token // of a page
	objects []object
	change  change // of an event
	// how a watch ends:
	lasted, planned bool
	// why it ends, or a request fails:
	failed  bool
	class   protocol.Class
	gateway bool // it was no Status of an API server
	paced   bool // the server said how long to wait
}

type replyKind byte

const (
	listed replyKind = iota
	failed
	opened
	happened
	marker
	bookmark
	silent
	ends
	passes
	givesUp
	goesOn  // nothing arrives on a watch for so long that it is known to go on
	relists // a list is due, because the sequence is doubted
)

func page(version int8, next token, objects []object) reply {
	return reply{kind: listed, version: version, token: next, objects: objects}
}

func sends(c change) reply { return reply{kind: happened, change: c} }

// token continues a list of a version at the nth name. A server that repeats itself gives tokens that differ in repeat.
type token struct{ version, from, repeat int8 }

func (t token) String() string {
	if t == (token{}) {
		return ""
	}
	return fmt.Sprintf("v%d-%d-%d", t.version, t.from, t.repeat)
}

func parseToken(text string) (t token) {
	if text == "" || text[0] != 'v' {
		return t
	}
	if parts := strings.Split(text, "-"); len(parts) == 3 {
		t = token{number(parts[0][1:]), number(parts[1]), number(parts[2])}
	}
	return t
}

// begins reports whether the reply is the first part of a snapshot, which a State has requested.
func (r reply) begins(s protocol.State) bool {
	switch s := s.(type) {
	case protocol.Listing:
		return s.Token() == "" && r.kind == listed
	case protocol.Connecting:
		return s.Initial() && r.kind == opened
	}
	return false
}

// shows returns the newest version that the Stream learns of.
func (r reply) shows() int8 { return max(r.version, r.change.version) }

// input returns the Input that a Worker makes of a reply.
func (r reply) input(w *world) protocol.Input {
	switch r.kind {
	case listed:
		if p, probe := w.session.state.(protocol.Probing); probe {
			return protocol.Page{Version: text(r.version), Differs: p.Whole() && w.session.differs(r.objects)}
		}
		return w.session.page(r)
	case failed:
		return protocol.Failed{Cause: r.cause()}
	case opened:
		return protocol.Opened{}
	case happened:
		f := protocol.Frame{Kind: protocol.ChangedFrame, Version: text(r.change.version)}
		switch {
		case w.setup.fake:
			f.Version = ""
		case w.skips(r.change.object):
			f.Kind = protocol.SkippedFrame
			return f
		}
		if r.change.kind == added {
			f.Kind = protocol.AddedFrame
		}
		return f
	case marker:
		return protocol.Frame{Kind: protocol.MarkerFrame, Version: text(r.version)}
	case bookmark:
		return protocol.Frame{Kind: protocol.BookmarkFrame, Version: text(r.version)}
	case silent:
		return protocol.Silent{CheckDue: true}
	case ends:
		return r.end()
	case passes, relists:
		return protocol.Elapsed{}
	case goesOn:
		return protocol.Continues{}
	}
	return protocol.GaveUp{After: time.Minute}
}

// skips reports whether the event of an object is not decoded, because it changes nothing for the caller.
func (w *world) skips(o object) bool {
	s, ok := w.session.state.(protocol.Streaming)
	known := slices.ContainsFunc(w.session.entries, func(e entry) bool { return e.name == o.name })
	return ok && s.MaySkip() && !known && !w.session.selected(o) && protocol.Before(s.Memory.Version(), text(o.version))
}

func (r reply) end() protocol.Closed {
	c := protocol.Closed{Planned: r.planned}
	switch {
	case r.planned:
		c.After = 5 * time.Minute
	case r.lasted:
		c.After = 5 * time.Second
	}
	if r.failed {
		c.Cause = r.cause()
	}
	return c
}

// isFailure reports whether the reply has a cause.
func (r reply) isFailure() bool { return r.kind == failed || r.kind == ends && r.failed }

func (r reply) cause() protocol.Failure {
	f := protocol.Failure{Err: classErrors[r.class], Class: r.class, Gateway: r.gateway}
	if r.paced {
		f.RetryAfter = 7 * time.Second
	}
	return f
}

var classErrors = func() (all [len(codes)]error) {
	for class, code := range codes {
		all[class] = errors.New(cmp.Or(code, fmt.Sprint("class ", class)))
	}
	return all
}()

// codes are the statuses of the classes that have one.
var codes = [protocol.Unreadable + 1]string{
	protocol.Expired:        "410 Expired",
	protocol.BadRequest:     "400 BadRequest",
	protocol.Unauthorized:   "401 Unauthorized",
	protocol.Forbidden:      "403 Forbidden",
	protocol.NotFound:       "404 NotFound",
	protocol.NotAllowed:     "405 MethodNotAllowed",
	protocol.Invalid:        "422 Invalid",
	protocol.NotImplemented: "501 NotImplemented",
	protocol.ServerError:    "500 InternalError",
	protocol.Unusable:       "200 Status", // which is no list
}

// String returns a reply as a [Conversation] has it: an answer, or the frames of a watch.
func (r reply) String() string {
	switch r.kind {
	case listed, failed:
		return r.answer().text()
	case opened:
		return "opened"
	case passes:
		return "time passes"
	case givesUp:
		return "retries take too long"
	case ends:
		return strings.TrimPrefix(quoted(r.frames())+", end", ", ")
	}
	return quoted(r.frames())
}

// answer returns the answer to a request.
func (r reply) answer() Answer {
	a := Answer{Watch: r.kind == opened}
	switch {
	case r.kind == listed:
		a.Version, a.Token = text(r.version), r.token.String()
		for _, o := range r.objects {
			a.Objects = append(a.Objects, o.String())
		}
	case r.kind == failed && r.paced:
		a.Busy = true
	case r.gateway:
		a.Status, a.Gateway = cmp.Or(codes[r.class], codes[protocol.Forbidden]), true
	case r.kind == failed && r.class == protocol.Transient:
		a.Refuses = true
	case r.kind == failed:
		a.Status = codes[r.class]
	}
	return a
}

// frames returns what arrives on a watch.
func (r reply) frames() (frames []string) {
	switch r.kind {
	case happened:
		return []string{fmt.Sprint(r.change.kind, " ", r.change.object)}
	case marker:
		return []string{"MARKER @" + text(r.version)}
	case bookmark:
		return []string{"BOOKMARK @" + text(r.version)}
	case silent, relists:
		return []string{"open"}
	case goesOn:
		return []string{"wait 1100ms"}
	}
	if after := r.end().After; after > 0 {
		frames = append(frames, "wait "+after.String())
	}
	switch {
	case r.failed && r.paced:
		frames = append(frames, "ERROR 429 TooManyRequests 7")
	case r.failed && r.class == protocol.Unreadable:
		frames = append(frames, "raw no JSON\n")
	case r.failed && codes[r.class] == "":
		frames = append(frames, "lost")
	case r.failed:
		frames = append(frames, "ERROR "+codes[r.class])
	}
	return frames
}
