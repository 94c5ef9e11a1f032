package mux_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/gvrwatch/gvrwatch/internal/testing/oracle"
	"github.com/gvrwatch/gvrwatch/mux"
	"github.com/gvrwatch/gvrwatch/stream"
)

// parse reads events: "+a(u1)@5" is ADDED, "~" MODIFIED, "-" DELETED, each optionally
// with "!" (inferred) in front and " in NAMESPACE" at the end; "SYNCED@7",
// "BOOKMARK@8" and "GAP expired 5..9 lost".
func parse(t *testing.T, text string) stream.Event {
	t.Helper()
	ev := stream.Event{Resource: widgets()}
	text, ev.Namespace, _ = strings.Cut(text, " in ")
	if rest, ok := strings.CutPrefix(text, "GAP "); ok {
		fields := strings.Fields(rest)
		from, to, _ := strings.Cut(fields[1], "..")
		ev.Type = stream.Gap
		ev.Gap = &stream.GapDetails{Reason: stream.GapReason(fields[0]), From: from, To: to, Duration: 1,
			HistoryLost: len(fields) > 2}
		return ev
	}
	text, ev.Inferred = strings.CutPrefix(text, "!")
	var what string
	what, ev.ResourceVersion, _ = strings.Cut(text, "@")
	switch types := map[byte]stream.Type{'+': stream.Added, '~': stream.Modified, '-': stream.Deleted}; what[0] {
	case '+', '~', '-':
		ev.Type = types[what[0]]
		name, uid, _ := strings.Cut(strings.TrimSuffix(what[1:], ")"), "(")
		ev.Object = object(name, uid, ev.ResourceVersion)
		if ev.Namespace != "" {
			ev.Object.SetNamespace(ev.Namespace)
		}
	default:
		ev.Type = stream.Type(what)
	}
	return ev
}

func parseAll(t *testing.T, text string) (events []stream.Event) {
	t.Helper()
	for one := range strings.SplitSeq(text, "; ") {
		if one != "" {
			events = append(events, parse(t, one))
		}
	}
	return events
}

// whileBusy returns what the loop receives of events that come while its body is busy with another one, and the status
// before.
func whileBusy(t *testing.T, events []stream.Event) (delivered []stream.Event, st mux.SourceStatus) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		busy := make(chan struct{})
		source := &scripted{key: "a", run: func(ctx context.Context, put func(stream.Event) bool) error {
			put(synced())
			<-busy
			for _, ev := range events {
				put(ev)
			}
			<-ctx.Done()
			return context.Cause(ctx)
		}}
		m := newMux(t, &mux.Options{Overflow: mux.Latest}, source)
		first := true
		for ev, err := range m.Events(anHour(t)) {
			if err != nil {
				t.Fatal(err)
			}
			if first {
				first = false
				close(busy)
				synctest.Wait()
				st = m.Status().Sources[0]
				m.Drain()
				continue
			}
			delivered = append(delivered, ev)
		}
	})
	return delivered, st
}

