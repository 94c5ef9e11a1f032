package stream

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var (
	res          = schema.GroupResource{Group: "example.com", Resource: "widgets"}
	errExpired   = apierrors.NewResourceExpired("too old")
	errGone      = &apierrors.StatusError{ErrStatus: metav1.Status{Code: 410, Reason: metav1.StatusReasonGone, Message: "too old"}}
	errForbidden = apierrors.NewForbidden(res, "", errors.New("no"))
	errNotFound  = apierrors.NewNotFound(res, "")
	errBad       = apierrors.NewBadRequest("no such token")
	errServer    = apierrors.NewInternalError(errors.New("boom"))
	errBusy      = apierrors.NewTooManyRequests("later", 7)
	synced       = memory{synced: true}
)

func TestStep(t *testing.T) {
	tests := []struct {
		name string
		s    state
		in   input
		want state
		out  []output
		why  string
	}{
		{"only page", listing{}, page{rv: "5"},
			connecting{rv: "5", listed: true}, []output{beginList{}, tellPage{}, endList{}},
			"the watch begins where the list ends"},
		{"first of many pages", listing{}, page{rv: "5", token: "a"},
			listing{tokens: []string{"a"}, rv: "5"}, []output{beginList{}, tellPage{}},
			"what is known is told; nothing is known to be absent yet"},
		{"middle page", listing{tokens: []string{"a"}, rv: "5"}, page{rv: "5", token: "b"},
			listing{tokens: []string{"a", "b"}, rv: "5"}, []output{tellPage{}},
			"only the first page begins the list"},
		{"tokens in a circle", listing{tokens: []string{"a", "b"}, rv: "5"}, page{rv: "5", token: "a"},
			waiting{1, 0, errInconsistent, listing{memory: memory{failures: 1}}}, nil,
			"a server that goes round must not be a hot loop"},
		{"token refused", listing{memory: synced, tokens: []string{"a"}, rv: "5"}, failed{errBad},
			waiting{1, 0, errBad, listing{memory: memory{synced: true, failures: 1}}}, nil,
			"what is wrong with a token (a server of another version) need not be wrong with the list"},
		{"token refused at first", listing{tokens: []string{"a"}, rv: "5"}, failed{errBad},
			waiting{1, 0, errBad, listing{memory: memory{failures: 1}}}, nil,
			"nor is it the caller's mistake"},
		{"token refused at first, again and again", listing{memory: memory{failures: 3}, tokens: []string{"a"}, rv: "5"}, failed{errForbidden},
			stopped{errForbidden}, nil,
			"the first pages are allowed, the others never: the caller should hear of it"},
		{"token refused later, again and again", listing{memory: memory{synced: true, failures: 3}, tokens: []string{"a"}, rv: "5"}, failed{errForbidden},
			waiting{4, 0, errForbidden, listing{memory: memory{synced: true, failures: 4}}}, nil,
			"it was better once"},
		{"no usable page at first", listing{tokens: []string{"a"}, rv: "5"}, failed{&RequestError{Err: errNameless}},
			stopped{&RequestError{Err: errNameless}}, nil,
			"that is not about the token"},
		{"page failed again and again", listing{memory: memory{failures: 2}, tokens: []string{"a"}, rv: "5", tries: 2}, failed{errServer},
			waiting{3, 0, errServer, listing{memory: memory{failures: 3}}}, nil,
			"perhaps it is the token"},
		{"no usable list at first", listing{}, failed{&RequestError{Err: errNameless}},
			stopped{&RequestError{Err: errNameless}}, nil,
			"the caller should hear of it"},
		{"last page", listing{tokens: []string{"b"}, rv: "5"}, page{rv: "5"},
			connecting{rv: "5", listed: true}, []output{tellPage{}, endList{}},
			"now absence is known"},
		{"page of another version", listing{tokens: []string{"a"}, rv: "5"}, page{rv: "6"},
			waiting{1, 0, errInconsistent, listing{memory: memory{failures: 1}}}, nil,
			"pages of two versions are a base for nothing: not told, the list begins again"},
		{"the same page for ever", listing{tokens: []string{"a"}, rv: "5"}, page{rv: "5", token: "a"},
			waiting{1, 0, errInconsistent, listing{memory: memory{failures: 1}}}, nil,
			"a server stuck on a token must not be a hot loop"},
		{"list without version", listing{}, failed{&RequestError{Err: errNoVersion}},
			stopped{&RequestError{Err: errNoVersion}}, nil,
			"there is nothing to watch from, and waiting will not change it"},
		{"list without version, later", listing{memory: synced}, failed{errNoVersion},
			waiting{1, 0, errNoVersion, listing{memory: memory{synced: true, failures: 1}}}, nil,
			"once it was better, so it may be again"},
		{"token expired", listing{tokens: []string{"a"}, rv: "5"}, failed{errExpired},
			waiting{1, 0, errExpired, listing{memory: memory{failures: 1}}}, nil,
			"the list begins again; the offered inconsistent rest is not taken"},
		{"page failed", listing{tokens: []string{"a"}, rv: "5"}, failed{errServer},
			waiting{1, 0, errServer, listing{memory: memory{failures: 1}, tokens: []string{"a"}, rv: "5", tries: 1}}, nil,
			"the same page once more"},
		{"first list forbidden", listing{}, failed{errForbidden},
			stopped{errForbidden}, nil,
			"the caller should hear of it at once"},
		{"first list not found", listing{}, failed{errNotFound},
			stopped{errNotFound}, nil,
			"no such resource"},
		{"first list fails wrapped", listing{}, failed{&RequestError{Err: errForbidden}},
			stopped{&RequestError{Err: errForbidden}}, nil,
			"the driver wraps; the class is seen through it"},
		{"server down at the start", listing{}, failed{errors.New("connection refused")},
			waiting{1, 0, errors.New("connection refused"), listing{memory: memory{failures: 1}}}, nil,
			"it may be starting"},
		{"forbidden later", listing{memory: synced}, failed{errForbidden},
			waiting{1, 0, errForbidden, listing{memory: memory{synced: true, failures: 1}}}, nil,
			"rights come back; nothing is told as deleted"},
		{"not found later", listing{memory: synced}, failed{errNotFound},
			waiting{1, 0, errNotFound, listing{memory: memory{synced: true, failures: 1}}}, nil,
			"a CRD may be recreated"},
		{"told to wait", listing{}, failed{errBusy},
			waiting{1, 7 * time.Second, errBusy, listing{memory: memory{failures: 1}}}, nil,
			"Retry-After is honoured"},
		{"seconds beyond belief", listing{}, failed{apierrors.NewTooManyRequests("later", 1<<31-1)},
			waiting{1, maxRetryAfter, apierrors.NewTooManyRequests("later", 1<<31-1), listing{memory: memory{failures: 1}}}, nil,
			"68 years would be for ever"},

		{"watch accepted after a list", connecting{rv: "5", listed: true}, opened{},
			streaming{memory: synced, rv: "5"}, []output{tellSynced{"5"}},
			"now it is known that nothing will be missed"},
		{"watch accepted", connecting{memory: synced, rv: "5"}, opened{},
			streaming{memory: synced, rv: "5"}, nil,
			"from the version that has been told"},
		{"watch forbidden at first", connecting{rv: "5", listed: true}, failed{errForbidden},
			stopped{errForbidden}, nil,
			"who may list but not watch should hear of it at once"},
		{"server away before the first watch", connecting{rv: "5", listed: true}, failed{errServer},
			waiting{1, 0, errServer, connecting{memory{failures: 1}, "5", true}}, nil,
			"SYNCED is still owed"},
		{"watch refused as expired", connecting{memory: synced, rv: "5"}, failed{errExpired},
			listing{memory: memory{synced: true, failures: 1}}, []output{tellGap{GapExpired, "5"}},
			"never the same version again"},
		{"watch refused as gone", connecting{memory: synced, rv: "5"}, failed{&RequestError{Err: errGone}},
			listing{memory: memory{synced: true, failures: 1}}, []output{tellGap{GapExpired, "5"}},
			"the other form of 410"},
		{"watch expired again", connecting{memory: memory{synced: true, failures: 1}, rv: "5"}, failed{errGone},
			waiting{2, 0, errGone, listing{memory: memory{synced: true, failures: 2}}}, []output{tellGap{GapExpired, "5"}},
			"a version that expires before it can be watched is not a hot loop of lists"},
		{"watch refused", connecting{memory: synced, rv: "5"}, failed{errForbidden},
			waiting{1, 0, errForbidden, connecting{memory: memory{synced: true, failures: 1}, rv: "5"}}, nil,
			"the version is kept: no new list"},
		{"watch not found", connecting{memory: synced, rv: "5"}, failed{errNotFound},
			waiting{1, 0, errNotFound, connecting{memory: memory{synced: true, failures: 1}, rv: "5"}}, nil,
			"a missing CRD deletes nothing by itself"},
		{"watch told to wait", connecting{memory: synced, rv: "5"}, failed{errBusy},
			waiting{1, 7 * time.Second, errBusy, connecting{memory: memory{synced: true, failures: 1}, rv: "5"}}, nil,
			"429 keeps the version"},

		{"event", streaming{memory: synced, rv: "5"}, frame{rv: "7"},
			streaming{memory: synced, rv: "7", frames: true}, []output{tellFrame{}},
			"the version moves with what is told"},
		{"longer version", streaming{memory: synced, rv: "9"}, frame{rv: "10"},
			streaming{memory: synced, rv: "10", frames: true}, []output{tellFrame{}},
			"10 is after 9"},
		{"replay", streaming{memory: synced, rv: "7"}, frame{rv: "6"},
			streaming{memory: synced, rv: "7", frames: true}, []output{tellFrame{old: true}},
			"told before, unless the index knows better; the version never goes back"},
		{"replay of the last", streaming{memory: synced, rv: "7"}, frame{rv: "7"},
			streaming{memory: synced, rv: "7", frames: true}, []output{tellFrame{old: true}},
			"likewise"},
		{"version 0", streaming{memory: synced, rv: "7"}, frame{rv: "0"},
			streaming{memory: synced, rv: "7", frames: true, unversioned: true}, []output{tellFrame{}},
			"told, but no watch ever begins at 0"},
		{"word after number", streaming{memory: synced, rv: "7"}, frame{rv: "x"},
			streaming{memory: synced, rv: "7", frames: true, unversioned: true}, []output{tellFrame{}},
			"told, but not resumed at"},
		{"bookmark at version 0", streaming{memory: synced, rv: "7"}, frame{bookmark: true, rv: "0"},
			streaming{memory: synced, rv: "7", frames: true}, nil,
			"says nothing"},
		{"opaque versions", streaming{memory: synced, rv: "b"}, frame{rv: "a"},
			streaming{memory: synced, rv: "a", frames: true}, []output{tellFrame{}},
			"what can't be compared is trusted to come in order"},
		{"no version", streaming{memory: synced, rv: "7"}, frame{rv: ""},
			streaming{memory: synced, rv: "7", frames: true, unversioned: true}, []output{tellFrame{}},
			"client-go's fake"},
		{"bookmark", streaming{memory: synced, rv: "7"}, frame{bookmark: true, rv: "9"},
			streaming{memory: synced, rv: "9", frames: true}, nil,
			"moves the version of a quiet resource"},
		{"bookmark of the past", streaming{memory: synced, rv: "7"}, frame{bookmark: true, rv: "3"},
			streaming{memory: synced, rv: "7", frames: true}, nil,
			"never back in time"},
		{"bookmark without version", streaming{memory: synced, rv: "7"}, frame{bookmark: true, rv: ""},
			streaming{memory: synced, rv: "7", frames: true}, nil,
			"says nothing"},
		{"a frame ends the row of empty ones", streaming{memory: memory{synced: true, empty: 2}, rv: "5"}, frame{rv: "6"},
			streaming{memory: synced, rv: "6", frames: true}, []output{tellFrame{}},
			"the version works"},

		{"ended as planned", streaming{memory: memory{synced: true, failures: 3, empty: 1}, rv: "5"}, closed{after: healthy},
			connecting{memory: synced, rv: "5"}, nil,
			"the usual end: on at once, at the same version, past failures forgiven"},
		{"closed soon, after it got on", streaming{memory: memory{synced: true, failures: 9}, rv: "5", frames: true}, closed{},
			waiting{2, 0, errClosed, connecting{memory: memory{synced: true, failures: 2}, rv: "5"}}, nil,
			"the waits need not grow"},
		{"expired soon, after it got on", streaming{memory: memory{synced: true, failures: 9}, rv: "5", frames: true}, closed{0, errExpired},
			waiting{2, 0, errExpired, listing{memory: memory{synced: true, failures: 2}}}, []output{tellGap{GapExpired, "5"}},
			"but there must be some, or this is a hot loop of lists"},
		{"closed soon", streaming{memory: synced, rv: "5", frames: true}, closed{after: healthy - 1},
			waiting{1, 0, errClosed, connecting{memory: memory{synced: true, failures: 1}, rv: "5"}}, nil,
			"a server that closes at once again and again must not be a hot loop"},
		{"closed soon and empty", streaming{memory: synced, rv: "5"}, closed{},
			waiting{1, 0, errClosed, connecting{memory: memory{synced: true, failures: 1, empty: 1}, rv: "5"}}, nil,
			"may be chance"},
		{"closed soon and empty once more", streaming{memory: memory{synced: true, failures: 1, empty: 1}, rv: "5"}, closed{},
			waiting{2, 0, errClosed, connecting{memory: memory{synced: true, failures: 2, empty: 2}, rv: "5"}}, nil,
			"may still be chance"},
		{"closed soon and empty too often", streaming{memory: memory{synced: true, failures: 2, empty: 2}, rv: "5"}, closed{},
			waiting{3, 0, errClosed, listing{memory: memory{synced: true, failures: 3}}}, []output{tellGap{GapExpired, "5"}},
			"kubernetes#104171: expired, and nobody said so"},
		{"quiet but healthy", streaming{memory: memory{synced: true, empty: 2}, rv: "5"}, closed{after: healthy},
			connecting{memory: synced, rv: "5"}, nil,
			"an idle resource is not an expired one"},
		{"expired in the stream", streaming{memory: synced, rv: "5"}, closed{0, errExpired},
			listing{memory: memory{synced: true, failures: 1}}, []output{tellGap{GapExpired, "5"}},
			"the usual form of 410"},
		{"expired after a long time", streaming{memory: memory{synced: true, failures: 9}, rv: "5"}, closed{healthy, errExpired},
			listing{memory: memory{synced: true, failures: 1}}, []output{tellGap{GapExpired, "5"}},
			"at once: the old failures are forgiven"},
		{"error in the stream", streaming{memory: synced, rv: "5"}, closed{0, errServer},
			waiting{1, 0, errServer, connecting{memory: memory{synced: true, failures: 1}, rv: "5"}}, nil,
			"resumed at the version"},
		{"told to wait in the stream", streaming{memory: synced, rv: "5"}, closed{healthy, errBusy},
			waiting{1, 7 * time.Second, errBusy, connecting{memory: memory{synced: true, failures: 1}, rv: "5"}}, nil,
			"Retry-After counts there too"},
		{"ended without versions", streaming{memory: synced, rv: "5", frames: true, unversioned: true}, closed{after: healthy},
			listing{memory: memory{synced: true, failures: 1}}, []output{tellGap{GapUnversioned, "5"}},
			"what was told is past 5, but not known how far"},

		{"wait is over", waiting{attempt: 2, next: connecting{memory: synced, rv: "5"}}, elapsed{},
			connecting{memory: synced, rv: "5"}, nil, "on as decided"},
		{"stopped stays stopped", stopped{errServer}, opened{}, stopped{errServer}, nil, "an end is an end"},
	}
	equal := cmp.Options{
		cmp.AllowUnexported(listing{}, connecting{}, streaming{}, waiting{}, stopped{}, memory{}, tellGap{}, tellSynced{}, tellFrame{}),
		cmp.FilterValues(func(a, b error) bool { return a != nil && b != nil }, cmp.Comparer(func(a, b error) bool { return a.Error() == b.Error() })),
		cmpopts.EquateEmpty(),
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, out := step(tt.s, tt.in)
			if diff := cmp.Diff(tt.want, got, equal); diff != "" {
				t.Errorf("state: %s (-want +got):\n%s", tt.why, diff)
			}
			if diff := cmp.Diff(tt.out, out, equal); diff != "" {
				t.Errorf("outputs: %s (-want +got):\n%s", tt.why, diff)
			}
		})
	}
}

