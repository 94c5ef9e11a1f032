package mux_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/gvrwatch/gvrwatch/mux"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

// parse reads events: "+a(u1)@5" is ADDED, "~" MODIFIED, "-" DELETED, each perhaps
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
		ev.Gap = &stream.GapDetails{Reason: stream.GapReason(fields[0]), From: from, To: to, Duration: 1, HistoryLost: len(fields) > 2}
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

// whileBusy is what the loop is told of events that come while its body is busy
// with another one.
func whileBusy(t *testing.T, events []stream.Event) (told []stream.Event, st mux.SourceStatus) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		isBusy := make(chan struct{})
		source := &scripted{key: "a", play: func(ctx context.Context, put func(stream.Event) bool) error {
			put(synced())
			<-isBusy
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
				close(isBusy)
				synctest.Wait()
				st = m.Status().Sources[0]
				m.Drain()
				continue
			}
			told = append(told, ev)
		}
	})
	return told, st
}

func TestLatest(t *testing.T) {
	tests := []struct {
		events, want string
		vanished     uint64
		why          string
	}{
		{"~a(u)@5; ~a(u)@6; ~a(u)@7", "MODIFIED a(u)@7 coalesced 2", 0, "only the newest state counts"},
		{"+a(u)@5; ~a(u)@6", "ADDED a(u)@6 coalesced 1", 0, "who has not been told of it does not know it"},
		{"+a(u)@5; -a(u)@6", "", 2, "who has not been told of it need not know that it is gone"},
		{"+a(u)@5; ~a(u)@6; -a(u)@7", "", 3, "nor what it was in between"},
		{"~a(u)@5; -a(u)@6", "DELETED a(u)@6 coalesced 1", 0, "a removal is always told"},
		{"-a(u)@5; +a(v)@6", "DELETED a(u)@5; ADDED a(v)@6", 0, "another object of the same name is another object"},
		{"~a(u)@5; -a(u)@6; +a(v)@7; ~a(v)@8", "DELETED a(u)@6 coalesced 1; ADDED a(v)@8 coalesced 1", 0, "each of the two for itself"},
		{"-a(u)@5; +a(v)@6; -a(v)@7; +a(w)@8", "DELETED a(u)@5; ADDED a(w)@8", 2, "the one in the middle was never seen"},
		{"-a(u)@5; +a(u)@6", "MODIFIED a(u)@6 coalesced 1", 0, "it left the selector and came back: it is known"},
		{"-a(u)@5; +a(u)@6; -a(u)@7", "DELETED a(u)@7 coalesced 2", 0, "and so its end is told"},
		{"-a(u)@5; +a(u)@6; ~a(u)@7; -a(u)@8; +a(u)@9", "MODIFIED a(u)@9 coalesced 4", 0, "however often"},
		{"-a@; +a@", "DELETED a; ADDED a", 0, "without uids it is not known whether it is the same"},
		{"~a@; ~a@; -a@; +a@; -a@; +a@; ~a@", "DELETED a coalesced 2; ADDED a coalesced 1", 2, "but what it is known to be is merged"},
		{"~a(u)@5; ~b(v)@6; ~a(u)@7", "MODIFIED b(v)@6; MODIFIED a(u)@7 coalesced 1", 0, "it takes the place of the newer one, so that versions stay in order"},
		{"~a(u)@5 in x; ~a(u)@6 in y", "MODIFIED x/a(u)@5; MODIFIED y/a(u)@6", 0, "objects of different namespaces"},
		{"+a(u)@5; SYNCED@5; ~a(u)@6", "ADDED a(u)@5; SYNCED@5; MODIFIED a(u)@6", 0, "at SYNCED all that existed has been told"},
		{"~a(u)@5; GAP expired 5..9; !~a(u)@9; SYNCED@9; ~a(u)@10; ~a(u)@11",
			"MODIFIED a(u)@5; GAP expired 5..9; MODIFIED a(u)@9 inferred; SYNCED@9; MODIFIED a(u)@11 coalesced 1", 0, "before GAP too; three states at most"},
		{"+a(u)@5; SYNCED@5; ~a(u)@6; +b(v)@7; GAP expired 7..9; !-b(v)@7; SYNCED@9",
			"ADDED a(u)@6 coalesced 1; ADDED b(v)@7; GAP expired 7..9; DELETED b(v)@7 inferred; SYNCED@9", 0, "a SYNCED that a GAP has overtaken is not true any more"},
		{"GAP expired 5..9; !~a(u)@8; !+b(v)@9; SYNCED@9; ~a(u)@10; GAP poison 10..12; !-b(v)@9; !~a(u)@12; SYNCED@12",
			"GAP expired 5..12; MODIFIED a(u)@12 coalesced 2 inferred; SYNCED@12", 2, "two GAPs are one from the first to the last"},
		{"GAP expired 5..9; !~a(u)@8; SYNCED@9; GAP rewound 9..4; !~a(u)@3; SYNCED@4",
			"GAP rewound 5..4; MODIFIED a(u)@3 coalesced 1 inferred; SYNCED@4", 0, "that the server has gone back in time is the stronger word"},
		{"GAP rewound 5..3; GAP expired 3..9; SYNCED@9", "GAP rewound 5..9; SYNCED@9", 0, "in any order"},
		{"GAP expired 5..9; !-a(u)@4; SYNCED@9; GAP rewound 9..3; !+a(u)@3; SYNCED@3",
			"GAP rewound 5..3; MODIFIED a(u)@3 coalesced 1 inferred; SYNCED@3", 0, "what is back is known"},
		{"GAP expired 5..9; GAP expired 5..9; GAP expired 5..9; GAP expired 5..10; SYNCED@10", "GAP expired 5..10; SYNCED@10", 0, "any number of them"},
		{"GAP expired 5..9 lost; +a(u)@8; +b(v)@9; SYNCED@9; GAP expired 9..12 lost; +a(u)@8; SYNCED@12",
			"GAP expired 5..12 history lost; ADDED a(u)@8; SYNCED@12", 2, "without an index b would stay for ever: nobody tells its end"},
		{"GAP expired 5..9 lost; +a(u)@8; +b(v)@9; GAP restarted 9..12 lost; +a(u)@8; SYNCED@12",
			"GAP expired 5..12 history lost; ADDED a(u)@8; SYNCED@12", 2, "the same where the snapshot broke off"},
		{"GAP expired 5..9 lost; !+a(u)@8; GAP rewound 9..4 lost; !~a(u)@3; SYNCED@4",
			"GAP expired 5..9 history lost; ADDED a(u)@8 inferred; GAP rewound 9..4 history lost; MODIFIED a(u)@3 inferred; SYNCED@4", 0, "whether there is an index does not show"},
		{"GAP expired 5..9 lost; !+a(u)@8; SYNCED@9; GAP expired 9..12; !-a(u)@8; SYNCED@12",
			"GAP expired 5..12 history lost; SYNCED@12", 2, "one that did not lose history is told as one that did"},
		{"~a(u)@5; +a(u)@6; -a(u)@7", "DELETED a(u)@7 coalesced 2", 0, "told again without an index: it was known before"},
		{"GAP expired 5..9 in x; ~a(u)@8 in x; GAP expired 5..9 in y; ~a(u)@9 in x; ~b(v)@9 in y; SYNCED@; GAP expired 9..12 in x; ~a(u)@12 in x; SYNCED@",
			"GAP expired 5..12 in x; GAP expired 5..9 in y; MODIFIED y/b(v)@9; MODIFIED x/a(u)@12 coalesced 2; SYNCED", 0, "the GAP of another namespace parts nothing"},
		{"BOOKMARK@5; BOOKMARK@6; ~a(u)@7; BOOKMARK@8", "MODIFIED a(u)@7; BOOKMARK@8", 0, "only the last one counts"},
		{"~a(u)@5; BOOKMARK@6; ~a(u)@7", "MODIFIED a(u)@7 coalesced 1", 0, "up to 6 not everything has been told"},
		{"~b(v)@5; BOOKMARK@6; ~a(u)@7; ~a(u)@8", "MODIFIED b(v)@5; BOOKMARK@6; MODIFIED a(u)@8 coalesced 1", 0, "up to 6 everything has been told"},
		{"GAP expired 5..9 lost; +a(u)@8; SYNCED@9; BOOKMARK@10; GAP expired 10..12 lost; +a(u)@8; SYNCED@12",
			"GAP expired 5..12 history lost; ADDED a(u)@8; SYNCED@12", 1, "what was true between two GAPs that become one is not told"},
		{"GAP expired 5..9; SYNCED@9; BOOKMARK@20; GAP rewound 20..4; !~a(u)@3; SYNCED@4",
			"GAP rewound 5..4; MODIFIED a(u)@3 inferred; SYNCED@4", 0, "the server never gets back to that as the same"},
		{"GAP expired 5..9 lost; +a(u)@8; GAP rewound 9..4 lost; +b(v)@3; GAP rewound 4..2 lost; +c(w)@1; SYNCED@2",
			"GAP expired 5..9 history lost; ADDED a(u)@8; GAP rewound 9..2 history lost; ADDED c(w)@1; SYNCED@2", 1, "an index does not lose its history twice, so there is none"},
		{"GAP expired 5..9; !+a(u)@8; SYNCED@9; -a(u)@10; +a(u)@11; GAP expired 11..13; !-a(u)@11; SYNCED@13",
			"GAP expired 5..13; SYNCED@13", 4, "of what was never told no end is, also where it came back in between"},
		{"+a(u)@8 in x; SYNCED@9; -a(u)@10 in x; +a(u)@11 in x; GAP expired 11..13 in y; -a(u)@14 in x; SYNCED@15",
			"GAP expired 11..13 in y; SYNCED@15", 4, "nor where the GAP was another's"},
		{"SYNCED@5; ~a(u)@6; SYNCED@7; ~a(u)@8", "MODIFIED a(u)@6; SYNCED@7; MODIFIED a(u)@8", 0, "no Stream does that; one is enough"},
	}
	for _, tt := range tests {
		t.Run(tt.events, func(t *testing.T) {
			told, st := whileBusy(t, parseAll(t, tt.events))
			var got []string
			var stood uint64
			for _, ev := range told {
				got = append(got, strings.NewReplacer("()", "", "SYNCED @", "SYNCED@", "BOOKMARK @", "BOOKMARK@").Replace(streamtest.TextUID(ev)))
				if ev.Source != "a" {
					t.Errorf("%s: its source is %q", streamtest.Text(ev), ev.Source)
				}
				stood += uint64(ev.Coalesced)
			}
			want := strings.Split(tt.want, "; ")
			if tt.want == "" {
				want = nil
			}
			for i := range got { // as the text of streamtest has it
				got[i] = order(got[i])
			}
			for i := range want {
				want[i] = order(want[i])
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tt.why, diff)
			}
			if st.Vanished != tt.vanished || st.Queued != len(told) {
				t.Errorf("%s: vanished %d, queued %d, want %d, %d", tt.why, st.Vanished, st.Queued, tt.vanished, len(told))
			}
			if st.Vanished == 0 && st.Coalesced != stood {
				t.Errorf("%s: %d coalesced, and %d stood for", tt.why, st.Coalesced, stood)
			}
		})
	}
}

