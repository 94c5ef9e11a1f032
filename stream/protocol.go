package stream

import (
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// This file is the protocol: which request follows which answer, and what may
// be told when. It does no I/O, reads no clock and sees no object. A state says
// what the driver (run.go) does next; its result comes back as an input.

// state is one of listing, connecting, streaming, waiting and stopped.
type state interface{ isState() }

type (
	// listing reads the list, a page at a time. What is on the pages is told as
	// differences to the index, so a list may begin again at any point.
	listing struct {
		memory
		tokens []string // of the pages after the first; the last one is to be read
		rv     string   // of the pages read so far
		tries  int      // of this page that failed
	}
	// connecting opens a watch at rv.
	connecting struct {
		memory
		rv string
		// listed: rv is a list's, and SYNCED is told once the watch is open. Nobody
		// need hear that all is well before it is known that it can be watched. And
		// client-go's fakes remember no deletions: what a test does on SYNCED must
		// find the watch open.
		listed bool
	}
	// streaming receives events; everything up to rv has been told.
	streaming struct {
		memory
		rv          string
		frames      bool // this connection has sent something
		unversioned bool // ... without a resourceVersion, so rv is stale
	}
	// waiting lets time pass before next.
	waiting struct {
		attempt int           // 1 is the first; more wait longer
		atLeast time.Duration // as the server asked (Retry-After)
		cause   error
		next    state
	}
	// stopped is the end. err is for the caller.
	stopped struct{ err error }
)

func (listing) isState()    {}
func (connecting) isState() {}
func (streaming) isState()  {}
func (waiting) isState()    {}
func (stopped) isState()    {}

// memory is what outlives a change of state.
type memory struct {
	synced   bool // SYNCED has been told
	failures int  // since a connection last was healthy
	empty    int  // connections in a row that closed soon and without a frame
}

// input is one of page, opened, frame, closed, failed and elapsed.
type input interface{ isInput() }

type (
	// page is an answer to a list. Its rv can be watched from.
	page struct{ rv, token string }
	// opened: the server has accepted the watch.
	opened struct{}
	// frame is an event of the server about an object, or a bookmark.
	frame struct {
		bookmark bool
		rv       string
	}
	// closed: the connection has ended, so long after it was opened, with the
	// error the server sent in it, if any.
	closed struct {
		after time.Duration
		err   error
	}
	// failed: the list or the opening of the watch was answered with an error.
	failed struct{ err error }
	// elapsed: the wait is over.
	elapsed struct{}
)

func (page) isInput()    {}
func (opened) isInput()  {}
func (frame) isInput()   {}
func (closed) isInput()  {}
func (failed) isInput()  {}
func (elapsed) isInput() {}

// output is something to tell, in order.
type output interface{ isOutput() }

type (
	// tellGap begins a gap.
	tellGap struct {
		reason GapReason
		from   string
	}
	// beginList forgets which objects were seen by a list that was broken off.
	beginList struct{}
	// tellPage tells what the page has that is new or changed.
	tellPage struct{}
	// endList tells what no page had as deleted.
	endList struct{}
	// tellSynced tells that all there was at rv has been told.
	tellSynced struct{ rv string }
	// tellFrame tells the event. An old one, at or before what has been told, is a
	// replay, unless the index knows better.
	tellFrame struct{ old bool }
)

func (tellGap) isOutput()    {}
func (beginList) isOutput()  {}
func (tellPage) isOutput()   {}
func (endList) isOutput()    {}
func (tellSynced) isOutput() {}
func (tellFrame) isOutput()  {}

const (
	// healthy is how long a connection must have lasted to count as a success. A
	// server in trouble closes at once; one that is well ends watches after
	// minutes, and an impatient proxy after seconds.
	healthy = 2 * time.Second
	// maxTries is how often a page may fail before the list begins again.
	maxTries = 3
	// maxEmpty connections in a row may close soon and without a frame before the
	// version counts as expired (kubernetes/kubernetes#104171, #137089).
	maxEmpty = 3
	// maxRetryAfter bounds what a server may ask for.
	maxRetryAfter = time.Hour
)

var (
	errNoVersion    = errors.New("the server's list has no resourceVersion, so it can't be watched from")
	errInconsistent = errors.New("the pages of the list do not fit together: another resourceVersion, or a page that was read before")
	errClosed       = errors.New("the server closed the connection soon after it was opened")
)

// start is the state of a new range.
func start() state { return listing{} }

// step is the whole protocol. An input that does not fit the state is a mistake
// of the driver and ends the sequence with an error: it is never guessed at.
func step(s state, in input) (state, []output) {
	switch s := s.(type) {
	case listing:
		switch in := in.(type) {
		case page:
			return s.page(in)
		case failed:
			return s.failed(in.err), nil
		}
	case connecting:
		switch in := in.(type) {
		case opened:
			return s.opened()
		case failed:
			return s.failed(in.err)
		}
	case streaming:
		switch in := in.(type) {
		case frame:
			return s.frame(in)
		case closed:
			return s.closed(in)
		}
	case waiting:
		if _, ok := in.(elapsed); ok {
			return s.next, nil
		}
	case stopped:
		return s, nil
	}
	return stopped{fmt.Errorf("stream: no rule for %T while %T; please report this", in, s)}, nil
}

// token is that of the page to read, "" for the first.
func (s listing) token() string {
	if len(s.tokens) == 0 {
		return ""
	}
	return s.tokens[len(s.tokens)-1]
}

func (s listing) page(in page) (state, []output) {
	var out []output
	first := len(s.tokens) == 0
	if first {
		out = append(out, beginList{})
	}
	switch {
	case !first && in.rv != s.rv, slices.Contains(s.tokens, in.token):
		return s.restart(errInconsistent), nil
	case in.token != "":
		return listing{memory: s.memory, tokens: append(s.tokens, in.token), rv: in.rv}, append(out, tellPage{})
	}
	return connecting{s.memory, in.rv, true}, append(out, tellPage{}, endList{})
}

func (s listing) failed(err error) state {
	if len(s.tokens) == 0 {
		if !s.synced && isFinal(err) {
			return stopped{err}
		}
		return s.restart(err)
	}
	s.tries++
	if !s.synced && (isUnusable(err) || isFinal(err) && s.failures >= maxTries) {
		return stopped{err}
	}
	if isExpired(err) || isFinal(err) || s.tries >= maxTries {
		// The server can't or won't go on with this list. After a 410 it may offer a
		// token for the rest as it is now, but such a list holds for no version. What
		// is wrong with the token need not be wrong with the list.
		return s.restart(err)
	}
	s.failures++
	return waiting{s.failures, retryAfter(err), err, s}
}

// restart begins a list from its first page, after a wait.
func (m memory) restart(err error) state {
	m.failures++
	return waiting{m.failures, retryAfter(err), err, listing{memory: m}}
}

func (s connecting) opened() (state, []output) {
	var out []output
	if s.listed {
		s.synced = true
		out = []output{tellSynced{s.rv}}
	}
	return streaming{memory: s.memory, rv: s.rv}, out
}

func (s connecting) failed(err error) (state, []output) {
	switch {
	case isExpired(err):
		return s.relist(GapExpired, s.rv, err)
	case !s.synced && isFinal(err):
		return stopped{err}, nil
	}
	s.failures++
	return waiting{s.failures, retryAfter(err), err, s}, nil
}

func (s streaming) frame(in frame) (state, []output) {
	s.frames, s.empty = true, 0
	switch {
	case !follows(in.rv, s.rv):
		// Nothing can be resumed at that, so the cursor stays, and is stale.
		if in.bookmark {
			return s, nil
		}
		s.unversioned = true
		return s, []output{tellFrame{}}
	case notAfter(in.rv, s.rv):
		if in.bookmark {
			return s, nil
		}
		return s, []output{tellFrame{old: true}}
	}
	s.rv = in.rv
	if in.bookmark {
		return s, nil
	}
	return s, []output{tellFrame{}}
}

func (s streaming) closed(in closed) (state, []output) {
	switch {
	case in.after >= healthy:
		s.failures, s.empty = 0, 0
	case s.frames:
		// It got on, so the waits need not grow; but there must be some.
		s.failures = min(s.failures, 1)
	}
	cause := in.err
	switch {
	case isExpired(cause):
		return s.relist(GapExpired, s.rv, cause)
	case s.unversioned:
		return s.relist(GapUnversioned, s.rv, cause)
	case cause == nil && in.after >= healthy:
		return connecting{memory: s.memory, rv: s.rv}, nil
	case cause == nil:
		cause = errClosed
		if !s.frames {
			s.empty++
		}
		if s.empty >= maxEmpty {
			s.empty = 0
			return s.relist(GapExpired, s.rv, cause)
		}
	}
	s.failures++
	return waiting{s.failures, retryAfter(cause), cause, connecting{memory: s.memory, rv: s.rv}}, nil
}

// relist tells a gap and lists: at once the first time, later with a wait,
// since a version that expires before it can be watched would otherwise be a
// loop of lists.
func (m memory) relist(reason GapReason, from string, cause error) (state, []output) {
	m.failures++
	var next state = listing{memory: m}
	if m.failures > 1 {
		next = waiting{m.failures, retryAfter(cause), cause, next}
	}
	return next, []output{tellGap{reason, from}}
}

// isExpired: both reasons occur (410 Gone, and 410 Expired in ERROR events).
func isExpired(err error) bool {
	return apierrors.IsResourceExpired(err) || apierrors.IsGone(err)
}

// isFinal: before the first SYNCED these will not go away by waiting. Later
// they may: a role binding replaced, a CRD recreated, a token renewed.
func isFinal(err error) bool {
	return apierrors.IsBadRequest(err) || apierrors.IsUnauthorized(err) || apierrors.IsForbidden(err) ||
		apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err) || apierrors.IsInvalid(err) || isUnusable(err)
}

// isUnusable: the server answered, but with what can't be told and watched.
func isUnusable(err error) bool {
	return errors.Is(err, errNoVersion) || errors.Is(err, errNameless) || errors.Is(err, errNoList)
}

func retryAfter(err error) time.Duration {
	seconds, ok := apierrors.SuggestsClientDelay(err)
	if !ok || seconds <= 0 {
		return 0
	}
	return min(time.Duration(seconds)*time.Second, maxRetryAfter)
}

// notAfter says that version a is known to be b or older. Versions that can't
// be compared are trusted to come in order.
func notAfter(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order <= 0
}

// follows says whether a version is of the same sort as another: a server whose
// versions are numbers sends no "0", which would mean any version, and no words.
func follows(rv, cursor string) bool {
	return rv != "" && rv != "0" && (isNumber(rv) || !isNumber(cursor))
}

func isNumber(rv string) bool {
	_, err := resourceversion.CompareResourceVersion(rv, rv)
	return err == nil
}
