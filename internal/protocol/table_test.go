package protocol

import (
	"errors"
	"time"
)

// Shorthand for the tables.

var (
	errExpired      = failure("too old resource version", Expired)
	errForbidden    = failure("forbidden", Forbidden)
	errUnauthorized = failure("unauthorized", Unauthorized)
	errNotFound     = failure("not found", NotFound)
	errBadRequest   = failure("no such token", BadRequest)
	errInvalid      = failure("invalid", Invalid)
	errServer       = failure("internal error", ServerError)
	errTooLarge     = Failure{Err: errors.New("too large resource version"), Class: TooLarge, RetryAfter: time.Second}
	errBusy         = Failure{Err: errors.New("too many requests"), RetryAfter: 7 * time.Second}
	errConnection   = failure("connection refused", Transient)
	errUnreadable   = failure("invalid JSON", Unreadable)
	errNoVersion    = failure("no version", Unusable)

	errGateway       = Failure{Err: errors.New("a page in HTML"), Gateway: true}
	errGateway410    = Failure{Err: errors.New("a page in HTML"), Gateway: true, Class: Expired}
	errGateway405    = Failure{Err: errors.New("a page in HTML"), Gateway: true, Class: NotAllowed}
	errGatewayLogins = Failure{Err: errors.New("a page in HTML"), Gateway: true, Class: Unauthorized}
)

func failure(text string, class Class) Failure { return Failure{Err: errors.New(text), Class: class} }

type tweak func(*Memory)

// synced is the Memory of a sequence that has emitted SYNCED and is at rv.
func synced(rv string, tweaks ...tweak) Memory {
	return unsynced(append([]tweak{func(m *Memory) { m.version, m.synced, m.current = rv, true, true }}, tweaks...)...)
}

// unsynced is the Memory of a sequence that has not emitted SYNCED yet.
func unsynced(tweaks ...tweak) Memory {
	var m Memory
	for _, t := range tweaks {
		t(&m)
	}
	return m
}

func rv(rv string) tweak        { return func(m *Memory) { m.version = rv } }
func failures(n int) tweak      { return func(m *Memory) { m.failures = n } }
func relists(n int) tweak       { return func(m *Memory) { m.relists = n } }
func empties(n int) tweak       { return func(m *Memory) { m.empty = n } }
func poisons(n int) tweak       { return func(m *Memory) { m.poison = n } }
func behinds(n int) tweak       { return func(m *Memory) { m.behind = n } }
func brokenInitial(n int) tweak { return func(m *Memory) { m.brokenInitial = n } }
func silences(n int) tweak      { return func(m *Memory) { m.silences = n } }
func since(rv string) tweak     { return func(m *Memory) { m.since = rv } }
func minimum(rv string) tweak   { return func(m *Memory) { m.minimum = rv } }
func untilSynced(m *Memory)     { m.rules.UntilSynced = true }
func untilClosed(m *Memory)     { m.rules.UntilClosed = true }
func begun(m *Memory)           { m.midSnapshot = true }
func failOnGap(m *Memory)       { m.rules.FailOnGap = true }
func partial(m *Memory)         { m.rules.Partial = true }
func unclean(m *Memory)         { m.rules.Unclean = true }
func quiet(m *Memory)           { m.rules.Quiet = true }
func wantStreamed(m *Memory)    { m.rules.WantInitialEvents = true }
func streamed(m *Memory)        { m.rules.InitialEvents = true }
func logins(n int) tweak        { return func(m *Memory) { m.refusals = n } }
func retryRefused(m *Memory)    { m.rules.RetryRefused = true }
func after(m *Memory)           { m.rules.After, m.rules.Partial = true, true }
func noProbe(m *Memory)         { m.rules.NoProbe = true }
func notCurrent(m *Memory)      { m.current = false }
func gapped(r Reason, from string) tweak {
	return func(m *Memory) { m.gap, m.current = Gap{r, from}, false }
}

// output is a part of the Outputs of a transition.
type output func(*Outputs)

func gap(r Reason, from, to string, historyLost bool) output {
	return func(o *Outputs) { o.Gap = EmitGap{Gap{r, from}, to, historyLost, r == GapRewound} }
}

func noInitialEvents(cause error) output { return func(o *Outputs) { o.NoInitialEvents = cause } }
func listed(l Listed) output             { return func(o *Outputs) { o.Listed = l } }
func entered(f Fate) output              { return listed(Listed{Fate: f, Quiet: true}) }
func begins(o *Outputs)                  { o.BeginSnapshot = true }
func retained(o *Outputs)                { o.Listed.Fate = Retain }
func gathered(o *Outputs)                { o.Listed.Fate = Gather }
func delivered(o *Outputs)               { o.Listed.Fate = Deliver }
func ends(o *Outputs)                    { o.EndSnapshot = EmitDeleted }
func forgets(o *Outputs)                 { o.EndSnapshot = OnlyForgotten }

// event is an event that is emitted if it is news.
func event(e EmitEvent) output {
	e.Emit = true
	return func(o *Outputs) { o.Event = e }
}

func reaches(as Milestone, version string) output {
	return func(o *Outputs) { o.Reached = Reached{as, version} }
}
