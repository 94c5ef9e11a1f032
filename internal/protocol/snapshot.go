package protocol

import (
	"cmp"
	"slices"
)

func (s Listing) page(in Page) (State, Outputs) {
	m := &s.Memory
	m.forgive()
	var out Outputs
	if !Usable(in.Version) {
		if !m.server.versionless && !m.rules.NoProbe && len(s.tokens) == 0 && m.versionLacks < maxVersionLacks {
			m.versionLacks++
			f := Failure{Err: in.NoVersion, Class: Unusable}
			return Waiting{max(m.failures, 1), f, Listing{Memory: s.Memory}}, Outputs{} // a few prove nothing
		}
		if m.server.versioned { // something between takes it out, for a while
			return s.failed(Failure{Err: in.NoVersion, Class: Unusable}), Outputs{}
		}
		in.Version = ""
	} else {
		m.versionLacks = 0
	}
	if len(s.tokens) > 0 {
		if in.Version != s.listVersion {
			return s.inconsistent(), Outputs{}
		}
	} else {
		if stale := m.rejectStale(in.Version, in.Below, false); stale != nil {
			return stale, Outputs{}
		}
		if in.Empty && Before(m.version, in.Version) {
			s.holds = older // the version counts the deletion of the last object, at least
		}
		m.server.versioned, m.server.versionless = in.Version != "", in.Version == ""
		out = m.beginSnapshot(in.Version)
		if m.silent {
			m.silent, m.rules.InitialEvents = false, false
			out.NoInitialEvents = errNoMarker
		}
	}
	switch {
	case in.Empty:
		s.empties++
	case in.Duplicate:
		s.duplicates++
	default:
		s.duplicates, s.empties = 0, 0
	}
	if slices.Contains(s.tokens, in.Token) {
		return s.inconsistent(), Outputs{}
	}
	out.Listed = m.listed(Deliver)
	if in.Ahead {
		m.server.suspect(errAhead)
	}
	switch {
	case in.Newest:
		s.holds = newest
	case !in.Empty:
		s.holds = max(s.holds, older)
	}
	if in.Token != "" {
		next := Listing{Memory: s.Memory, tokens: append(slices.Clip(s.tokens), in.Token), listVersion: in.Version,
			duplicates: s.duplicates, empties: s.empties, holds: s.holds}
		if more := max(s.duplicates-maxDuplicates, s.empties-maxEmptyPages); more > 0 {
			return Waiting{more, Failure{Err: errDuplicate}, next}, out
		}
		return next, out
	}
	m.server.ownVersion = m.server.ownVersion || s.holds == older && m.server.versioned
	out.EndSnapshot = m.endSnapshot(in.Version)
	return Connecting{Memory: s.Memory, pending: onceOpen}, out
}

// inconsistent begins the list again. Several of its pages count as several failures: the wait has to make up for the
// requests.
func (s Listing) inconsistent() State {
	m := &s.Memory
	m.failures += min(len(s.tokens), maxTries)
	return m.restart(false, Failure{Err: errInconsistent})
}

// rejectStale returns the State that follows if a snapshot must not be used because it is older than what was
// delivered. It returns nil if the snapshot can be used: either it is not older, or the server has gone back in time,
// which is a gap. With FailOnGap that gap ends the sequence. If it has an object in an older version than was delivered
// (below), versions may mean other states than before.
func (m *Memory) rejectStale(version string, below, streamed bool) State {
	behind, sure := m.compare(version)
	switch {
	case sure && m.rules.Quiet: // nothing was delivered
		m.forgetVersions()
	case sure && m.gap.Reason == GapUnordered:
		m.reused, m.server.sank = below || !m.server.sank, true // the first time etcd may have been restored, too
		m.forgetVersions()
	case sure:
		reason, err := m.server.sink(behind)
		if m.rules.FailOnGap {
			return Stopped{Gap: Gap{reason, cmp.Or(m.version, m.minimum)}, Err: err}
		}
		m.gap, m.behind, m.reused = Gap{reason, cmp.Or(m.version, m.minimum)}, 0, below
		m.forgetVersions()
	case behind != nil:
		return m.restart(streamed, Failure{Err: behind})
	}
	return nil
}

