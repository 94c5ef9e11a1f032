package protocol

import "slices"

func (s Connecting) opened() (State, Outputs) {
	m := &s.Memory
	m.refusals = 0
	switch {
	case s.initial:
		if !m.isFresh() {
			return ReadingInitial{s.Memory, true}, Outputs{}
		}
		out := m.beginSnapshot("")
		return ReadingInitial{s.Memory, false}, out
	case s.pending == onceOpen:
		next, synced := m.reachSynced()
		if s, ok := next.(Streaming); ok {
			s.frames = false
			s.Memory.doubtBeginning()
			next = s
		}
		return next, Outputs{Reached: synced}
	case m.server.suspicion > 0 && !m.rules.FailOnGap:
		// What was missed while no watch was open is not certain to come now.
		m.server.suspicion--
		m.doubt(GapUnordered, m.version)
	}
	m.doubtBeginning()
	return Streaming{Memory: s.Memory, began: m.version, pending: s.pending}, Outputs{}
}

// doubt makes the sequence wait for a list that shows what was missed.
func (m *Memory) doubt(reason Reason, from string) {
	if m.gap == (Gap{}) {
		m.gap = Gap{reason, from}
	}
}

// doubtBeginning doubts a watch that could not begin where the list ended, because the list had no version.
func (m *Memory) doubtBeginning() {
	if m.server.versionless && !m.rules.NoProbe {
		m.doubt(GapUnversioned, "")
	}
}

func (s Connecting) failed(f Failure) (State, Outputs) {
	m := &s.Memory
	if f.Class == Expired && f.Gateway && !s.initial {
		m.empty++ // it proves as little as a watch that closes at once
	}
	switch {
	case s.pending == onceOpen && m.rules.UntilSynced && f.refusesVerb():
		// The snapshot is complete, and what follows it is not wanted: a caller that may only list has all of it.
		next, synced := m.reachSynced()
		return next, Outputs{Reached: synced}
	case s.initial && m.rules.UntilSynced && f.Class == Forbidden && f.refusesVerb():
		// A list needs no watch. If it is refused, too, its error is that of the caller.
		m.rules.InitialEvents, m.rules.WantInitialEvents = false, false
		return Listing{Memory: s.Memory}, Outputs{}
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
	case f.Class == Expired && (!f.Gateway || m.empty >= maxEmpty) && !m.server.versionless:
		return m.relist(GapExpired, f), Outputs{}
	case isFinal(m, f):
		return Stopped{Err: f.Err}, Outputs{}
	}
	if !Lasts(*m) {
		// 401s are counted.
	} else if f.Class != BadRequest || f.Gateway {
		m.refusals = 0
	} else if m.refusals++; m.refusals == maxBadRequests {
		return m.relist(GapExpired, f), Outputs{} // it is no version of this server, or a list shows what is wrong
	}
	m.failures++
	if (f.RetryAfter > 0 || f.Refused()) && f.Class != TooLarge {
		return m.retry(f, s), Outputs{}
	}
	return m.retry(f, m.resume(s.pending)), Outputs{}
}

// Frame is Step for the most frequent Input, without an allocation: it moves s past the Frame.
func (s *Streaming) Frame(in Frame) Outputs {
	m := &s.Memory
	s.frames, m.empty = true, 0
	if m.silences > 0 || m.server.blind != nil {
		m.silences, m.server.blind, m.server.unsent = 0, nil, false
	}
	var out Outputs
	event := EmitEvent{Emit: in.Kind.isOfObject(), Partial: m.rules.Partial}
	switch {
	case m.server.versionless:
		if event.Exists = true; event.Emit {
			m.doubtBeginning()
		}
	case !follows(in.Version, m.version):
		// No watch can resume at this version. So the version stays, although it is stale.
		s.unversioned = s.unversioned || event.Emit
	case NotAfter(in.Version, m.version):
		event.Replay = true
		s.notePast(in)
		m.server.bookmarks = m.server.bookmarks || in.Kind.isBookmark()
		if in.Kind.isBookmark() && in.Version == m.version && !s.Doubted() {
			out.Reached = Reached{BookmarkAgain, in.Version}
		}
	default:
		s.judge()
		m.version, m.poison = in.Version, 0
		if s.Doubted() {
			break // no later run may begin at this version
		}
		event.Version = in.Version
		if in.Kind.isBookmark() {
			m.server.bookmarks, m.server.ownVersion = true, true
			out.Reached = Reached{Bookmark, in.Version}
		}
	}
	if event.Emit {
		out.Event = event
	}
	return out
}

// notePast notes an event that is not newer than what was delivered.
func (s *Streaming) notePast(in Frame) {
	switch {
	case !in.Kind.isOfObject() || !NotAfter(in.Version, s.began):
	case in.Kind == AddedFrame && s.past != replayed:
		s.past = existing
	default:
		s.past = replayed
	}
}

// judge doubts a watch that has said what exists, now that it has said all: what was deleted before is not among that.
func (s *Streaming) judge() {
	if s.past == existing {
		s.past = noPast
		s.Memory.current = false
		s.Memory.server.suspect(errRestarts)
		s.Memory.doubt(GapUnordered, s.Memory.version)
	}
}

