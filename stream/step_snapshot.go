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
		if behind, sure := s.isBehind(in.rv); sure {
			if s.fail {
				return stopped{&GapError{Reason: GapRewound, From: s.rv, Err: errBehind}}, nil
			}
			s.gap = &gap{GapRewound, cmp.Or(s.rv, s.floor)}
			s.forgetVersions()
		} else if behind {
			return s.again(false, errBehind), nil
		}
		out = s.begin(in.rv)
	}
	if slices.Contains(s.tokens, in.token) {
		return s.again(false, errInconsistent), nil
	}
	out = append(out, tellPage{s.told()})
	if in.token != "" {
		return listing{memory: s.memory, tokens: append(slices.Clone(s.tokens), in.token), list: in.rv}, out
	}
	out = append(out, s.end(in.rv))
	return connecting{memory: s.memory, owed: true}, out
}

func (s listing) failed(err error) state {
	if len(s.tokens) == 0 {
		switch {
		case mayNotList(err) && s.initial:
			// Who may watch but not list has streaming lists.
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
	case in.kind == addedFrame:
		if s.floor == "" || before(s.floor, in.rv) {
			s.floor = in.rv
		}
		return s, []output{tellInitial{s.told()}}
	case in.kind != markerFrame || !usable(in.rv):
		// There are no other initial events: it is a watch like any other.
		return s.unsupported(errNoMarker)
	}
	var out []output
	if behind, sure := s.isBehind(in.rv); sure {
		if s.fail {
			return stopped{&GapError{Reason: GapRewound, From: s.rv, Err: errBehind}}, nil
		}
		out = append(out, tellGap{gap{GapRewound, cmp.Or(s.rv, s.floor)}, in.rv, s.lossy || s.partial})
	} else if behind {
		return s.again(true, errBehind), nil
	}
	out = append(out, s.end(in.rv))
	s.initials = 0
	next, synced := s.tellSynced()
	return next, append(out, synced)
}

// unsupported reads a list instead, now and from now on.
func (s replaying) unsupported(cause error) (state, []output) {
	s.initial = false
	return listing{memory: s.memory}, []output{noInitial{cause}}
}

func (s replaying) closed(in closed) (state, []output) {
	if in.err != nil && isUnsupported(in.err) {
		return s.unsupported(in.err)
	}
	cause := in.err
	if cause == nil {
		cause = errClosed
	}
	s.initials++
	return s.again(s.initials < maxTries, cause), nil
}

// tellSynced: a snapshot has been told and the watch is open.
func (m memory) tellSynced() (state, output) {
	m.synced, m.current = true, true
	out := tellSynced{m.rv}
	if m.until == WhenSynced {
		return stopped{}, out
	}
	return streaming{memory: m, frames: true}, out
}
