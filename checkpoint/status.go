package checkpoint

import "time"

// Status is how far acks and commits are behind.
type Status struct {
	// Key is empty if there is no checkpoint.
	Key string
	// Unacked events have been told and not been acked, or, but within a snapshot,
	// wait for one before them that has not. The oldest was told so long ago.
	Unacked       int
	OldestUnacked time.Duration
	// Uncommitted says that acks, or what was passed, are waiting for a commit to be
	// over.
	Uncommitted bool
	// LastCommit is that of the Tracker, of any key. It is zero before the first.
	LastCommit time.Time
	// Err is a *CommitError while commits fail, else nil.
	Err error
}

// Status returns how far this sequence is behind.
func (s *Session) Status() Status {
	st := Status{Key: s.key}
	s.mu.Lock()
	st.Uncommitted = s.dirty || s.taken
	var oldest time.Time
	for _, p := range s.progress {
		st.Unacked += p.unacked
		if told, ok := p.oldest(); ok && (oldest.IsZero() || told.Before(oldest)) {
			oldest = told
		}
	}
	s.mu.Unlock()
	if !oldest.IsZero() {
		st.OldestUnacked = time.Since(oldest)
	}
	st.LastCommit, st.Err = s.tracker.state()
	return st
}
