package stream

import (
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Shorthand for the tables of the protocol.

var (
	res            = schema.GroupResource{Group: "example.com", Resource: "widgets"}
	errTooOld      = apierrors.NewResourceExpired("too old")
	errGone410     = &apierrors.StatusError{ErrStatus: metav1.Status{Code: 410, Reason: metav1.StatusReasonGone, Message: "too old"}}
	errNotYours    = apierrors.NewForbidden(res, "", errors.New("no"))
	errWho         = apierrors.NewUnauthorized("who are you")
	errNotFound    = apierrors.NewNotFound(res, "")
	errBad         = apierrors.NewBadRequest("no such token")
	errInvalid     = apierrors.NewInvalid(schema.GroupKind{}, "", nil)
	errServer      = apierrors.NewInternalError(errors.New("boom"))
	errBusy        = apierrors.NewTooManyRequests("later", 7)
	errRefused     = errors.New("connection refused")
	errNonsense    = &RequestError{Verb: "watch", Err: errUnreadable}
	errVersionless = &RequestError{Verb: "list", Err: errNoVersion}
)

type tweak func(*memory)

// at is the memory of a sequence that has told SYNCED and stands at rv.
func at(rv string, tweaks ...tweak) memory {
	return first(append([]tweak{func(m *memory) { m.rv, m.synced, m.current = rv, true, true }}, tweaks...)...)
}

// first is the memory of a sequence that has not told SYNCED yet.
func first(tweaks ...tweak) memory {
	var m memory
	for _, t := range tweaks {
		t(&m)
	}
	return m
}

func rv(rv string) tweak    { return func(m *memory) { m.rv = rv } }
func failures(n int) tweak  { return func(m *memory) { m.failures = n } }
func relists(n int) tweak   { return func(m *memory) { m.relists = n } }
func empties(n int) tweak   { return func(m *memory) { m.empty = n } }
func poisons(n int) tweak   { return func(m *memory) { m.poison = n } }
func behinds(n int) tweak   { return func(m *memory) { m.behind = n } }
func initials(n int) tweak  { return func(m *memory) { m.initials = n } }
func since(rv string) tweak { return func(m *memory) { m.since = rv } }
func floor(rv string) tweak { return func(m *memory) { m.floor = rv } }
func until(e End) tweak     { return func(m *memory) { m.until = e } }
func begun(m *memory)       { m.begun = true }
func fail(m *memory)        { m.fail = true }
func lossy(m *memory)       { m.lossy = true }
func partial(m *memory)     { m.partial = true }
func unclean(m *memory)     { m.unclean = true }
func quiet(m *memory)       { m.quiet = true }
func wanted(m *memory)      { m.wanted = true }
func initial(m *memory)     { m.initial = true }
func blind(m *memory)       { m.blind = true }
func broken(m *memory)      { m.current = false }
func gapped(r GapReason, from string) tweak {
	return func(m *memory) { m.gap, m.current = &gap{r, from}, false }
}
