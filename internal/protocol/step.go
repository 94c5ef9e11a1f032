package protocol

import (
	"cmp"
	"errors"
	"fmt"
	"time"
)

const (
	// Healthy is how long a connection must have lasted to count as a success. A server in trouble closes connections
	// at once; a healthy one ends watches after minutes, an impatient proxy after seconds.
	Healthy = 2 * time.Second
	// lasting is how long a connection that ends in a gap must have lasted for that to be answered at once.
	lasting = 30 * time.Second
	// maxTries is how often a page may fail before the list begins again, and how often a streaming list may break off
	// before a paged one is tried.
	maxTries = 3
	// maxDuplicates pages in a row may hold nothing new. Before each further one there is a wait, which grows. A
	// kube-apiserver sends no such pages. A proxy that filters objects may, and so may a server that repeats its pages
	// for ever.
	maxDuplicates = 3
	// maxEmptyPages in a row may have no objects at all, which the API permits.
	maxEmptyPages = 100
	// maxEmpty connections in a row that close soon and without a frame show that the version has expired
	// (kubernetes/kubernetes#104171, #137089).
	maxEmpty = 3
	// maxPoison connections in a row that end at the same version with an unreadable event show that the event must be
	// skipped.
	maxPoison = 3
	// keptFailures is how many failures a connection that has delivered something leaves at most.
	keptFailures = 5
	// maxLogins requests in a row that are refused with 401 end a sequence before its first SYNCED. The first one does
	// not: client-go runs a credential plugin again, and reads a file with a token again, only after a 401.
	maxLogins = 3
	// maxBadRequests watches in a row that are refused with 400 lead to a list: the version may be no version of this
	// server. It is read once until a watch is opened.
	maxBadRequests = 4
	// maxBehind answers in a row that are older than what was delivered prove that the server has gone back in time. A
	// single one may come from a replica that lags.
	maxBehind = 2
	// maxSilences watches in a row that fell silent, while the version of the server moves on or BOOKMARK is due, lead
	// to a list of all objects: one that the server can't convert keeps it from sending any.
	maxSilences = 2
	// maxVersionLacks lists in a row may lack a version. After them the server is taken to have none.
	maxVersionLacks = 6
	// maxChecked bounds the pages of that list.
	maxChecked = 1000
	// suspicious is how many watches are doubted after one of the server's versions has proven wrong.
	suspicious = 3
)

var (
	errInconsistent = errors.New("inconsistent list: its pages differ in resourceVersion, or repeat a continue token")
	errDuplicate    = errors.New("the pages of the list hold nothing new")
	errClosed       = errors.New("the server closed the connection soon after it was opened")
	errBehind       = errors.New("the server answered with an older resourceVersion than before")
	errFuture       = errors.New("the server has not reached the resourceVersion to start after")
	errScope        = errors.New("the last run watched other namespaces, or the whole cluster")
	errNoMarker     = errors.New("the server did not send the bookmark that ends the initial events")
	errSinks        = errors.New("the server answered with an older resourceVersion than before, a second time: " +
		"its resourceVersions do not grow")
	errAhead    = errors.New("the server sent a list whose resourceVersion is older than one of its objects")
	errUnsent   = errors.New("a list shows changes that no watch has sent")
	errRestarts = errors.New("the server began a watch with what exists, and not after the requested resourceVersion")
	// ErrNoVersion is the cause while a sequence depends on lists without a resourceVersion.
	ErrNoVersion = errors.New("the server sent a list without a resourceVersion to watch from")
)

// ErrSilent is the cause when a watch counts as dead because nothing has arrived on it.
var ErrSilent = errors.New("the watch fell silent")

// Beginning is what is known when a sequence begins.
type Beginning struct {
	Version string // to resume at; if empty, the sequence begins with a snapshot
	Minimum string // the snapshot must not be older than this
	Begun   bool   // something was delivered, but the version to resume at is not known
	Rewound bool   // the server has gone back in time, and no GAP has reported that yet
	Moved   bool   // another scope was watched before; its versions mean nothing in this one
	From    string // if Begun or Moved: everything up to here was delivered; may be empty
}