func (s Listing) failed(f Failure) State {
	m := &s.Memory
	if len(s.tokens) == 0 {
		switch {
		case f.refusesVerb() && m.rules.InitialEvents && !m.silent:
			// A caller that may watch but not list can only use streaming lists. It tries one at once; if that fails,
			// there is a wait.
			return m.snapshot(true)
		case f.refusesVerb() && m.rules.WantInitialEvents && (Lasts(*m) || m.brokenInitial < maxTries):
			// Streaming lists are tried even if the server seemed to lack them: while servers are upgraded, some have
			// them and some do not.
			m.rules.InitialEvents = true
			return m.restart(true, f)
		case isFinal(m, f):
			return Stopped{Err: f.Err}
		}
		return m.restart(false, f)
	}
	s.tries++
	unaccepted := f.Class == Unauthorized
	if (f.Class == Unusable || unaccepted || m.failures >= maxTries) && isFinal(m, f) {
		return Stopped{Err: f.Err}
	}
	if f.Class == Expired || f.Refused() && !unaccepted || s.tries >= maxTries {
		// The server can't or won't continue this list, but may serve a new one. With a 410 it may offer a token that
		// continues the list in the newest version. It is not used: such a list is not a snapshot of any version.
		return m.restart(false, f)
	}
	m.failures++
	return m.retry(f, s)
}

func (s ReadingInitial) frame(in Frame) (State, Outputs) {
	m := &s.Memory
	switch {
	case in.Kind == AddedFrame && s.retain:
		return s, Outputs{Listed: Listed{Fate: Retain}}
	case in.Kind == AddedFrame:
		if m.minimum == "" || Before(m.minimum, in.Version) {
			m.minimum = in.Version
		}
		listed := m.listed(Gather)
		return s, Outputs{Listed: listed}
	case in.Kind != MarkerFrame || !Usable(in.Version):
		// Initial events are ADDED, up to the marker. Anything else shows an ordinary watch. A marker without a version
		// can't be used: no version of an object, nor of a list that is read later, is that of the snapshot.
		return s.unsupported(errNoMarker)
	}
	if !s.retain && Before(in.Version, m.minimum) {
		m.server.suspect(errAhead)
		m.minimum = ""
	}
	if stale := m.rejectStale(in.Version, false, true); stale != nil {
		return stale, Outputs{}
	}
	var out Outputs
	if s.retain {
		out = m.beginSnapshot(in.Version)
	}
	out.Listed = m.listed(Deliver)
	m.server.versioned, m.server.versionless = true, false
	m.server.ownVersion = m.server.ownVersion || m.minimum != "" && m.minimum != in.Version
	out.EndSnapshot = m.endSnapshot(in.Version)
	m.brokenInitial, m.silent = 0, false
	next, synced := m.reachSynced()
	out.Reached = synced
	return next, out
}

// unsupported reads a list instead, now and for later snapshots.
func (s ReadingInitial) unsupported(cause error) (State, Outputs) {
	m := &s.Memory
	m.rules.InitialEvents = false
	m.brokenInitial++
	return Listing{Memory: s.Memory}, Outputs{NoInitialEvents: cause}
}

// fellSilent reads a list instead: the marker may never come, or the server may only be slow.
func (s ReadingInitial) fellSilent() State {
	m := &s.Memory
	m.brokenInitial++
	m.silent = true
	return Listing{Memory: s.Memory}
}

func (s ReadingInitial) closed(in Closed) (State, Outputs) {
	if in.Cause.Err == nil {
		in.Cause.Err = errClosed
	}
	if in.Cause.unsupported() {
		return s.unsupported(in.Cause.Err)
	}
	return s.Memory.brokeOff(in.Cause), Outputs{}
}

// brokeOff handles a streaming list that failed or broke off. If part of it was delivered, a paged list follows: its
// version is known before its objects are delivered.
func (m Memory) brokeOff(f Failure) State {
	m.brokenInitial++
	return m.restart(m.brokenInitial < maxTries && m.minimum == "", f)
}
