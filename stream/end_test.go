package stream_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

func TestGiveUp(t *testing.T) {
	forbidden := exchange{"watch 5", status(403, metav1.StatusReasonForbidden)}
	tests := []struct {
		name        string
		script      []exchange
		least, most time.Duration    // until it gives up; zero: it does not
		is          func(error) bool // of the last error; nil for any
		why         string
	}{
		{"never reached", []exchange{{"", refuse}}, 60 * time.Second, 60 * time.Second, nil, "not reached for a minute"},
		{"refused later", []exchange{{"list", list("5", "")}, {"watch 5", watch("wait 5s")}, forbidden, forbidden, forbidden, forbidden, forbidden, forbidden, forbidden, forbidden, forbidden, forbidden, forbidden, forbidden, forbidden},
			65 * time.Second, 66 * time.Second, apierrors.IsForbidden, "later refusals are states, for so long"},
		{"asked to wait for longer", []exchange{{"list", list("5", "")}, {"watch 5", watch("wait 5s", "ERROR 429 TooManyRequests 3600")}},
			65 * time.Second, 65 * time.Second, nil, "there is no use in waiting for what will not be waited for"},
		{"no answers", []exchange{{"", hang}}, time.Minute, 63 * time.Second, nil, "a request that takes two minutes is not waited for"},
		{"lists work, watches are expired", []exchange{{"", either(list("5", ""), watch("ERROR 410 Expired"))}}, time.Minute, 63 * time.Second, nil, "one gap after the other is no progress"},
		{"the second page fails", []exchange{{"", func(r *http.Request) (*http.Response, error) {
			if r.URL.Query().Has("continue") {
				return status(410, metav1.StatusReasonExpired)(r)
			}
			return list("5", "more", "a@2")(r)
		}}}, time.Minute, 63 * time.Second, nil, "no more is the first page"},
		{"the second page breaks", []exchange{{"", func(r *http.Request) (*http.Response, error) {
			if r.URL.Query().Has("continue") {
				return refuse(r)
			}
			return list("5", "more", "a@2")(r)
		}}}, time.Minute, 63 * time.Second, nil, "no more is it if that is tried again first"},
		{"each page fails once", failingPages(8, 25*time.Second), time.Minute, 63 * time.Second, nil, "a snapshot does well once it has come to its end"},
		{"well but silent in between", []exchange{{"list", list("5", "")}, {"watch 5", refuse}, {"watch 5", watch("wait 3h")}, {"watch 5", refuse}, {"watch 5", watch("open")}},
			0, 0, nil, "an hour of silence is no failure"},
		{"on and off", append(onAndOff(80), exchange{"watch 85", watch("open")}), 0, 0, nil, "it works now and then"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStream(t, (&script{t: t, exchanges: tt.script}).client(), &stream.Options{GiveUpAfter: time.Minute, IdleTimeout: 2 * time.Hour, Timeout: time.Hour})
				began := time.Now()
				stop := time.AfterFunc(90*time.Minute, s.Stop)
				defer stop.Stop()
				var last error
				for _, err := range s.Events(t.Context()) {
					last = err
				}
				if tt.least == 0 {
					if last != nil {
						t.Errorf("%s: got %v", tt.why, last)
					}
					return
				}
				var gaveUp *stream.GaveUpError
				if !errors.As(last, &gaveUp) || tt.is != nil && !tt.is(last) {
					t.Fatalf("%s: got %v, want a *GaveUpError", tt.why, last)
				}
				if d := time.Since(began); d < tt.least || d > tt.most || gaveUp.After < time.Minute || gaveUp.After > 63*time.Second {
					t.Errorf("%s: it gave up after %v (%v), want %v to %v", tt.why, d, gaveUp.After, tt.least, tt.most)
				}
			})
		})
	}
}

// onAndOff fails for a while, says one thing, and fails again.
func onAndOff(n int) []exchange {
	all := []exchange{{"list", list("5", "")}}
	for i := range n {
		rv := 5 + i
		all = append(all, exchange{watchAt(rv), refuse}, exchange{watchAt(rv), refuse}, exchange{watchAt(rv), refuse}, exchange{watchAt(rv), watch(addedAt(rv + 1))})
	}
	return all
}