// Start returns the first State of a sequence.
func Start(r Rules, b Beginning) State {
	m := Memory{rules: r, place: place{version: b.Version, minimum: b.Minimum, midSnapshot: b.Begun}}
	m.server.versioned = b.Version != ""
	if b.Rewound {
		m.version, m.midSnapshot = cmp.Or(m.version, m.minimum), false
		return m.relist(GapRewound, Failure{Err: errBehind})
	}
	if b.Moved {
		gap := Gap{GapScope, b.From}
		if r.FailOnGap {
			return Stopped{Gap: gap, Err: errScope}
		}
		m.midSnapshot, m.gap = false, gap
		return m.relist(GapScope, Failure{Err: errScope})
	}
	if m.midSnapshot {
		gap := Gap{GapRestarted, b.From}
		if r.FailOnGap {
			return Stopped{Gap: gap}
		}
		m.midSnapshot, m.gap = false, gap
	}
	if m.version != "" {
		return m.resume(onceContinued)
	}
	return m.snapshot(r.InitialEvents && m.isFresh())
}

// Step returns the State that follows s after an Input, and the Outputs on the way there. An Input that s does not
// expect is a mistake of the driver: it ends the sequence with an error. Neither s nor in is changed.
func Step(s State, in Input) (State, Outputs) {
	switch s := s.(type) {
	case Listing:
		switch in := in.(type) {
		case Page:
			return s.page(in)
		case Failed:
			return s.failed(in.Cause), Outputs{}
		}
	case Connecting:
		switch in := in.(type) {
		case Opened:
			return s.opened()
		case Failed:
			return s.failed(in.Cause)
		}
	case ReadingInitial:
		switch in := in.(type) {
		case Frame:
			return s.frame(in)
		case Silent:
			return s.fellSilent(), Outputs{}
		case Closed:
			return s.closed(in)
		}
	case Streaming:
		switch in := in.(type) {
		case Frame:
			out := s.Frame(in)
			return s, out
		case Silent:
			return s.fellSilent(in), Outputs{}
		case Contradicted:
			return s.contradicted(in), Outputs{}
		case Continues:
			return s.continues()
		case Elapsed:
			if s.Doubted() {
				return s.Memory.listAgain(), Outputs{}
			}
		case Closed:
			return s.closed(in), Outputs{}
		}
	case Probing:
		switch in := in.(type) {
		case Page:
			return s.page(in), Outputs{}
		case Failed:
			return s.failed(in.Cause), Outputs{}
		}
	case Waiting:
		switch in := in.(type) {
		case Elapsed:
			return s.next, Outputs{}
		case GaveUp:
			return Stopped{Err: s.Cause.Err, GaveUp: in}, Outputs{}
		}
	case Stopped:
		return s, Outputs{}
	}
	return Stopped{Err: fmt.Errorf("stream: unexpected %T in state %T: please report this bug", in, s)}, Outputs{}
}

// resume opens a watch at version, after a probe of the server where that is possible.
func (m Memory) resume(pending pendingSynced) State {
	if m.rules.NoProbe {
		return Connecting{Memory: m, pending: min(pending, onceOpen)}
	}
	return Probing{Memory: m, pending: pending}
}

// snapshot reads everything that exists, from the initial events of a watch or as a list.
func (m Memory) snapshot(streamed bool) State {
	if streamed {
		return Connecting{Memory: m, initial: true}
	}
	return Listing{Memory: m}
}

// isFresh reports whether a streaming list can be delivered while it arrives, because nothing was delivered before. If
// something was, a paged list is read instead: its version comes before its objects, so that GAP can name it, an older
// one can be refused, and each page can be delivered when it arrives. A streaming list has its version at its end, so
// all of it must be retained until then (ReadingInitial.retain). It is read nevertheless if the caller may watch
// but not list (Listing.failed).
func (m *Memory) isFresh() bool {
	return m.version == "" && m.minimum == "" && m.gap == Gap{} && !m.midSnapshot
}

// retry returns a wait, with s after it.
func (m Memory) retry(f Failure, s State) State { return Waiting{m.failures, f, s} }

// restart begins the snapshot again, after a wait.
func (m Memory) restart(streamed bool, f Failure) State {
	m.failures++
	return m.retry(f, m.snapshot(streamed))
}

// isFinal reports whether a refusal ends the sequence, and counts those with 401.
func isFinal(m *Memory, f Failure) bool {
	if Lasts(*m) || !f.Refused() {
		return false
	}
	if f.Class != Unauthorized {
		return true
	}
	m.refusals++
	return m.refusals >= maxLogins
}

