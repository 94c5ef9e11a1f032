package stream

import (
	"cmp"
	"errors"
	"fmt"
	"time"
)

const (
	// healthy is how long a connection must have lasted to count as a success. A
	// server in trouble closes at once; one that is well ends watches after
	// minutes, and an impatient proxy after seconds.
	healthy = 2 * time.Second
	// maxTries is how often a page may fail before the list begins again, and how
	// often a streaming list may break off before a paged one is tried.
	maxTries = 3
	// maxVacant pages in a row may hold nothing new before the next ones are asked for
	// more and more slowly. A kube-apiserver has no such pages; a proxy that filters
	// them may, and a server that goes round in circles.
	maxVacant = 3
	// maxEmpty connections in a row may close soon and without a frame before the
	// version counts as expired (kubernetes/kubernetes#104171, #137089).
	maxEmpty = 3
	// maxPoison connections in a row may end at the same version at what can't be
	// read, before it is gone around.
	maxPoison = 3
	// maxBehind answers in a row that are older than what was told make it certain
	// that the server has gone back in time. One may come from a replica that lags.
	maxBehind = 2
	// maxRetryAfter bounds what a server may ask for.
	maxRetryAfter = time.Hour
)

var (
	errInconsistent = errors.New("the pages of the list do not fit together: another resourceVersion, or pages that were read before")
	errVacant       = errors.New("page after page holds nothing new")
	errClosed       = errors.New("the server closed the connection soon after it was opened")
	errBehind       = errors.New("the server answered with an older resourceVersion than it did before")
	errMoved        = errors.New("the resource was watched in another scope before")
	errNoMarker     = errors.New("the server did not end its initial events with a bookmark that says so")
)

// beginning is what is known at the start of a range.
type beginning struct {
	rv    string // that it goes on at; empty: with a snapshot
	floor string // that the snapshot must not be older than
	begun bool   // a part of one was told, and nobody knows which
	// rewound: the server has gone back in time, which is still to be told.
	rewound bool
	// moved: another scope was watched before, whose versions say nothing of this one, but
	// for from: up to there nothing is missing. It may be empty.
	moved bool
	from  string
}

// start is the state of a new range.
func start(r rules, b beginning) state {
	m := memory{rules: r, rv: b.rv, floor: b.floor, begun: b.begun}
	if b.rewound {
		m.rv, m.begun = cmp.Or(m.rv, m.floor), false
		return m.relist(GapRewound, errBehind)
	}
	if b.moved {
		if m.fail {
			return stopped{&GapError{Reason: GapScope, From: b.from, Err: errMoved}}
		}
		m.begun, m.gap = false, &gap{GapScope, b.from}
		return m.relist(GapScope, errMoved)
	}
	if m.fail && m.begun {
		return stopped{&GapError{Reason: GapRestarted, From: m.floor}}
	}
	if m.begun && !m.lossy {
		m.begun, m.gap = false, &gap{GapRestarted, m.floor}
	}
	if m.rv != "" || r.quiet && r.lossy && !r.blind {
		return m.resume(true, false)
	}
	return m.snapshot(m.initial)
}

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
	case replaying:
		switch in := in.(type) {
		case frame:
			return s.frame(in)
		case silent:
			return s.silent(), nil
		case closed:
			return s.closed(in)
		}
	case streaming:
		switch in := in.(type) {
		case frame:
			return s.frame(in)
		case silent:
			return s.silent()
		case closed:
			return s.closed(in)
		}
	case probing:
		switch in := in.(type) {
		case page:
			return s.page(in)
		case failed:
			return s.failed(in.err), nil
		}
	case waiting:
		switch in := in.(type) {
		case elapsed:
			return s.next, nil
		case gaveUp:
			return stopped{&GaveUpError{After: in.after, Err: s.cause}}, nil
		}
	case stopped:
		return s, nil
	}
	return stopped{fmt.Errorf("stream: no rule for %T while %T; please report this", in, s)}, nil
}

// resume goes on at rv: with a look at the server first, where that is possible.
func (m memory) resume(owed, stalled bool) state {
	if m.blind {
		return connecting{memory: m, owed: owed}
	}
	return probing{memory: m, owed: owed, stalled: stalled}
}

// snapshot reads all there is, from the initial events of a watch or as a list.
func (m memory) snapshot(initial bool) state {
	if initial {
		return connecting{memory: m, initial: true}
	}
	return listing{memory: m}
}

// again begins the snapshot anew, after a wait.
func (m memory) again(initial bool, err error) state {
	if end := m.unrepeatable(err); end != nil {
		return end
	}
	m.failures++
	return waiting{m.failures, retryAfter(err), err, m.snapshot(initial)}
}

// unrepeatable is the end of a sequence that would rather fail than begin a
// snapshot anew of which a part was told, and nobody knows which.
func (m memory) unrepeatable(err error) state {
	if m.fail && m.lossy && m.begun {
		return stopped{&GapError{Reason: GapRestarted, From: cmp.Or(m.rv, m.floor), Err: err}}
	}
	return nil
}

// relist goes around what can't be told, with a new snapshot: at once the first
// time, later with a wait, since a version that expires before it can be watched
// would otherwise be a loop of lists. The snapshot is a list, whose version comes
// first, so that the GAP can bear it.
func (m memory) relist(reason GapReason, cause error) state {
	switch {
	case m.quiet: // nothing was told yet, so nothing is missing
	case m.fail:
		return stopped{&GapError{Reason: reason, From: cmp.Or(m.rv, m.floor), Err: cause}}
	case m.gap == nil:
		m.gap = &gap{reason, m.rv}
	}
	if m.partial {
		m.since = m.rv
	}
	if reason == GapRewound {
		m.forgetVersions()
	}
	m.current, m.poison, m.empty, m.behind = false, 0, 0, 0
	m.relists++
	if m.relists == 1 {
		return listing{memory: m}
	}
	m.failures++
	return waiting{max(m.relists, m.failures), retryAfter(cause), cause, listing{memory: m}}
}

// isBehind says whether an answer at rv is older than what was told, so that it
// must not be used, and whether that has been seen often enough to be sure.
func (m *memory) isBehind(rv string) (behind, sure bool) {
	if !before(rv, m.rv) && !before(rv, m.floor) {
		m.behind = 0
		return false, false
	}
	m.behind++
	return true, m.behind >= maxBehind
}

// forgetVersions: the server has gone back behind them, and will use them again.
func (m *memory) forgetVersions() { m.rv, m.floor, m.since = "", "", "" }

// begin begins to tell a snapshot at version to, if that is known.
func (m *memory) begin(to string) []output {
	var out []output
	switch {
	case m.gap != nil:
		out = append(out, tellGap{*m.gap, to, m.lossy || m.partial || m.unclean})
	case m.lossy && m.begun:
		out = append(out, tellGap{gap{GapRestarted, cmp.Or(m.rv, m.floor)}, to, true})
	}
	m.gap, m.begun = nil, false
	if to != "" {
		m.floor = to
	}
	return append(out, beginList{})
}

// told says how the objects of a snapshot are to be told.
func (m *memory) told() snapshot {
	m.begun = m.begun || !m.quiet
	return snapshot{m.quiet, m.since}
}

// end ends a snapshot: everything up to rv has been delivered.
func (m *memory) end(rv string) output {
	out := endList{m.quiet}
	m.rv, m.floor, m.since = rv, "", ""
	m.begun, m.partial, m.unclean = false, false, false
	return out
}
