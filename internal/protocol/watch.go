package protocol

func (s Connecting) opened() (State, []Output) {
	switch {
	case s.initial:
		if !s.isFresh() {
			return ReadingInitial{s.Memory, true}, nil
		}
		out := s.beginSnapshot("")
		return ReadingInitial{s.Memory, false}, out
	case s.pendingSynced:
		next, synced := s.emitSynced()
		if s, ok := next.(Streaming); ok {
			s.frames = false
			next = s
		}
		return next, []Output{synced}
	}
	return Streaming{Memory: s.Memory}, nil
}

func (s Connecting) failed(f Failure) (State, []Output) {
	switch {
	case s.initial && f.unsupported():
		return ReadingInitial{Memory: s.Memory}.unsupported(f.Err)
	case s.initial && f.Class == BadRequest:
		// Either the selector or sendInitialEvents is at fault. A list will show which.
		s.brokenInitial++
		s.rules.InitialEvents = false
		return Listing{Memory: s.Memory}, nil
	case s.initial && !s.synced && f.Refused():
		return Stopped{Err: f.Err}, nil
	case s.initial:
		return s.brokeOff(f), nil
	case f.Class == Expired:
		return s.relist(GapExpired, f), nil
	case !s.synced && f.Refused():
		return Stopped{Err: f.Err}, nil
	}
	s.failures++
	if f.RetryAfter > 0 || f.Refused() {
		return s.retry(f, s), nil
	}
	return s.retry(f, s.resume(s.pendingSynced, false)), nil
}

func (s Streaming) frame(in Frame) (State, []Output) {
	switch out, emits := s.Advance(in); {
	case emits:
		return s, []Output{out}
	case in.Kind.IsBookmark() && out.Version != "":
		return s, []Output{EmitBookmark{Version: out.Version}}
	case in.Kind.IsBookmark() && out.Replay && in.Version == s.version:
		return s, []Output{EmitBookmark{Version: s.version, Again: true}}
	}
	return s, nil
}

// Advance is Step for a Frame, the most frequent Input, without an allocation: it moves s past the Frame. emits says
// that the Frame is about an object; then out is the Output. Otherwise out.Version is empty unless s has moved.
func (s *Streaming) Advance(in Frame) (out EmitEvent, emits bool) {
	s.frames, s.empty, out.Partial = true, 0, s.rules.Partial
	emits = in.Kind.isOfObject()
	switch {
	case !follows(in.Version, s.version):
		// No watch can resume at this version. So s.version stays, although it is stale.
		s.unversioned = s.unversioned || emits
	case NotAfter(in.Version, s.version):
		out.Replay = true
	default:
		s.version, s.poison, out.Version = in.Version, 0, in.Version
	}
	return out, emits
}

func (s Streaming) fellSilent() (State, []Output) {
	if s.unversioned {
		return s.relist(GapUnversioned, Failure{Err: ErrSilent}), nil
	}
	// The connection may have been healthy until now: forget the failures.
	s.failures, s.relists, s.empty, s.poison = 0, 0, 0, 0
	return s.resume(false, true), nil
}

func (s Streaming) closed(in Closed) (State, []Output) {
	switch {
	case in.After >= Healthy || in.Planned:
		s.failures, s.relists, s.empty = 0, 0, 0
	case s.frames:
		// The connection delivered something, so waits need not grow. But they must be long enough for a server that
		// closes every watch after one event: it receives a probe and a watch after each.
		s.failures, s.relists = min(s.failures, 5), min(s.relists, 5)
	}
	cause := in.Cause
	if cause.Err == nil && s.failures == 0 {
		s.poison = 0 // the unreadable event did not come again
	}
	switch {
	case cause.Class == Expired:
		return s.relist(GapExpired, cause), nil
	case s.rules.UntilClosed:
		return Stopped{Err: cause.Err}, nil
	case s.unversioned:
		return s.relist(GapUnversioned, cause), nil
	case cause.Err == nil && in.Planned && s.frames:
		return Connecting{Memory: s.Memory}, nil
	case cause.Err == nil && in.Planned:
		return s.resume(false, false), nil
	case cause.Err == nil && in.After < Healthy:
		cause.Err = errClosed
		if !s.frames {
			s.empty++
		}
		if s.empty >= maxEmpty {
			return s.relist(GapExpired, cause), nil
		}
	case cause.poisonous():
		s.poison++
		if s.poison >= maxPoison {
			return s.relist(GapPoison, cause), nil
		}
	}
	if cause.RetryAfter == 0 && in.After >= Healthy {
		return s.resume(false, false), nil
	}
	s.failures++
	if cause.RetryAfter > 0 {
		return s.retry(cause, Connecting{Memory: s.Memory}), nil
	}
	return s.retry(cause, s.resume(false, false)), nil
}

func (s Probing) page(in Page) (State, []Output) {
	if behind, sure := s.isBehind(in.Version); sure {
		return s.relist(GapRewound, Failure{Err: errBehind}), nil
	} else if behind {
		return s.again(Failure{Err: errBehind}), nil
	}
	return Connecting{Memory: s.Memory, pendingSynced: s.pendingSynced}, nil
}

func (s Probing) failed(f Failure) State {
	switch {
	case f.mayNotList() || f.Class == Unusable:
		// Lists are forbidden or useless here: let the watch decide.
		return Connecting{Memory: s.Memory, pendingSynced: s.pendingSynced}
	case f.Class == Expired && s.failures >= maxTries:
		// The probe names no version, so a 410 proves nothing. After maxTries let the watch decide.
		return Connecting{Memory: s.Memory, pendingSynced: s.pendingSynced}
	case !s.synced && f.Refused():
		return Stopped{Err: f.Err}
	}
	return s.again(f)
}

func (s Probing) again(f Failure) State {
	s.failures++
	return s.retry(f, s)
}
