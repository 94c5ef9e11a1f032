package protocol

import (
	"errors"
	"time"
)

// Shorthand for the tables of the protocol.

var (
	errExpired      = failure("too old", Expired)
	errForbidden    = failure("no", Forbidden)
	errUnauthorized = failure("who are you", Unauthorized)
	errNotFound     = failure("not found", NotFound)
	errBadRequest   = failure("no such token", BadRequest)
	errInvalid      = failure("invalid", Invalid)
	errServer       = failure("boom", ServerError)
	errBusy         = Failure{errors.New("later"), Transient, 7 * time.Second}
	errConnection   = failure("connection refused", Transient)
	errUnreadable   = failure("no JSON", Unreadable)
	errNoVersion    = failure("no version", Unusable)
)

func failure(text string, class Class) Failure { return Failure{Err: errors.New(text), Class: class} }

type tweak func(*Memory)

// at is the memory of a sequence that has told SYNCED and stands at rv.
func synced(rv string, tweaks ...tweak) Memory {
	return unsynced(append([]tweak{func(m *Memory) { m.version, m.synced, m.current = rv, true, true }}, tweaks...)...)
}

// first is the memory of a sequence that has not told SYNCED yet.
func unsynced(tweaks ...tweak) Memory {
	var m Memory
	for _, t := range tweaks {
		t(&m)
	}
	return m
}

func rv(rv string) tweak      { return func(m *Memory) { m.version = rv } }
func failures(n int) tweak    { return func(m *Memory) { m.failures = n } }
func relists(n int) tweak     { return func(m *Memory) { m.relists = n } }
func empties(n int) tweak     { return func(m *Memory) { m.empty = n } }
func poisons(n int) tweak     { return func(m *Memory) { m.poison = n } }
func behinds(n int) tweak     { return func(m *Memory) { m.behind = n } }
func brokenLists(n int) tweak { return func(m *Memory) { m.brokenLists = n } }
func since(rv string) tweak   { return func(m *Memory) { m.since = rv } }
func minimum(rv string) tweak { return func(m *Memory) { m.minimum = rv } }
func untilSynced(m *Memory)   { m.rules.UntilSynced = true }
func untilClosed(m *Memory)   { m.rules.UntilClosed = true }
func begun(m *Memory)         { m.begun = true }
func failOnGap(m *Memory)     { m.rules.FailOnGap = true }
func noIndex(m *Memory)       { m.rules.NoIndex = true }
func partial(m *Memory)       { m.rules.Partial = true }
func unclean(m *Memory)       { m.rules.Unclean = true }
func quiet(m *Memory)         { m.rules.Quiet = true }
func wantStreamed(m *Memory)  { m.rules.WantStreamed = true }
func streamed(m *Memory)      { m.rules.Streamed = true }
func noProbe(m *Memory)       { m.rules.NoProbe = true }
func notCurrent(m *Memory)    { m.current = false }
func gapped(r Reason, from string) tweak {
	return func(m *Memory) { m.gap, m.current = &Gap{r, from}, false }
}
