package protocol

import (
	"errors"
	"testing"
)

// TestEvidence: what shows that a server breaks the rules about versions, or is blind, and what follows.
func TestEvidence(t *testing.T) {
	wrong := errors.New("it is new, and its resourceVersion is not")
	watching := func(began, version string, tweaks ...tweak) Streaming {
		tweaks = append([]tweak{ofServer(Server{versioned: true})}, tweaks...)
		return Streaming{Memory: synced(version, tweaks...), began: began, frames: true}
	}
	in := func(s Streaming, change func(*Streaming)) Streaming {
		change(&s)
		return s
	}
	twice := ofServer(Server{sank: true, ownVersion: true})
	lacks := func(m *Memory) { m.versionLacks = maxVersionLacks }
	bad := func(n int) tweak { return func(m *Memory) { m.refusals = n } }
	errBad := Failure{Err: errors.New("400"), Class: BadRequest}
	unsent := func(m *Memory) { m.server.blind, m.server.unsent = errUnsent, true }
	stale := func(m *Memory) { m.current = false }
	reused := func(o *Outputs) { o.Gap.Reused = true }
	suspect := func(why error) tweak {
		return func(m *Memory) { m.server.suspicion, m.server.evidence = suspicious, why }
	}
	checkAll(t, []transition{
		{"an event that can't be true", "a list is due, and the position stays before the event",
			watching("5", "9"), Contradicted{From: "8", Cause: wrong},
			watching("5", "9", gapped(GapUnordered, "8")).with(suspect(wrong)), nil},
		{"another one", "the GAP begins at the first",
			watching("5", "9", gapped(GapUnordered, "8")), Contradicted{From: "9", Cause: wrong},
			watching("5", "9", gapped(GapUnordered, "8")).with(suspect(wrong)), nil},
		{"an event that can't be true, FailOnGap", "a gap ends the sequence",
			watching("5", "9", failOnGap), Contradicted{From: "8", Cause: wrong},
			Stopped{Gap: Gap{GapUnordered, "8"}, Err: wrong}, nil},
		{"the list is due", "it is read, and the GAP comes with it",
			watching("5", "9", gapped(GapUnordered, "8")), Elapsed{},
			Listing{Memory: watching("5", "9", gapped(GapUnordered, "8")).Memory}, nil},
		{"the list is due, FailOnGap", "a gap ends the sequence",
			watching("5", "9", gapped(GapUnordered, "8"), failOnGap).with(suspect(errRestarts)), Elapsed{},
			Stopped{Gap: Gap{GapUnordered, "8"}, Err: errRestarts}, nil},
		{"an event while a list is due", "it is delivered, but no run may begin after it",
			watching("5", "9", gapped(GapUnordered, "8")), Frame{ChangedFrame, "10"},
			watching("5", "10", gapped(GapUnordered, "8")), []output{event(EmitEvent{})}},
		{"a bookmark while a list is due", "not everything up to it was delivered",
			watching("5", "9", gapped(GapUnordered, "8")), Frame{BookmarkFrame, "10"},
			watching("5", "10", gapped(GapUnordered, "8")), nil},

		{"ADDED from before the watch", "it may be the first of what exists",
			watching("5", "5"), Frame{AddedFrame, "3"},
			in(watching("5", "5"), func(s *Streaming) { s.past = existing }), []output{event(EmitEvent{Replay: true})}},
		{"then nothing", "that was what exists: what was deleted is not among it",
			in(watching("5", "5"), func(s *Streaming) { s.past = existing }), Continues{},
			watching("5", "5", gapped(GapUnordered, "5")).with(suspect(errRestarts)), nil},
		{"then a new event", "the same, and the position stays before that event",
			in(watching("5", "5"), func(s *Streaming) { s.past = existing }), Frame{ChangedFrame, "6"},
			watching("5", "6", gapped(GapUnordered, "5")).with(suspect(errRestarts)), []output{event(EmitEvent{})}},
		{"then MODIFIED from before the watch", "events are sent again, and nothing was missed",
			in(watching("5", "5"), func(s *Streaming) { s.past = existing }), Frame{ChangedFrame, "4"},
			in(watching("5", "5"), func(s *Streaming) { s.past = replayed }), []output{event(EmitEvent{Replay: true})}},
		{"events that were sent again, then a new one", "no evidence",
			in(watching("5", "5"), func(s *Streaming) { s.past = replayed }), Frame{ChangedFrame, "6"},
			in(watching("5", "6"), func(s *Streaming) { s.past = replayed }), []output{event(EmitEvent{Version: "6"})}},
		{"an event of this watch again", "no evidence",
			watching("5", "9"), Frame{AddedFrame, "8"},
			watching("5", "9"), []output{event(EmitEvent{Replay: true})}},

		{"a watch of a suspect server begins", "what was missed before it need not come",
			Connecting{Memory: synced("5", ofServer(Server{suspicion: 2, evidence: wrong}))}, Opened{},
			Streaming{Memory: synced("5", ofServer(Server{suspicion: 1, evidence: wrong}), func(m *Memory) {
				m.gap = Gap{GapUnordered, "5"}
			}), began: "5"}, nil},
		{"versions of a suspect server", "they prove nothing",
			Probing{Memory: synced("9", ofServer(Server{suspicion: 1}))}, Page{Version: "5"},
			Connecting{Memory: synced("9", ofServer(Server{suspicion: 1}))}, nil},
		{"the version sinks for the first time", "etcd was restored",
			Probing{Memory: synced("9", behinds(1))}, Page{Version: "5"},
			Listing{Memory: synced("", gapped(GapRewound, "9"), relists(1), ofServer(Server{sank: true}))}, nil},
		{"it sinks again", "a list may have the version of its newest object, which was deleted",
			Probing{Memory: synced("9", behinds(1), ofServer(Server{sank: true}))}, Page{Version: "5"},
			Connecting{Memory: synced("9", gapped(GapUnordered, "9"),
				ofServer(Server{sank: true, suspicion: suspicious, evidence: errSinks}))}, nil},
		{"it sinks again, and counts other changes", "etcd was restored again; the list is read when it is due",
			Probing{Memory: synced("9", behinds(1), twice)}, Page{Version: "5"},
			Connecting{Memory: synced("9", gapped(GapRewound, "9"), twice)}, nil},

		{"a list that is older than one of its objects", "its version, and those of others, prove nothing",
			Listing{Memory: unsynced()}, Page{Version: "5", Ahead: true},
			Connecting{Memory: unsynced(rv("5"), ofServer(Server{
				versioned: true, ownVersion: true, suspicion: suspicious, evidence: errAhead,
			})), pending: onceOpen}, []output{begins, delivered, ends}},
		{"a suspect server's list is older than what was delivered", "its versions prove nothing",
			Listing{Memory: synced("9", behinds(1), ofServer(Server{versioned: true, ownVersion: true, suspicion: 2}))},
			Page{Version: "5", Newest: true},
			Connecting{Memory: synced("5", suspect(errSinks), func(m *Memory) {
				m.server.versioned, m.server.ownVersion = true, true
			}), pending: onceOpen}, []output{gap(GapUnordered, "9", "5", false), begins, delivered, ends}},
		{"an empty list that is newer than what was delivered", "its version counts the deletion of the last object",
			Listing{Memory: synced("5")}, Page{Version: "9", Empty: true},
			Connecting{Memory: synced("9", ofServer(Server{versioned: true, ownVersion: true})), pending: onceOpen},
			[]output{begins, delivered, ends}},
		{"an empty list at the beginning", "it proves nothing: a server may begin at 1",
			Listing{Memory: unsynced()}, Page{Version: "1", Empty: true},
			Connecting{Memory: unsynced(rv("1"), ofServer(Server{versioned: true})), pending: onceOpen},
			[]output{begins, delivered, ends}},
		{"the last empty page without a wait", "the API permits empty pages",
			Listing{Memory: unsynced(), tokens: []string{"a"}, listVersion: "5", empties: maxEmptyPages - 1},
			Page{Version: "5", Token: "b", Empty: true},
			Listing{Memory: unsynced(begun), tokens: []string{"a", "b"}, listVersion: "5", empties: maxEmptyPages},
			[]output{delivered}},
		{"one more empty page", "a server may send them for ever",
			Listing{Memory: unsynced(), tokens: []string{"a"}, listVersion: "5", empties: maxEmptyPages},
			Page{Version: "5", Token: "b", Empty: true},
			Waiting{1, Failure{Err: errDuplicate},
				Listing{Memory: unsynced(begun), tokens: []string{"a", "b"}, listVersion: "5",
					empties: maxEmptyPages + 1}},
			[]output{delivered}},
		{"a list without a version", "one proves nothing",
			Listing{Memory: unsynced()}, Page{NoVersion: errNoVersion.Err},
			Waiting{1, errNoVersion,
				Listing{Memory: unsynced(func(m *Memory) { m.versionLacks = 1 })}}, nil},
		{"the seventh in a row", "the server has none: it is a snapshot, and the watch begins with what exists",
			Listing{Memory: unsynced(lacks)}, Page{NoVersion: errNoVersion.Err},
			Connecting{Memory: unsynced(lacks, ofServer(Server{versionless: true})), pending: onceOpen},
			[]output{begins, delivered, ends}},
		{"a list without a version from a server that has them", "no evidence: it is retried",
			Listing{Memory: synced("5", ofServer(Server{versioned: true}))}, Page{NoVersion: errNoVersion.Err},
			Waiting{1, errNoVersion,
				Listing{Memory: synced("5", ofServer(Server{versioned: true}), func(m *Memory) {
					m.versionLacks = 1
				})}}, nil},
		{"the seventh in a row from a server that had versions", "something between may take them out for a while",
			Listing{Memory: synced("", lacks, gapped(GapExpired, "5"), ofServer(Server{versioned: true}))},
			Page{NoVersion: errNoVersion.Err},
			Waiting{1, errNoVersion, Listing{Memory: synced("", lacks, failures(1), gapped(GapExpired, "5"),
				ofServer(Server{versioned: true}))}}, nil},
		{"a list without a version when a run resumes", "one proves nothing: it is retried before it is final",
			Listing{Memory: unsynced(lacks, ofServer(Server{versioned: true}))}, Page{NoVersion: errNoVersion.Err},
			Stopped{Err: errNoVersion.Err}, nil},
		{"the version sinks again, and an object of the list is older than it was",
			"the server counts from the beginning again: versions may mean other states than before",
			Listing{Memory: synced("9", behinds(1), ofServer(Server{versioned: true, sank: true}))},
			Page{Version: "5", Newest: true, Below: true},
			Connecting{Memory: synced("5", suspect(errSinks), func(m *Memory) {
				m.server.versioned, m.server.sank = true, true
			}), pending: onceOpen},
			[]output{gap(GapUnordered, "9", "5", false), reused, begins, delivered, ends}},
		{"a watch of a server without versions begins", "what was deleted since the list is not among what exists",
			Connecting{Memory: unsynced(ofServer(Server{versionless: true})), pending: onceOpen}, Opened{},
			Streaming{Memory: synced("", ofServer(Server{versionless: true}), func(m *Memory) {
				m.gap = Gap{GapUnversioned, ""}
			})}, []output{reaches(Synced, "")}},
		{"a new version of a known object on a watch without a version", "it begins with what exists",
			watching("", "", func(m *Memory) { m.server = Server{versionless: true} }), Frame{AddedFrame, "7"},
			watching("", "", func(m *Memory) { m.server, m.gap = Server{versionless: true}, Gap{GapUnversioned, ""} }),
			[]output{event(EmitEvent{Exists: true})}},
		{"the third 400 in a row to a watch", "the version may be right, and something else be wrong",
			Connecting{Memory: synced("5", bad(2))}, Failed{errBad},
			Waiting{1, errBad, Connecting{Memory: synced("5", bad(3), failures(1))}}, nil},
		{"the fourth", "a list shows which",
			Connecting{Memory: synced("5", bad(3), failures(3))}, Failed{errBad},
			Listing{Memory: synced("5", bad(4), failures(3), relists(1), gapped(GapExpired, "5"), stale)}, nil},
		{"the fifth", "the list did not help",
			Connecting{Memory: synced("9", bad(4))}, Failed{errBad},
			Waiting{1, errBad, Connecting{Memory: synced("9", bad(5), failures(1))}}, nil},
		{"400 to a watch after other failures", "it is the first one",
			Connecting{Memory: synced("5", bad(2), failures(5))}, Failed{errServer},
			Waiting{6, errServer, Probing{Memory: synced("5", failures(6))}}, nil},
		{"410 to a watch without a version", "no version has expired: it is a failure as others are",
			Connecting{Memory: synced("", ofServer(Server{versionless: true}))}, Failed{errExpired},
			Waiting{1, errExpired, Probing{Memory: synced("", failures(1), ofServer(Server{versionless: true}))}}, nil},

		{"the first silent watch", "one object shows that the server answers",
			watching("5", "5"), Silent{CheckDue: true},
			Probing{Memory: watching("5", "5", silences(1)).Memory, stalled: true}, nil},
		{"the second silent watch in a row", "all objects may be asked for",
			watching("5", "5", silences(1)), Silent{CheckDue: true},
			Probing{Memory: watching("5", "5", silences(2)).Memory, stalled: true, mayCheck: true}, nil},
		{"the version has moved on", "the watch should have said something, so a whole list is read",
			Probing{Memory: synced("5", silences(2)), mayCheck: true}, Page{Version: "9"},
			Probing{Memory: synced("5", silences(2)), mayCheck: true, whole: true}, nil},
		{"the version has not moved on, and there are no bookmarks", "nothing has happened",
			Probing{Memory: synced("5", silences(2)), mayCheck: true}, Page{Version: "5"},
			Connecting{Memory: synced("5", silences(2))}, nil},
		{"the next page of the whole list", "its objects are not kept",
			Probing{Memory: synced("5", silences(2)), whole: true}, Page{Version: "9", Token: "a"},
			Probing{Memory: synced("5", silences(2)), whole: true, tokens: []string{"a"}}, nil},
		{"a whole list that differs from what was delivered", "it is news if the next watch does not send it",
			Probing{Memory: synced("5", silences(2)), whole: true}, Page{Version: "9", Differs: true},
			Connecting{Memory: synced("5", silences(2), ofServer(Server{blind: errUnsent, unsent: true}))}, nil},
		{"one that is older than what was delivered", "it is from a replica that lags",
			Probing{Memory: synced("5", silences(2)), whole: true}, Page{Version: "4", Differs: true},
			Connecting{Memory: synced("5")}, nil},
		{"the next watch falls silent, too", "the list is read to be delivered",
			watching("5", "5", silences(2), unsent), Silent{CheckDue: true},
			Listing{Memory: watching("", "", gapped(GapUnordered, "5"), relists(1), func(m *Memory) {
				m.server.blind = errUnsent
			}).Memory}, nil},
		{"the next watch sends something", "that may be what was missing",
			watching("5", "5", silences(2), unsent), Frame{ChangedFrame, "6"},
			watching("5", "6"), []output{event(EmitEvent{Version: "6"})}},
		{"after that list the watch falls silent again", "the next list is read when a whole one is due",
			watching("9", "9", func(m *Memory) { m.server.blind = errUnsent }), Silent{},
			Probing{Memory: watching("9", "9", silences(1), func(m *Memory) { m.server.blind = errUnsent }).Memory,
				stalled: true}, nil},
		{"a server that did not send what lists show sends an event", "it sees again, however many silent watches ago",
			watching("5", "5", func(m *Memory) { m.server.blind = errUnsent }), Frame{ChangedFrame, "6"},
			watching("5", "6"), []output{event(EmitEvent{Version: "6"})}},
		{"another list comes before the next watch is silent", "it has shown the changes",
			Listing{Memory: synced("5", silences(2), unsent, gapped(GapExpired, "5"))}, Page{Version: "9"},
			Connecting{Memory: synced("9", stale, func(m *Memory) {
				m.server.blind, m.server.versioned, m.server.ownVersion = errUnsent, true, true
			}), pending: onceOpen}, []output{gap(GapExpired, "5", "9", false), begins, delivered, ends}},
		{"another list comes after one failed", "the server can send all objects",
			Listing{Memory: synced("5", silences(2), func(m *Memory) { m.server.blind = errServer.Err })},
			Page{Version: "9"},
			Connecting{Memory: synced("9", ofServer(Server{versioned: true, ownVersion: true})), pending: onceOpen},
			[]output{begins, delivered, ends}},
		{"the last page of the whole list", "the server can send all objects",
			Probing{Memory: synced("5", silences(2)), whole: true, tokens: []string{"a"}}, Page{Version: "9"},
			Connecting{Memory: synced("5")}, nil},
		{"the whole list fails", "the server is blind until a watch sends something",
			Probing{Memory: synced("5", silences(2)), whole: true}, Failed{errServer},
			Connecting{Memory: synced("5", silences(2), ofServer(Server{blind: errServer.Err}))}, nil},
		{"a blind server sends a bookmark", "it sees again",
			watching("5", "5", silences(2), func(m *Memory) { m.server.blind = errServer.Err }),
			Frame{BookmarkFrame, "5"},
			watching("5", "5", func(m *Memory) { m.server.bookmarks = true }), []output{reaches(BookmarkAgain, "5")}},

		{"a resumed watch continues", "SYNCED comes now, not when the watch was opened",
			Streaming{Memory: unsynced(rv("5")), began: "5", pending: onceContinued}, Continues{},
			Streaming{Memory: synced("5"), began: "5"}, []output{reaches(Synced, "5")}},
		{"a watch ends while a list is due, UntilClosed", "the run ends after the list",
			watching("5", "9", gapped(GapUnordered, "8"), untilClosed), Closed{Healthy, false, Failure{}},
			Probing{Memory: watching("5", "9", gapped(GapUnordered, "8"), untilClosed).Memory}, nil},
		{"a resumed watch has said what exists", "something may be missing, so SYNCED is that of the list",
			Streaming{Memory: unsynced(rv("5")), began: "5", pending: onceContinued, past: existing}, Continues{},
			Streaming{Memory: unsynced(rv("5"), gapped(GapUnordered, "5"), suspect(errRestarts)), began: "5"}, nil},
		{"a resumed watch has expired", "GAP comes first",
			Streaming{Memory: unsynced(rv("5")), began: "5", pending: onceContinued}, Closed{0, false, errExpired},
			Listing{Memory: unsynced(rv("5"), gapped(GapExpired, "5"), relists(1))}, nil},
	})
}

// TestConfirmedBy: which event shows that a resumed watch goes on where it began.
func TestConfirmedBy(t *testing.T) {
	for _, tt := range []struct {
		why  string
		s    Streaming
		in   Frame
		want bool
	}{
		{"a new event", Streaming{Memory: unsynced(rv("5")), pending: onceContinued}, Frame{AddedFrame, "6"}, true},
		{"a bookmark at the version", Streaming{Memory: unsynced(rv("5")), pending: onceContinued},
			Frame{BookmarkFrame, "5"}, true},
		{"an event from before it is evidence against that",
			Streaming{Memory: unsynced(rv("5")), pending: onceContinued},
			Frame{AddedFrame, "5"}, false},
		{"a watch that was confirmed", Streaming{Memory: synced("5")}, Frame{AddedFrame, "6"}, false},
	} {
		if got := tt.s.ConfirmedBy(tt.in); got != tt.want {
			t.Errorf("%s: got %v", tt.why, got)
		}
	}
}

func ofServer(s Server) tweak { return func(m *Memory) { m.server = s } }

// with returns s with other facts.
func (s Streaming) with(t tweak) Streaming {
	t(&s.Memory)
	return s
}
