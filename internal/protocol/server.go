package protocol

// Server is what was found out about a server.
type Server struct {
	versioned   bool  // a list had a version
	versionless bool  // the last list had none: a watch begins with what exists
	ownVersion  bool  // its versions count more than the changes of the objects that are watched
	sank        bool  // it has gone back in time, or its versions do
	suspicion   int   // if positive, its versions do not prove anything: so many more watches are doubted
	evidence    error // why
	bookmarks   bool  // it sends BOOKMARK
	blind       error // why a whole list failed, or what it showed, after watches that fell silent
	unsent      bool  // it showed changes: the next watch must send them
}

// Versionless reports whether its lists have no version.
func (s Server) Versionless() bool { return s.versionless }

// Suspect reports whether its versions, of lists or of events, have proven wrong, and Evidence how.
func (s Server) Suspect() bool { return s.suspicion > 0 }

// Doubts is why a list is due or read again and again: the error of a Streaming that is doubted.
func Doubts(m *Memory) error {
	switch {
	case m.gap.Reason == GapRewound:
		return errBehind
	case m.gap.Reason == GapFuture:
		return errFuture
	case m.server.versionless || m.server.evidence == nil:
		return ErrNoVersion
	}
	return m.server.evidence
}

// Blind is why it may have more than watches send: they are silent, and a whole list fails or shows changes. It is nil
// if it does not, as far as is known.
func (s Server) Blind() error { return s.blind }

// suspect notes that its versions don't prove anything.
func (s *Server) suspect(evidence error) { s.suspicion, s.evidence = suspicious, evidence }

// sink notes that its version is lower than the one of the sequence, by an error of compare, and returns what that is a
// gap for. The first time etcd was restored, probably. So it was the next time if its version counts other changes,
// too. If not, its lists may have the version of their newest object, which is deleted now and then. Versions of a
// suspect server prove nothing.
func (s *Server) sink(behind error) (Reason, error) {
	switch {
	case behind == errFuture:
		return GapFuture, behind
	case s.suspicion == 0 && (!s.sank || s.ownVersion):
		s.sank = true
		return GapRewound, behind
	}
	s.suspect(errSinks)
	return GapUnordered, errSinks
}