func TestStepKnowsEveryPair(t *testing.T) {
	// A pair is either handled or ends the sequence with an error; none panics,
	// and none is passed over.
	fits := map[string]bool{
		"listing page": true, "listing failed": true,
		"connecting opened": true, "connecting failed": true,
		"streaming frame": true, "streaming closed": true,
		"waiting elapsed": true,
	}
	for _, s := range []state{listing{}, connecting{}, streaming{}, waiting{next: listing{}}} {
		for _, in := range []input{page{rv: "1"}, opened{}, frame{rv: "9"}, closed{}, failed{errServer}, elapsed{}, nil} {
			pair := fmt.Sprintf("%T %T", s, in)
			got, _ := step(s, in)
			_, ended := got.(stopped)
			if name := kinds(s, in); ended == fits[name] {
				t.Errorf("%s: ended = %v, want %v", pair, ended, !fits[name])
			}
		}
	}
}

func kinds(s state, in input) string {
	name := func(v any) string {
		var n string
		_, _ = fmt.Sscanf(fmt.Sprintf("%T", v), "stream.%s", &n)
		return n
	}
	return name(s) + " " + name(in)
}

func TestFinalErrors(t *testing.T) {
	for code, want := range map[int32]bool{
		400: true, 401: true, 403: true, 404: true, 405: true, 422: true,
		408: false, 409: false, 410: false, 429: false, 500: false, 502: false, 503: false, 504: false,
	} {
		err := &apierrors.StatusError{ErrStatus: metav1.Status{Code: code}}
		if got := isFinal(err); got != want {
			t.Errorf("isFinal(%d) = %v, want %v", code, got, want)
		}
	}
}

func TestBackoff(t *testing.T) {
	for attempt, bound := range map[int]time.Duration{
		-1: firstBackoff, 0: firstBackoff, 1: firstBackoff, 2: 2 * firstBackoff, 5: 16 * firstBackoff,
		7: maxBackoff, 100: maxBackoff, 1 << 40: maxBackoff,
	} {
		var longest time.Duration
		for range 1000 {
			d := backoff(attempt)
			if d < 0 || d > bound {
				t.Fatalf("backoff(%d) = %v, want at most %v", attempt, d, bound)
			}
			longest = max(longest, d)
		}
		// All 1000 in the lower half: one chance in 2^1000.
		if longest <= bound/2 {
			t.Errorf("backoff(%d) never passed %v: not spread over %v", attempt, longest, bound)
		}
	}
}
