package protocol

// AppendKey appends what the future of a sequence depends on: from two States of one key the same Inputs lead to the
// same Outputs, but for the causes of failures and the numbers of attempts. It is for package explore. Each version and
// token is appended by rename, so that States that differ in these alone can have the same key.
func AppendKey(to []byte, s State, rename func(to []byte, text string) []byte) []byte {
	switch s := s.(type) {
	case Listing:
		tries, duplicates := min(s.tries, maxTries), min(s.duplicates, maxDuplicates+1)
		to = append(to, 'L', byte(tries), byte(duplicates), byte(min(s.empties, maxEmptyPages+1)),
			byte(s.holds), byte(len(s.tokens)))
		for _, token := range s.tokens {
			to = rename(to, token)
		}
		to = appendMemory(rename(to, s.listVersion), &s.Memory, rename)
	case Connecting:
		to = appendMemory(append(to, 'C', byte(s.pending), bits(s.initial)), &s.Memory, rename)
	case ReadingInitial:
		to = appendMemory(append(to, 'R', bits(s.retain)), &s.Memory, rename)
	case Streaming:
		to = rename(append(to, 'S', byte(s.pending), byte(s.past), bits(s.frames, s.unversioned)), s.began)
		to = appendMemory(to, &s.Memory, rename)
	case Probing:
		to = append(to, 'P', byte(s.pending), bits(s.stalled, s.mayCheck, s.whole), byte(len(s.tokens)))
		for _, token := range s.tokens {
			to = rename(to, token)
		}
		to = appendMemory(to, &s.Memory, rename)
	case Waiting:
		to = AppendKey(append(to, 'W'), s.next, rename)
	case Stopped:
		to = append(to, 'X', bits(s.Err != nil, s.GaveUp != GaveUp{}))
		to = rename(append(to, s.Gap.Reason...), s.Gap.From)
	}
	return to
}

// appendMemory leaves out how far a count is beyond what any rule compares it with.
func appendMemory(to []byte, m *Memory, rename func(to []byte, text string) []byte) []byte {
	r, f := &m.rules, &m.server
	to = append(to,
		bits(r.FailOnGap, r.Partial, r.Unclean, r.Quiet, r.UntilClosed, r.UntilSynced, r.After),
		bits(r.WantInitialEvents, r.InitialEvents, r.NoProbe, m.synced, m.current, m.midSnapshot, m.silent,
			r.RetryRefused),
		bits(m.reused),
		byte(min(m.failures, max(maxTries, keptFailures))), byte(min(m.relists, 1)), byte(min(m.empty, maxEmpty)),
		byte(min(m.poison, maxPoison)), byte(min(m.behind, maxBehind)), byte(min(m.brokenInitial, maxTries)),
		byte(min(m.refusals, maxBadRequests+1)),
		byte(min(m.silences, maxSilences)), byte(m.versionLacks), byte(f.suspicion),
		bits(f.versioned, f.versionless, f.ownVersion, f.sank, f.bookmarks, f.blind != nil, f.unsent),
	)
	to = append(append(to, byte(len(m.gap.Reason))), m.gap.Reason...)
	for _, version := range []string{m.version, m.gap.From, m.minimum, m.since} {
		to = rename(to, version)
	}
	return to
}

func bits(all ...bool) (b byte) {
	for i, set := range all {
		if set {
			b |= 1 << i
		}
	}
	return b
}