func (s Streaming) fellSilent(in Silent) State {
	s.judge()
	m := &s.Memory
	if s.unversioned {
		return m.relist(GapUnversioned, Failure{Err: ErrSilent})
	}
	// The connection may have been healthy until now: forget the failures.
	m.failures, m.relists, m.empty, m.poison = 0, 0, 0, 0
	m.silences++
	if m.server.unsent {
		m.silences, m.server.unsent = 0, false
		return m.relist(GapUnordered, Failure{Err: errUnsent})
	}
	next := m.resume(s.pending)
	if p, ok := next.(Probing); ok {
		p.stalled, p.mayCheck = true, in.CheckDue && m.silences >= maxSilences
		next = p
	}
	return next
}

// contradicted doubts the sequence: its events don't come from a server that keeps the rules about versions.
func (s Streaming) contradicted(in Contradicted) State {
	m := &s.Memory
	if m.rules.FailOnGap {
		return Stopped{Gap: Gap{GapUnordered, in.From}, Err: in.Cause}
	}
	m.current = false
	m.server.suspect(in.Cause)
	m.doubt(GapUnordered, in.From)
	return s
}

// continues emits SYNCED at the version where the watch has begun, if it is pending and nothing was missed.
func (s Streaming) continues() (State, Outputs) {
	s.judge()
	if s.pending == nonePending || s.Doubted() { // the list that is due brings SYNCED
		s.pending = nonePending
		return s, Outputs{}
	}
	next, synced := s.Memory.reachSynced()
	if next, ok := next.(Streaming); ok {
		next.began, next.past, next.frames = s.began, s.past, s.frames
		return next, Outputs{Reached: synced}
	}
	return next, Outputs{Reached: synced}
}

func (s Streaming) closed(in Closed) State {
	s.judge()
	m := &s.Memory
	switch {
	case in.After >= Healthy || in.Planned:
		m.failures, m.empty = 0, 0
		if in.After >= lasting || in.Planned || !s.endsInGap(in.Cause) {
			m.relists = 0
		}
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
	case cause.Class == Expired && !m.server.versionless: // no version has expired that was not requested
		return m.relist(GapExpired, cause)
	case m.rules.UntilClosed && s.pending == nonePending && !s.Doubted():
		return Stopped{Err: cause.Err}
	case m.rules.NoProbe && cause.Class == Unreadable:
		return m.relist(GapPoison, cause) // it does not come again
	case s.unversioned, m.rules.NoProbe:
		return m.relist(GapUnversioned, cause)
	case cause.Err == nil && in.Planned && s.frames:
		return Connecting{Memory: s.Memory, pending: s.pending}
	case cause.Err == nil && in.Planned:
		return m.resume(s.pending)
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
		return m.resume(s.pending)
	}
	m.failures++
	if cause.RetryAfter > 0 && cause.Class != TooLarge {
		return m.retry(cause, Connecting{Memory: s.Memory, pending: s.pending})
	}
	return m.retry(cause, m.resume(s.pending))
}

// endsInGap reports whether a watch that ends for this cause leads to a gap, now or when it has happened several times.
func (s Streaming) endsInGap(cause Failure) bool {
	return cause.Class == Expired || cause.poisonous() || s.unversioned
}

func (s Probing) page(in Page) State {
	m := &s.Memory
	m.forgive()
	if s.whole {
		return s.checked(in)
	}
	if m.server.suspicion == 0 {
		switch behind, sure := m.compare(in.Version); {
		case sure && m.server.sank && !m.rules.FailOnGap:
			// Once more: the list that shows what was missed is read as those of any doubt, now or later.
			reason, _ := m.server.sink(behind)
			m.current, m.behind = false, 0
			m.doubt(reason, m.version)
			return s.connect()
		case sure:
			reason, err := m.server.sink(behind)
			return m.relist(reason, Failure{Err: err})
		case behind != nil:
			return s.again(Failure{Err: behind})
		}
	}
	if s.mayCheck && (m.server.bookmarks || Before(m.version, in.Version)) {
		s.whole = true
		return s
	}
	return s.connect()
}

// checked reads the next page of a whole list. After the last one the watch begins.
func (s Probing) checked(in Page) State {
	if in.Token != "" && !slices.Contains(s.tokens, in.Token) && len(s.tokens) < maxChecked {
		s.tokens = append(slices.Clip(s.tokens), in.Token)
		return s
	}
	s.Memory.silences, s.Memory.server.blind = 0, nil
	if in.Differs && !s.Memory.rules.Partial && !Before(in.Version, s.Memory.version) {
		// If the watch that begins now does not send that, either, it can't be relied on.
		s.Memory.silences, s.Memory.server.blind, s.Memory.server.unsent = maxSilences, errUnsent, true
	}
	return s.connect()
}

func (s Probing) connect() State { return Connecting{Memory: s.Memory, pending: s.pending} }

func (s Probing) failed(f Failure) State {
	m := &s.Memory
	switch {
	case s.whole:
		// One object was listed, so the server answers. The watch shows when it can send events again.
		m.server.blind = f.Err
		return s.connect()
	case f.refusesVerb() || f.Class == Unusable:
		// Lists are forbidden or useless here: let the watch decide.
		return s.connect()
	case f.Class == Expired && m.failures >= maxTries:
		// The probe names no version, so a 410 proves nothing. After maxTries let the watch decide.
		return s.connect()
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
