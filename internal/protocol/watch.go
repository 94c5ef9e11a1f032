package protocol

func (s Connecting) opened() (State, Outputs) {
	m := &s.Memory
	m.logins = 0
	switch {
	case s.initial:
		if !m.isFresh() {
			return ReadingInitial{s.Memory, true}, Outputs{}
		}
		out := m.beginSnapshot("")
		return ReadingInitial{s.Memory, false}, out
	case s.pendingSynced:
		next, synced := m.reachSynced()
		if s, ok := next.(Streaming); ok {
			s.frames = false
			next = s
		}
		return next, Outputs{Reached: synced}
	}
	return Streaming{Memory: s.Memory}, Outputs{}
}

func (s Connecting) failed(f Failure) (State, Outputs) {
	m := &s.Memory
	if f.Class == Expired && f.Gateway && !s.initial {
		m.empty++ // it proves as little as a watch that closes at once
	}
	switch {
	case s.initial && f.unsupported():
		return ReadingInitial{Memory: s.Memory}.unsupported(f.Err)
	case s.initial && f.Class == BadRequest:
		// Either the selector or sendInitialEvents is at fault. A list will show which.
		m.brokenInitial++
		m.rules.InitialEvents = false
		return Listing{Memory: s.Memory}, Outputs{}
	case s.initial && isFinal(m, f):
		return Stopped{Err: f.Err}, Outputs{}
	case s.initial:
		return m.brokeOff(f), Outputs{}
	case f.Class == Expired && (!f.Gateway || m.empty >= maxEmpty):
		return m.relist(GapExpired, f), Outputs{}
	case isFinal(m, f):
		return Stopped{Err: f.Err}, Outputs{}
	}
	m.failures++
	if (f.RetryAfter > 0 || f.Refused()) && f.Class != TooLarge {
		return m.retry(f, s), Outputs{}
	}
	return m.retry(f, m.resume(s.pendingSynced, false)), Outputs{}
}

// Frame is Step for the most frequent Input, without an allocation: it moves s past the Frame.
func (s *Streaming) Frame(in Frame) Outputs {
	m := &s.Memory
	s.frames, m.empty = true, 0
	var out Outputs
	event := EmitEvent{Emit: in.Kind.isOfObject(), Partial: m.rules.Partial}
	switch {
	case !follows(in.Version, m.version):
		// No watch can resume at this version. So the version stays, although it is stale.
		s.unversioned = s.unversioned || event.Emit
	case NotAfter(in.Version, m.version):
		event.Replay = true
		if in.Kind.isBookmark() && in.Version == m.version {
			out.Reached = Reached{BookmarkAgain, in.Version}
		}
	default:
		m.version, m.poison, event.Version = in.Version, 0, in.Version
		if in.Kind.isBookmark() {
			out.Reached = Reached{Bookmark, in.Version}
		}
	}
	if event.Emit {
		out.Event = event
	}
	return out
}

func (s Streaming) fellSilent() State {
	m := &s.Memory
	if s.unversioned {
		return m.relist(GapUnversioned, Failure{Err: ErrSilent})
	}
	// The connection may have been healthy until now: forget the failures.
	m.failures, m.relists, m.empty, m.poison = 0, 0, 0, 0
	return m.resume(false, true)
}

func (s Streaming) closed(in Closed) State {
	m := &s.Memory
	switch {
	case in.After >= Healthy || in.Planned:
		m.failures, m.relists, m.empty = 0, 0, 0
	case s.frames:
		// The connection delivered something, so waits need not grow. But they must be long enough for a server that
		// closes every watch after one event: it receives a probe and a watch after each.
		m.failures, m.relists = min(m.failures, keptFailures), min(m.relists, keptFailures)
	}
	cause := in.Cause
	if cause.Err == nil && m.failures == 0 {
		m.poison = 0 // the unreadable event did not come again
	}
	switch {
	case cause.Class == Expired:
		return m.relist(GapExpired, cause)
	case m.rules.UntilClosed:
		return Stopped{Err: cause.Err}
	case m.rules.NoProbe && cause.Class == Unreadable:
		return m.relist(GapPoison, cause) // it does not come again
	case s.unversioned, m.rules.NoProbe:
		return m.relist(GapUnversioned, cause)
	case cause.Err == nil && in.Planned && s.frames:
		return Connecting{Memory: s.Memory}
	case cause.Err == nil && in.Planned:
		return m.resume(false, false)
	case cause.Err == nil && in.After < Healthy:
		cause.Err = errClosed
		if !s.frames {
			m.empty++
		}
		if m.empty >= maxEmpty {
			return m.relist(GapExpired, cause)
		}
	case cause.poisonous():
		m.poison++
		if m.poison >= maxPoison {
			return m.relist(GapPoison, cause)
		}
	}
	if cause.RetryAfter == 0 && in.After >= Healthy {
		return m.resume(false, false)
	}
	m.failures++
	if cause.RetryAfter > 0 && cause.Class != TooLarge {
		return m.retry(cause, Connecting{Memory: s.Memory})
	}
	return m.retry(cause, m.resume(false, false))
}

func (s Probing) page(in Page) State {
	m := &s.Memory
	m.logins = 0
	if behind, sure := m.countBehind(in.Version); behind {
		reason, err := m.sink()
		if sure {
			return m.relist(reason, Failure{Err: err})
		}
		return s.again(Failure{Err: err})
	}
	return Connecting{Memory: s.Memory, pendingSynced: s.pendingSynced}
}

func (s Probing) failed(f Failure) State {
	m := &s.Memory
	switch {
	case f.mayNotList() || f.Class == Unusable:
		// Lists are forbidden or useless here: let the watch decide.
		return Connecting{Memory: s.Memory, pendingSynced: s.pendingSynced}
	case f.Class == Expired && m.failures >= maxTries:
		// The probe names no version, so a 410 proves nothing. After maxTries let the watch decide.
		return Connecting{Memory: s.Memory, pendingSynced: s.pendingSynced}
	case isFinal(m, f):
		return Stopped{Err: f.Err}
	}
	return s.again(f)
}

func (s Probing) again(f Failure) State {
	m := &s.Memory
	m.failures++
	return m.retry(f, s)
}
