package stream

import apierrors "k8s.io/apimachinery/pkg/api/errors"

func (s connecting) opened() (state, []output) {
	switch {
	case s.initial:
		if s.rv != "" || s.floor != "" || s.gap != nil || s.begun {
			return replaying{s.memory, true}, nil
		}
		out := s.begin("")
		return replaying{s.memory, false}, out
	case s.owed:
		next, synced := s.tellSynced()
		if s, ok := next.(streaming); ok {
			s.frames = false
			next = s
		}
		return next, []output{synced}
	}
	return streaming{memory: s.memory}, nil
}

func (s connecting) failed(err error) (state, []output) {
	switch {
	case s.initial && isUnsupported(err):
		return replaying{memory: s.memory}.unsupported(err)
	case s.initial && apierrors.IsBadRequest(err):
		// Is it the selector, or the initial events? The list will say.
		s.initials++
		return listing{memory: s.memory}, nil
	case s.initial && !s.synced && isRefusal(err):
		return stopped{err}, nil
	case s.initial:
		return s.broken(err), nil
	case isExpired(err):
		return s.relist(GapExpired, err), nil
	case !s.synced && isRefusal(err):
		return stopped{err}, nil
	}
	s.failures++
	if retryAfter(err) > 0 || isRefusal(err) {
		return waiting{s.failures, retryAfter(err), err, s}, nil
	}
	return waiting{s.failures, 0, err, s.resume(s.owed, false)}, nil
}

func (s streaming) frame(in frame) (state, []output) {
	s.frames, s.empty = true, 0
	switch {
	case !follows(in.rv, s.rv):
		// Nothing can be resumed at that, so the cursor stays, and is stale.
		if !in.kind.isOfObject() {
			return s, nil
		}
		s.unversioned = true
		return s, []output{tellFrame{partial: s.partial}}
	case notAfter(in.rv, s.rv):
		if !in.kind.isOfObject() {
			return s, nil
		}
		return s, []output{tellFrame{old: true, partial: s.partial}}
	}
	s.rv, s.poison = in.rv, 0
	if in.kind == passedFrame {
		return s, nil
	}
	if in.kind.isBookmark() {
		return s, []output{tellBookmark{in.rv}}
	}
	return s, []output{tellFrame{rv: in.rv, partial: s.partial}}
}

func (s streaming) silent() (state, []output) {
	if s.unversioned {
		return s.relist(GapUnversioned, errSilent), nil
	}
	// It was well for a while, or nobody will ever know.
	s.failures, s.relists, s.empty, s.poison = 0, 0, 0, 0
	return s.resume(false, true), nil
}

func (s streaming) closed(in closed) (state, []output) {
	switch {
	case in.after >= healthy || in.planned:
		s.failures, s.relists, s.empty = 0, 0, 0
	case s.frames:
		// It got on, so the waits need not grow; but there must be some.
		s.failures, s.relists = min(s.failures, 1), min(s.relists, 1)
	}
	cause := in.err
	if cause == nil && s.failures == 0 {
		s.poison = 0 // what could not be read has not come again
	}
	switch {
	case isExpired(cause):
		return s.relist(GapExpired, cause), nil
	case s.until == AtFirstClose:
		return stopped{cause}, nil
	case s.unversioned:
		return s.relist(GapUnversioned, cause), nil
	case cause == nil && in.planned && s.frames:
		return connecting{memory: s.memory}, nil
	case cause == nil && (in.after >= healthy || in.planned):
		return s.resume(false, false), nil
	case cause == nil:
		cause = errClosed
		if !s.frames {
			s.empty++
		}
		if s.empty >= maxEmpty {
			return s.relist(GapExpired, cause), nil
		}
	case isPoison(cause):
		s.poison++
		if s.poison >= maxPoison {
			return s.relist(GapPoison, cause), nil
		}
	}
	s.failures++
	next := s.resume(false, false)
	if retryAfter(cause) > 0 {
		next = connecting{memory: s.memory}
	}
	return waiting{s.failures, retryAfter(cause), cause, next}, nil
}

func (s probing) page(in page) (state, []output) {
	if behind, sure := s.isBehind(in.rv); sure {
		return s.relist(GapRewound, errBehind), nil
	} else if behind {
		return s.retry(errBehind), nil
	}
	if s.rv == "" {
		s.end(in.rv) // a start at now, without an index: this is all it takes
	}
	return connecting{memory: s.memory, owed: s.owed}, nil
}

func (s probing) failed(err error) state {
	switch {
	case mayNotList(err) && s.rv != "":
		// Whether the watch may go on, it will say itself.
		return connecting{memory: s.memory, owed: s.owed}
	case s.rv != "" && (isUnusable(err) || isExpired(err) && s.failures >= maxTries):
		// Of what was expired nothing was asked, so that it is tried again first.
		return connecting{memory: s.memory, owed: s.owed}
	case !s.synced && isRefusal(err):
		return stopped{err}
	}
	return s.retry(err)
}

func (s probing) retry(err error) state {
	s.failures++
	return waiting{s.failures, retryAfter(err), err, s}
}