func TestLatest(t *testing.T) {
	tests := []struct {
		events, want string
		vanished     uint64
		why          string
	}{
		{"~a(u)@5; ~a(u)@6; ~a(u)@7", "MODIFIED a(u)@7 coalesced 2", 0, "only the newest state counts"},
		{"~a(u)@5; ~b(v)@6; ~a(u)@7", "MODIFIED a(u)@7 coalesced 1; MODIFIED b(v)@6", 0,
			"the newest takes the place of the oldest"},
		{"+a(u)@5; ~a(u)@6", "ADDED a(u)@6 coalesced 1", 0, "ADDED stays ADDED"},
		{"+a(u)@5; -a(u)@6", "", 2, "ADDED and DELETED cancel out"},
		{"+a(u)@5; ~a(u)@6; -a(u)@7", "", 3, "also with a change in between"},
		{"~a(u)@5; -a(u)@6", "DELETED a(u)@6 coalesced 1", 0, "DELETED replaces MODIFIED"},
		{"-a(u)@5; +b(v)@6; +a(u)@7", "DELETED a(u)@5; ADDED b(v)@6; ADDED a(u)@7", 0,
			"after DELETED, ADDED is an event of its own"},
		{"-a(u)@5; +a(u)@7; ~a(u)@8", "DELETED a(u)@5; ADDED a(u)@8 coalesced 1", 0, "two events, each coalesced"},
		{"-a(u)@5; +a(u)@7; -a(u)@8", "DELETED a(u)@5", 2, "the second ADDED cancels out, the first DELETED stays"},
		{"-a(u)@5; +a(u2)@7", "DELETED a(u)@5; ADDED a(u2)@7", 0, "two objects of one name"},
		{"~a(u)@5; !-a(u)@5; +a(u2)@7; ~a(u2)@8", "DELETED a(u)@5 inferred coalesced 1; ADDED a(u2)@8 coalesced 1", 0,
			"also if DELETED is inferred"},
		{"-a()@5; +a()@7", "DELETED a@5; ADDED a@7", 0, "client-go's fakes have no uids"},
		{"~a(u)@5 in x; ~a(u)@6 in y; ~a(u)@7 in x", "MODIFIED x/a(u)@7 coalesced 1; MODIFIED y/a(u)@6", 0,
			"each namespace on its own"},

		{"~a(u)@5; SYNCED@6; ~a(u)@7", "MODIFIED a(u)@5; SYNCED@6; MODIFIED a(u)@7", 0,
			"nothing is coalesced across SYNCED"},
		{"~a(u)@5; GAP expired 5..9; !~a(u)@8; SYNCED@9; ~a(u)@10; ~a(u)@11",
			"MODIFIED a(u)@5; GAP expired 5..9; MODIFIED a(u)@8 inferred; SYNCED@9; MODIFIED a(u)@11 coalesced 1", 0,
			"nothing is coalesced across GAP"},
		{"+a(u)@5; GAP expired 5..9; !-a(u)@5; SYNCED@9",
			"ADDED a(u)@5; GAP expired 5..9; DELETED a(u)@5 inferred; SYNCED@9", 0, "nothing cancels out across GAP"},
		{"~b(v)@4 in y; GAP expired 5..9 in x; ~b(v)@6 in y", "MODIFIED y/b(v)@6 coalesced 1; GAP expired 5..9 in x", 0,
			"the GAP of another namespace does not matter"},
		{"~a(u)@5 in x; SYNCED@; ~a(u)@6 in x", "MODIFIED x/a(u)@5; SYNCED; MODIFIED x/a(u)@6", 0,
			"SYNCED is for all namespaces"},
		{"GAP expired 5..9 in x; GAP expired 5..9 in y; SYNCED@",
			"GAP expired 5..9 in x; GAP expired 5..9 in y; SYNCED", 0, "one GAP of each namespace may wait"},

		{"BOOKMARK@5; BOOKMARK@6; ~a(u)@7; BOOKMARK@8", "MODIFIED a(u)@7; BOOKMARK@8", 0,
			"only the last BOOKMARK waits"},
		{"~a(u)@5; BOOKMARK@6; ~a(u)@7", "MODIFIED a(u)@7 coalesced 1; BOOKMARK@6", 0,
			"a BOOKMARK stays behind the events up to its version"},
	}
	for _, tt := range tests {
		t.Run(tt.events, func(t *testing.T) {
			delivered, st := whileBusy(t, parseAll(t, tt.events))
			var got []string
			var coalesced uint64
			for _, ev := range delivered {
				got = append(got,
					strings.NewReplacer("()", "", "SYNCED @", "SYNCED@", "BOOKMARK @",
						"BOOKMARK@").Replace(oracle.TextUID(ev)))
				if mux.SourceOf(ev) != "a" {
					t.Errorf("%s: its source is %q", ev.String(), mux.SourceOf(ev))
				}
				coalesced += uint64(ev.Coalesced())
			}
			want := strings.Split(tt.want, "; ")
			if tt.want == "" {
				want = nil
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tt.why, diff)
			}
			if st.Vanished != tt.vanished || st.Queued != len(delivered) {
				t.Errorf("%s: vanished %d, queued %d, want %d, %d", tt.why, st.Vanished, st.Queued, tt.vanished,
					len(delivered))
			}
			if st.Vanished == 0 && st.Coalesced != coalesced {
				t.Errorf("%s: the status has %d coalesced, the events %d", tt.why, st.Coalesced, coalesced)
			}
		})
	}
}