// failingPages is a list each of whose pages fails for a while, and then comes.
func failingPages(n int, d time.Duration) []exchange {
	request, all := "list", []exchange(nil)
	for i := range n {
		next := fmt.Sprint("p", i+1)
		if i == n-1 {
			next = ""
		}
		all = append(all, exchange{request, func(r *http.Request) (*http.Response, error) {
			select {
			case <-time.After(d):
			case <-r.Context().Done():
			}
			return refuse(r)
		}}, exchange{request, list("5", next, fmt.Sprintf("a%d@2", i))})
		request = "list continue=" + next
	}
	return append(all, exchange{"watch 5", watch("open")})
}

// TestWellForASecond: watches that end as planned, without an event, are well.
func TestWellForASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := streamtest.NewServer(widgets())
		s := streamOf(t, srv.Client(), widgets(), &stream.Options{Timeout: time.Second, GiveUpAfter: 10 * time.Second})
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
		defer cancel()
		go func() {
			for ctx.Err() == nil {
				time.Sleep(5 * time.Second)
				_ = srv.Apply("probe 1: 503")
			}
		}()
		for _, err := range s.Events(ctx) {
			if err != nil && ctx.Err() == nil {
				t.Error(err)
			}
		}
		cancel()
		time.Sleep(10 * time.Second)
	})
}

func sequence(err error, events ...stream.Event) iter.Seq2[stream.Event, error] {
	return func(yield func(stream.Event, error) bool) {
		for _, ev := range events {
			if !yield(ev, nil) {
				return
			}
		}
		if err != nil {
			yield(stream.Event{}, err)
		}
	}
}

func TestUntil(t *testing.T) {
	broken := errors.New("broken")
	one, two, three := stream.Event{ResourceVersion: "1"}, stream.Event{ResourceVersion: "2"}, stream.Event{ResourceVersion: "3"}
	isTwo := func(ev stream.Event) (bool, error) { return ev.ResourceVersion == "2", nil }
	tests := []struct {
		seq  iter.Seq2[stream.Event, error]
		cond func(stream.Event) (bool, error)
		want string
		err  error
		why  string
	}{
		{sequence(broken, one, two, three), isTwo, "2", nil, "met: what comes after it does not matter"},
		{sequence(nil, one, three), isTwo, "", stream.ErrUnmet, "the sequence has ended"},
		{sequence(broken, one), isTwo, "", broken, "the sequence has failed"},
		{sequence(nil, one, two), func(stream.Event) (bool, error) { return false, broken }, "1", broken, "the condition has failed, at that event"},
		{sequence(nil), isTwo, "", stream.ErrUnmet, "nothing at all"},
	}
	for _, tt := range tests {
		got, err := stream.Until(tt.seq, tt.cond)
		if got.ResourceVersion != tt.want || !errors.Is(err, tt.err) || (err == nil) != (tt.err == nil) {
			t.Errorf("%s: got %q, %v, want %q, %v", tt.why, got.ResourceVersion, err, tt.want, tt.err)
		}
	}
}

func TestAcked(t *testing.T) {
	broken := errors.New("broken")
	var got []string
	for ev, err := range stream.Acked(sequence(broken, stream.Event{ResourceVersion: "1"}, stream.Event{ResourceVersion: "2"})) {
		ev.Ack() // once more does no harm
		if err != nil {
			got = append(got, err.Error())
			continue
		}
		got = append(got, ev.ResourceVersion)
	}
	if diff := cmp.Diff([]string{"1", "2", "broken"}, got); diff != "" {
		t.Errorf("it tells what the sequence tells (-want +got):\n%s", diff)
	}
	for range stream.Acked(sequence(nil, stream.Event{}, stream.Event{})) {
		break // leaves the sequence as well, or this would panic
	}
}

func TestStatusAfterTheEndThatWasWanted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sc := &script{t: t, exchanges: []exchange{{"list", list("5", "", "a@2")}, {"watch 5", watch("open")}}}
		s := newStream(t, sc.client(), &stream.Options{UntilSynced: true})
		record(t, s, time.Minute)
		if got := s.Status(); got.State != stream.Stopped || !got.Synced || got.ResourceVersion != "5" || got.Cause != nil {
			t.Errorf("got %+v, want Stopped, synced at 5, for no bad reason", got)
		}
	})
}