// forgive forgets the 401s before an answer.
func (m *Memory) forgive() {
	if !Lasts(*m) {
		m.refusals = 0
	}
}

// relist answers a gap with a new snapshot: at once the first time, then after waits, because a version that expires
// before it can be watched would cause a loop of lists. The snapshot is a paged list (see isFresh).
func (m Memory) relist(reason Reason, cause Failure) State {
	switch {
	case m.rules.Quiet: // nothing was delivered yet, so there is no gap
	case m.rules.FailOnGap:
		return Stopped{Gap: Gap{reason, cmp.Or(m.version, m.minimum)}, Err: cause.Err}
	case m.gap == Gap{}:
		m.gap = Gap{reason, m.version}
	}
	if m.rules.Partial && reason != GapUnordered {
		m.since = m.version
	}
	if reason == GapRewound || reason == GapFuture || reason == GapUnordered {
		m.forgetVersions()
	}
	m.current, m.poison, m.empty, m.behind = false, 0, 0, 0
	m.relists++
	if m.relists == 1 {
		return Listing{Memory: m}
	}
	m.failures++
	return Waiting{max(m.relists, m.failures), cause, Listing{Memory: m}}
}

// listAgain reads a list to find what was missed while the sequence was doubted.
func (m Memory) listAgain() State {
	if m.rules.FailOnGap {
		return Stopped{Gap: m.gap, Err: Doubts(&m)}
	}
	switch {
	case m.gap.Reason == GapRewound:
		m.forgetVersions()
	case m.rules.Partial && m.gap.Reason != GapUnordered:
		m.since = m.version
	}
	return Listing{Memory: m}
}

// compare counts the answers in a row that are older than what was delivered. It returns an error if one at a version
// is, and whether there are enough to be sure that the server has gone back in time. Versions of fakes do not count. A
// version of the caller, where no watch has begun, may be made up, or of another server.
func (m *Memory) compare(version string) (behind error, sure bool) {
	if m.rules.NoProbe || !Before(version, m.version) && !Before(version, m.minimum) {
		m.behind = 0
		return nil, false
	}
	m.behind++
	if sure = m.behind >= maxBehind; m.rules.After && !m.synced {
		return errFuture, sure
	}
	return errBehind, sure
}

// forgetVersions drops all versions: a server that has gone back in time will use them again.
func (m *Memory) forgetVersions() { m.version, m.minimum, m.since = "", "", "" }

// beginSnapshot begins to deliver the snapshot of version to. If the version is not known yet, to is empty.
func (m *Memory) beginSnapshot(to string) (out Outputs) {
	if (m.gap != Gap{}) {
		reused := m.gap.Reason == GapRewound || m.reused
		out.Gap = EmitGap{m.gap, to, m.rules.Partial || m.rules.Unclean, reused}
	}
	m.gap, m.reused, m.midSnapshot = Gap{}, false, false
	if to != "" {
		m.minimum = to
	}
	out.BeginSnapshot = true
	return out
}

// listed returns what becomes of objects of the snapshot, and notes that delivery has begun.
func (m *Memory) listed(f Fate) Listed {
	m.midSnapshot = m.midSnapshot || !m.rules.Quiet
	return Listed{f, m.rules.Quiet, m.since}
}

// endSnapshot ends a snapshot: everything up to version has been delivered.
func (m *Memory) endSnapshot(version string) Ending {
	m.place = place{version: version, gap: m.gap}
	m.rules.Partial, m.rules.Unclean = false, false
	m.silences, m.server.unsent = 0, false
	if m.server.blind != errUnsent { // no watch has shown that it sends what lists show
		m.server.blind = nil
	}
	if m.rules.Quiet {
		return OnlyForgotten
	}
	return EmitDeleted
}

// reachSynced returns the SYNCED after a snapshot, once the snapshot has been delivered and the watch is open, and the
// next State.
func (m Memory) reachSynced() (State, Reached) {
	m.synced, m.current, m.rules.Quiet = true, true, false
	out := Reached{Synced, m.version}
	if m.rules.UntilSynced {
		return Stopped{}, out
	}
	return Streaming{Memory: m, began: m.version, frames: true}, out
}
