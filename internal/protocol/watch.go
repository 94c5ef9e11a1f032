package protocol

func (s Connecting) opened() (State, Outputs) {
	switch {
	case s.initial:
		if !s.Memory.isFresh() {
			return ReadingInitial{s.Memory, true}, Outputs{}
		}
		out := s.Memory.beginSnapshot("")
		return ReadingInitial{s.Memory, false}, out
	case s.pendingSynced:
		next, synced := s.Memory.reachSynced()
		if s, ok := next.(Streaming); ok {
			s.frames = false
			next = s
		}
		return next, Outputs{Reached: synced}
	}
	return Streaming{Memory: s.Memory}, Outputs{}
}

func (s Connecting) failed(f Failure) (State, Outputs) {
	switch {
	case s.initial && f.unsupported():
		return ReadingInitial{Memory: s.Memory}.unsupported(f.Err)
	case s.initial && f.Class == BadRequest:
		// Either the selector or sendInitialEvents is at fault. A list will show which.
		s.Memory.brokenInitial++
		s.Memory.rules.InitialEvents = false
		return Listing{Memory: s.Memory}, Outputs{}
	case s.initial && !s.Memory.synced && f.Refused():
		return Stopped{Err: f.Err}, Outputs{}
	case s.initial:
		return s.Memory.brokeOff(f), Outputs{}
	case f.Class == Expired:
		return s.Memory.relist(GapExpired, f), Outputs{}
	case !s.Memory.synced && f.Refused():
		return Stopped{Err: f.Err}, Outputs{}
	}
	s.Memory.failures++
	if f.RetryAfter > 0 || f.Refused() {
		return s.Memory.retry(f, s), Outputs{}
	}
	return s.Memory.retry(f, s.Memory.resume(s.pendingSynced, false)), Outputs{}
}

// Frame is Step for the most frequent Input, without an allocation.
func (s Streaming) Frame(in Frame) (Streaming, Outputs) {
	s.frames, s.Memory.empty = true, 0
	var out Outputs
	event := Event{Emit: in.Kind.isOfObject(), Partial: s.Memory.rules.Partial}
	switch {
	case !follows(in.Version, s.Memory.version):
		// No watch can resume at this version. So the version stays, although it is stale.
		s.unversioned = s.unversioned || event.Emit
	case NotAfter(in.Version, s.Memory.version):
		event.Replay = true
		if in.Kind.isBookmark() && in.Version == s.Memory.version {
			out.Reached = Reached{BookmarkAgain, in.Version}
		}
	default:
		s.Memory.version, s.Memory.poison, event.Version = in.Version, 0, in.Version
		if in.Kind.isBookmark() {
			out.Reached = Reached{Bookmark, in.Version}
		}
	}
	if event.Emit {
		out.Event = event
	}
	return s, out
}

func (s Streaming) fellSilent() State {
	if s.unversioned {
		return s.Memory.relist(GapUnversioned, Failure{Err: ErrSilent})
	}
	// The connection may have been healthy until now: forget the failures.
	s.Memory.failures, s.Memory.relists, s.Memory.empty, s.Memory.poison = 0, 0, 0, 0
	return s.Memory.resume(false, true)
}

func (s Streaming) closed(in Closed) State {
	switch {
	case in.After >= Healthy || in.Planned:
		s.Memory.failures, s.Memory.relists, s.Memory.empty = 0, 0, 0
	case s.frames:
		// The connection delivered something, so waits need not grow. But they must be long enough for a server that
		// closes every watch after one event: it receives a probe and a watch after each.
		s.Memory.failures, s.Memory.relists = min(s.Memory.failures, 5), min(s.Memory.relists, 5)
	}
	cause := in.Cause
	if cause.Err == nil && s.Memory.failures == 0 {
		s.Memory.poison = 0 // the unreadable event did not come again
	}
	switch {
	case cause.Class == Expired:
		return s.Memory.relist(GapExpired, cause)
	case s.Memory.rules.UntilClosed:
		return Stopped{Err: cause.Err}
	case s.unversioned:
		return s.Memory.relist(GapUnversioned, cause)
	case cause.Err == nil && in.Planned && s.frames:
		return Connecting{Memory: s.Memory}
	case cause.Err == nil && in.Planned:
		return s.Memory.resume(false, false)
	case cause.Err == nil && in.After < Healthy:
		cause.Err = errClosed
		if !s.frames {
			s.Memory.empty++
		}
		if s.Memory.empty >= maxEmpty {
			return s.Memory.relist(GapExpired, cause)
		}
	case cause.poisonous():
		s.Memory.poison++
		if s.Memory.poison >= maxPoison {
			return s.Memory.relist(GapPoison, cause)
		}
	}
	if cause.RetryAfter == 0 && in.After >= Healthy {
		return s.Memory.resume(false, false)
	}
	s.Memory.failures++
	if cause.RetryAfter > 0 {
		return s.Memory.retry(cause, Connecting{Memory: s.Memory})
	}
	return s.Memory.retry(cause, s.Memory.resume(false, false))
}

func (s Probing) page(in Page) State {
	if behind, sure := s.Memory.isBehind(in.Version); sure {
		return s.Memory.relist(GapRewound, Failure{Err: errBehind})
	} else if behind {
		return s.again(Failure{Err: errBehind})
	}
	return Connecting{Memory: s.Memory, pendingSynced: s.pendingSynced}
}

func (s Probing) failed(f Failure) State {
	switch {
	case f.mayNotList() || f.Class == Unusable:
		// Lists are forbidden or useless here: let the watch decide.
		return Connecting{Memory: s.Memory, pendingSynced: s.pendingSynced}
	case f.Class == Expired && s.Memory.failures >= maxTries:
		// The probe names no version, so a 410 proves nothing. After maxTries let the watch decide.
		return Connecting{Memory: s.Memory, pendingSynced: s.pendingSynced}
	case !s.Memory.synced && f.Refused():
		return Stopped{Err: f.Err}
	}
	return s.again(f)
}

func (s Probing) again(f Failure) State {
	s.Memory.failures++
	return s.Memory.retry(f, s)
}