// However many events come while the loop is busy, a few states of each object wait; then the source waits.
func TestLatestIsBounded(t *testing.T) {
	const objects = 10
	var events []stream.Event
	version := 1
	add := func(format string, args ...any) {
		version++
		events = append(events, parse(t, fmt.Sprintf(format, args...)+fmt.Sprintf("@%d", version)))
	}
	for round := range 200 {
		for i := range objects {
			add("-o%d(u%d-%d)", i, i, round)
			add("+o%d(u%d-%d)", i, i, round+1)
			add("~o%d(u%d-%d)", i, i, round+1)
		}
		if round%20 == 0 {
			events = append(events, parse(t, fmt.Sprintf("GAP expired %d..%d", version, version)), parse(t, "SYNCED@1"))
		}
		events = append(events, parse(t, "BOOKMARK@1"))
	}
	delivered, st := whileBusy(t, events)
	if most := 3*2*objects + 5; len(delivered) > most || st.Queued > most || st.Queued < 2*objects {
		t.Errorf("%d events were delivered and %d queued, want at most %d", len(delivered), st.Queued, most)
	}
	if st.Bytes > 3*2*objects*1500 || st.Bytes <= 0 {
		t.Errorf("the events that wait have %d bytes", st.Bytes)
	}
}

// A source waits with a second GAP or a third SYNCED until the loop has received the first.
func TestLatestWaitsWithASecondGap(t *testing.T) {
	for _, tt := range []struct {
		events string
		queued int // with the blocked one
		why    string
	}{
		{"GAP expired 5..9; SYNCED@9; ~a(u)@10; GAP poison 10..12; SYNCED@12", 4, "the second GAP waits"},
		{"GAP expired 5..9 in x; GAP expired 5..9 in y; SYNCED@; GAP expired 9..12 in y; ~a(u)@13 in y", 4,
			"one GAP of each namespace fits"},
		{"SYNCED@5; SYNCED@6; ~a(u)@6; SYNCED@7; ~a(u)@8", 4, "the third SYNCED waits"},
	} {
		synctest.Test(t, func(t *testing.T) {
			events := parseAll(t, tt.events)
			source := &scripted{key: "a", run: func(ctx context.Context, put func(stream.Event) bool) error {
				put(synced())
				for _, ev := range events {
					put(ev)
				}
				return nil
			}}
			m := newMux(t, &mux.Options{Overflow: mux.Latest}, source)
			var got, want []string
			for ev, err := range m.Events(anHour(t)) {
				if err != nil {
					t.Fatal(err)
				}
				if len(got) == 0 {
					synctest.Wait()
					if n := m.Status().Queued; n != tt.queued {
						t.Errorf("%s: %d wait, want %d", tt.why, n, tt.queued)
					}
				}
				got = append(got, ev.String())
			}
			for _, ev := range append([]stream.Event{synced()}, events...) {
				want = append(want, ev.String())
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s: all are delivered (-want +got):\n%s", tt.why, diff)
			}
		})
	}
}

// TestLatestAfterRetry: a source that was started again delivers once more what the loop knows. If that is deleted
// before the first SYNCED, as may happen with several namespaces, the loop learns of it.
func TestLatestAfterRetry(t *testing.T) {
	for _, tt := range []struct {
		again, want string
		why         string
	}{
		{"+a(u)@5 in x; -a(u)@6 in x; SYNCED@", "DELETED x/a(u)@6 coalesced 1; SYNCED", "the loop knows a"},
		{"SYNCED@; +b(v)@7 in x; -b(v)@8 in x", "SYNCED", "b is new: it came after SYNCED"},
	} {
		synctest.Test(t, func(t *testing.T) {
			runs := 0
			busy := make(chan struct{})
			source := &scripted{key: "a", run: func(ctx context.Context, put func(stream.Event) bool) error {
				if runs++; runs == 1 {
					put(parse(t, "+a(u)@5 in x"))
					put(synced())
					return errors.New("failed")
				}
				put(parse(t, "BOOKMARK@1"))
				<-busy
				for _, ev := range parseAll(t, tt.again) {
					put(ev)
				}
				<-ctx.Done()
				return context.Cause(ctx)
			}}
			m := newMux(t, &mux.Options{Overflow: mux.Latest, OnError: retrying}, source)
			var got []string
			for ev, err := range m.Events(anHour(t)) {
				if err != nil {
					t.Fatal(err)
				}
				if ev.Type == stream.Bookmark {
					got = nil
					close(busy)
					synctest.Wait()
					m.Drain()
					continue
				}
				got = append(got, oracle.TextUID(ev))
			}
			if diff := cmp.Diff(strings.Split(tt.want, "; "), got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tt.why, diff)
			}
		})
	}
}
