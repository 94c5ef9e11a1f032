package stream

import (
	"cmp"
	"slices"
)

// token is that of the page to read, "" for the first.
func (s listing) token() string {
	if len(s.tokens) == 0 {
		return ""
	}
	return s.tokens[len(s.tokens)-1]
}

func (s listing) page(in page) (state, []output) {
	var out []output
	if len(s.tokens) > 0 {
		if in.rv != s.list {
			return s.again(false, errInconsistent), nil
		}
	} else {
		if stale := s.stale(in.rv, false); stale != nil {
			return stale, nil
		}
		out = s.begin(in.rv)
		if s.suspect {
			s.suspect, s.initial = false, false
			out = append(out, noInitial{errNoMarker})
		}
	}
	if in.vacant {
		s.vacant++
	} else {
		s.vacant = 0
	}
	if slices.Contains(s.tokens, in.token) {
		return s.again(false, errInconsistent), nil
	}
	out = append(out, tellPage{s.told()})
	if in.token != "" {
		next := listing{memory: s.memory, tokens: append(s.tokens, in.token), list: in.rv, vacant: s.vacant}
		if s.vacant > maxVacant {
			return waiting{s.vacant - maxVacant, 0, errVacant, next}, out
		}
		return next, out
	}
	out = append(out, s.end(in.rv))
	return connecting{memory: s.memory, owed: true}, out
}

// stale says what to do about a snapshot that is older than what was told, if it
// is: to read another one, or to give up if that is wanted. Once the server insists
// it is told, as a gap.
func (m *memory) stale(rv string, initial bool) state {
	behind, sure := m.isBehind(rv)
	switch {
	case sure && m.quiet: // nothing was told
		m.forgetVersions()
	case sure && m.fail:
		return stopped{&GapError{Reason: GapRewound, From: cmp.Or(m.rv, m.floor), Err: errBehind}}
	case sure:
		m.gap = &gap{GapRewound, cmp.Or(m.rv, m.floor)}
		m.forgetVersions()
	case behind:
		return m.again(initial, errBehind)
	}
	return nil
}

func (s listing) failed(err error) state {
	if len(s.tokens) == 0 {
		switch {
		case mayNotList(err) && s.wanted && (s.synced || s.initials < maxTries):
			// Who may watch but not list has streaming lists, if anything: also if they
			// seemed to be missing, as they do while servers are upgraded.
			s.initial = true
			return s.again(true, err)
		case !s.synced && isRefusal(err):
			return stopped{err}
		}
		return s.again(false, err)
	}
	s.tries++
	if !s.synced && (isUnusable(err) || isRefusal(err) && s.failures >= maxTries) {
		return stopped{err}
	}
	if isExpired(err) || isRefusal(err) || s.tries >= maxTries {
		// The server can't or won't go on with this list. After a 410 it may offer a
		// token for the rest as it is now, but such a list holds for no version. What
		// is wrong with the token need not be wrong with the list.
		return s.again(false, err)
	}
	s.failures++
	return waiting{s.failures, retryAfter(err), err, s}
}

func (s replaying) frame(in frame) (state, []output) {
	switch {
	case in.kind == addedFrame && s.hold:
		return s, []output{keepInitial{}}
	case in.kind == addedFrame:
		if s.floor == "" || before(s.floor, in.rv) {
			s.floor = in.rv
		}
		return s, []output{tellInitial{s.told()}}
	case in.kind != markerFrame || !usable(in.rv):
		// There are no other initial events: it is a watch like any other.
		return s.unsupported(errNoMarker)
	}
	if stale := s.stale(in.rv, true); stale != nil {
		return stale, nil
	}
	var out []output
	if s.hold {
		out = append(s.begin(in.rv), tellPage{s.told()})
	}
	out = append(out, s.end(in.rv))
	s.initials, s.suspect = 0, false
	next, synced := s.tellSynced()
	return next, append(out, synced)
}

// unsupported reads a list instead, now and from now on.
func (s replaying) unsupported(cause error) (state, []output) {
	s.initial = false
	s.initials++
	if end := s.unrepeatable(cause); end != nil {
		return end, nil
	}
	return listing{memory: s.memory}, []output{noInitial{cause}}
}

// silent: either the marker will never come, or the server is slow. If it has
// lists, they will do.
func (s replaying) silent() state {
	if end := s.unrepeatable(errNoMarker); end != nil {
		return end
	}
	s.initials++
	s.suspect = true
	return listing{memory: s.memory}
}

func (s replaying) closed(in closed) (state, []output) {
	if in.err != nil && isUnsupported(in.err) {
		return s.unsupported(in.err)
	}
	cause := in.err
	if cause == nil {
		cause = errClosed
	}
	return s.broken(cause), nil
}

// broken: a streaming list failed or broke off. If a part of it was told, a list
// is better, since it says its version before it is told.
func (m memory) broken(err error) state {
	m.initials++
	return m.again(m.initials < maxTries && m.floor == "", err)
}

// tellSynced: a snapshot has been told and the watch is open.
func (m memory) tellSynced() (state, output) {
	m.synced, m.current, m.quiet = true, true, false
	out := tellSynced{m.rv}
	if m.until == WhenSynced {
		return stopped{}, out
	}
	return streaming{memory: m, frames: true}, out
}
