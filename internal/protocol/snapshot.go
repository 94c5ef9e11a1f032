package protocol

import "slices"

func (s Listing) page(in Page) (State, []Output) {
	var out []Output
	if len(s.tokens) > 0 {
		if in.Version != s.listVersion {
			return s.inconsistent(), nil
		}
	} else {
		if stale := s.rejectStale(in.Version, false); stale != nil {
			return stale, nil
		}
		out = s.beginSnapshot(in.Version)
		if s.silent {
			s.silent, s.rules.InitialEvents = false, false
			out = append(out, NoInitialEvents{errNoMarker})
		}
	}
	if in.Duplicate {
		s.duplicates++
	} else {
		s.duplicates = 0
	}
	if slices.Contains(s.tokens, in.Token) {
		return s.inconsistent(), nil
	}
	out = append(out, EmitPage{s.mode()})
	if in.Token != "" {
		next := Listing{Memory: s.Memory, tokens: append(slices.Clip(s.tokens), in.Token), listVersion: in.Version,
			duplicates: s.duplicates}
		if s.duplicates > maxDuplicates {
			return Waiting{s.duplicates - maxDuplicates, Failure{Err: errDuplicate}, next}, out
		}
		return next, out
	}
	out = append(out, s.endSnapshot(in.Version))
	return Connecting{Memory: s.Memory, pendingSynced: true}, out
}

// inconsistent begins the list again. Several of its pages count as several failures: the wait has to make up for the
// requests.
func (s Listing) inconsistent() State {
	s.failures += min(len(s.tokens), maxTries)
	return s.restart(false, Failure{Err: errInconsistent})
}

// rejectStale returns the State that follows if a snapshot must not be used because it is older than what was
// delivered. It returns nil if the snapshot can be used: either it is not older, or the server has gone back in time,
// which is a gap. With FailOnGap that gap ends the sequence.
func (m *Memory) rejectStale(version string, streamed bool) State {
	behind, sure := m.isBehind(version)
	switch {
	case sure && m.rules.Quiet: // nothing was delivered
		m.forgetVersions()
	case sure && m.rules.FailOnGap:
		return Stopped{Gap: &Gap{GapRewound, m.lastKnown()}, Err: errBehind}
	case sure:
		m.gap = &Gap{GapRewound, m.lastKnown()}
		m.forgetVersions()
	case behind:
		return m.restart(streamed, Failure{Err: errBehind})
	}
	return nil
}

func (s Listing) failed(f Failure) State {
	if len(s.tokens) == 0 {
		switch {
		case f.mayNotList() && s.rules.InitialEvents && !s.silent:
			// A caller that may watch but not list can only use streaming lists. It tries one at once; if that fails,
			// there is a wait.
			return s.snapshot(true)
		case f.mayNotList() && s.rules.WantInitialEvents && (s.synced || s.brokenInitial < maxTries):
			// Streaming lists are tried even if the server seemed to lack them: while servers are upgraded, some have
			// them and some do not.
			s.rules.InitialEvents = true
			return s.restart(true, f)
		case !s.synced && f.Refused():
			return Stopped{Err: f.Err}
		}
		return s.restart(false, f)
	}
	s.tries++
	if !s.synced && (f.Class == Unusable || f.Refused() && s.failures >= maxTries) {
		return Stopped{Err: f.Err}
	}
	if f.Class == Expired || f.Refused() || s.tries >= maxTries {
		// The server can't or won't continue this list, but may serve a new one. With a 410 it may offer a token that
		// continues the list in the newest version. It is not used: such a list is not a snapshot of any version.
		return s.restart(false, f)
	}
	s.failures++
	return s.retry(f, s)
}

func (s ReadingInitial) frame(in Frame) (State, []Output) {
	switch {
	case in.Kind == AddedFrame && s.retain:
		return s, []Output{RetainInitial{}}
	case in.Kind == AddedFrame:
		if s.minimum == "" || Before(s.minimum, in.Version) {
			s.minimum = in.Version
		}
		return s, []Output{EmitInitial{s.mode()}}
	case in.Kind != MarkerFrame || !Usable(in.Version):
		// Initial events are ADDED, up to the marker. Anything else shows an ordinary watch.
		return s.unsupported(errNoMarker)
	}
	if stale := s.rejectStale(in.Version, true); stale != nil {
		return stale, nil
	}
	var out []Output
	if s.retain {
		out = append(s.beginSnapshot(in.Version), EmitPage{s.mode()})
	}
	out = append(out, s.endSnapshot(in.Version))
	s.brokenInitial, s.silent = 0, false
	next, synced := s.emitSynced()
	return next, append(out, synced)
}

// unsupported reads a list instead, now and for later snapshots.
func (s ReadingInitial) unsupported(cause error) (State, []Output) {
	s.rules.InitialEvents = false
	s.brokenInitial++
	return Listing{Memory: s.Memory}, []Output{NoInitialEvents{cause}}
}

// fellSilent reads a list instead: the marker may never come, or the server may only be slow.
func (s ReadingInitial) fellSilent() State {
	s.brokenInitial++
	s.silent = true
	return Listing{Memory: s.Memory}
}

func (s ReadingInitial) closed(in Closed) (State, []Output) {
	if in.Cause.Err == nil {
		in.Cause.Err = errClosed
	}
	if in.Cause.unsupported() {
		return s.unsupported(in.Cause.Err)
	}
	return s.brokeOff(in.Cause), nil
}

// brokeOff handles a streaming list that failed or broke off. If part of it was delivered, a paged list follows: its
// version is known before its objects are delivered.
func (m Memory) brokeOff(f Failure) State {
	m.brokenInitial++
	return m.restart(m.brokenInitial < maxTries && m.minimum == "", f)
}