// order makes the words of a text come in one order.
func order(text string) string {
	if before, ok := strings.CutSuffix(text, " inferred"); ok && strings.Contains(text, "coalesced") {
		event, stood, _ := strings.Cut(before, " coalesced ")
		return event + " inferred coalesced " + stood
	}
	return text
}

func TestGapsBecomeOne(t *testing.T) {
	told, _ := whileBusy(t, parseAll(t, "GAP expired 5..9; SYNCED@9; GAP poison 9..12; GAP expired 12..15"))
	if len(told) != 1 || told[0].Gap == nil {
		t.Fatalf("told %v", streamtest.Texts(told))
	}
	want := stream.GapDetails{Reason: stream.GapExpired, From: "5", To: "15", Duration: 3}
	if diff := cmp.Diff(want, *told[0].Gap); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestLatestIsBounded: whatever comes while the loop is busy, it waits for no more
// than what there is, three times over.
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
		events = append(events, parse(t, fmt.Sprintf("GAP expired %d..%d", version, version)), parse(t, "SYNCED@1"), parse(t, "BOOKMARK@1"))
	}
	told, st := whileBusy(t, events)
	if most := 3*2*objects + 4; len(told) > most || st.Queued > most {
		t.Errorf("%d events were told and %d queued, want at most %d", len(told), st.Queued, most)
	}
	if st.Bytes > 3*2*objects*400 || st.Bytes <= 0 {
		t.Errorf("they have %d bytes", st.Bytes)
	}
}

// TestLatestIsRead: the source is never held up by the loop.
func TestLatestIsRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := &scripted{key: "a", play: func(_ context.Context, put func(stream.Event) bool) error {
			for i := range 100_000 {
				put(modified("x", fmt.Sprint(i)))
			}
			return nil
		}}
		m := newMux(t, &mux.Options{Overflow: mux.Latest, Events: 1, Bytes: 1}, source)
		n, stood := 0, 0
		for ev, err := range m.Events(anHour(t)) {
			if err != nil {
				t.Fatal(err)
			}
			n++
			stood += 1 + ev.Coalesced
			if n == 1 {
				synctest.Wait()
				if source.isOpen() {
					t.Error("it waits for the loop")
				}
			}
		}
		if n != 2 && n != 1 || stood != 100_000 {
			t.Errorf("%d events stood for %d", n, stood)
		}
	})
}
