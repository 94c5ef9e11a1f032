package discovery

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const ms = time.Millisecond

// looks runs a pace up to a time: who polls at that rate, with kicks and looks
// that take so long and may fail. It returns when the looks began.
func looks(until, poll, took time.Duration, kicks []time.Duration, fails func(at time.Duration) bool) []time.Duration {
	start := time.Unix(1e9, 0)
	p := &pace{}
	p.looked(start, start, false)
	var began []time.Duration
	for {
		next := p.next(poll).Sub(start)
		if len(kicks) > 0 && kicks[0] <= max(next, 0) {
			p.kick(start.Add(kicks[0]))
			kicks = kicks[1:]
			continue
		}
		if next > until {
			return began
		}
		began = append(began, next)
		p.looked(start.Add(next), start.Add(next+took), fails != nil && fails(next))
	}
}

func TestPace(t *testing.T) {
	tests := []struct {
		until, poll, took time.Duration
		kicks             []time.Duration
		want              []time.Duration
		why               string
	}{
		{time.Minute, 25 * time.Second, 0, nil, []time.Duration{25 * time.Second, 50 * time.Second}, "no kick"},
		{350 * ms, 1 * ms, 0, nil, []time.Duration{100 * ms, 200 * ms, 300 * ms}, "no poll is faster"},
		{10 * time.Second, time.Second, 2 * time.Second, nil, []time.Duration{time.Second, 9 * time.Second}, "a slow server: three quarters of the time are its own"},
		{
			10 * time.Second, time.Hour, 0, []time.Duration{time.Second},
			[]time.Duration{1050 * ms, 1400 * ms, 2000 * ms, 2800 * ms, 4000 * ms, 7000 * ms}, "a kick: again and again, as discovery lags",
		},
		{
			5 * time.Second, time.Hour, 0, []time.Duration{1000 * ms, 1010 * ms, 1040 * ms},
			[]time.Duration{1050 * ms, 1440 * ms, 2040 * ms, 2840 * ms, 4040 * ms}, "a burst is one change",
		},
		{
			3 * time.Second, time.Hour, 0, []time.Duration{1000 * ms, 1100 * ms},
			[]time.Duration{1050 * ms, 1150 * ms, 1500 * ms, 2100 * ms, 2900 * ms}, "the second one counts for the repetitions",
		},
		{
			1700 * ms, 1020 * ms, 0, []time.Duration{1010 * ms},
			[]time.Duration{1020 * ms, 1060 * ms, 1410 * ms}, "a poll 10 ms after a kick is too early to count",
		},
		{
			2 * time.Second, time.Hour, 0, []time.Duration{1000 * ms, 1060 * ms, 1120 * ms, 1180 * ms, 1240 * ms},
			[]time.Duration{1050 * ms, 1110 * ms, 1170 * ms, 1050*ms + time.Second/3, 1050*ms + 2*(time.Second/3)}, "three at once, and then three a second",
		},
		{
			2 * time.Second, 100 * ms, 0, []time.Duration{1910 * ms},
			[]time.Duration{100 * ms, 200 * ms, 300 * ms, 400 * ms, 500 * ms, 600 * ms, 700 * ms, 800 * ms, 900 * ms, time.Second, 1100 * ms, 1200 * ms, 1300 * ms, 1400 * ms, 1500 * ms, 1600 * ms, 1700 * ms, 1800 * ms, 1900 * ms, 2 * time.Second},
			"one who polls so often needs no kick",
		},
		{10 * time.Second, time.Hour, 4 * time.Second, []time.Duration{0}, []time.Duration{50 * ms, 8050 * ms}, "kicks, too, let a slow server rest"},
	}
	for _, tt := range tests {
		if diff := cmp.Diff(tt.want, looks(tt.until, tt.poll, tt.took, tt.kicks, nil)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.why, diff)
		}
	}
}

func TestPaceOfManyKicks(t *testing.T) {
	var kicks []time.Duration
	for at := time.Duration(0); at < time.Minute; at += 10 * ms {
		kicks = append(kicks, at)
	}
	began := looks(time.Minute, 1500*ms, 10*ms, kicks, nil)
	if n := len(began); n > 3*60+3 || n < 2*60 {
		t.Errorf("%d looks in a minute of kicks, want about 3 a second", n)
	}
	for i := range began[1:] {
		if gap := began[i+1] - began[i]; gap > 500*ms {
			t.Errorf("%v without a look while there are kicks", gap)
		}
	}
}

// Polls in quick succession are no reason to be late for a kick afterwards.
func TestPaceAfterManyPolls(t *testing.T) {
	now := time.Unix(1e9, 0)
	p := &pace{}
	for range 1000 {
		now = now.Add(100 * ms)
		p.looked(now, now, false)
	}
	p.kick(now)
	if wait := p.next(time.Hour).Sub(now); wait != kickedEvery {
		t.Errorf("the kick has to wait %v, want %v", wait, kickedEvery)
	}
}

func TestPaceOfFailures(t *testing.T) {
	began := looks(time.Hour, 1500*ms, 0, nil, func(time.Duration) bool { return true })
	var longest time.Duration
	for i := range began[1:] {
		gap := began[i+1] - began[i]
		longest = max(longest, gap)
		if bound := min(time.Second<<min(i, 10), 30*time.Second); gap > bound || gap < 100*ms {
			t.Errorf("failure %d: %v to the next look, want at most %v", i+1, gap, bound)
		}
	}
	// On average 15 s once it is at the bound.
	if n := len(began); n < 150 || n > 400 || longest < 15*time.Second {
		t.Errorf("%d looks in an hour, at most %v apart", n, longest)
	}
	healed := 10 * time.Minute
	began = looks(11*time.Minute, 1500*ms, 0, nil, func(at time.Duration) bool { return at < healed })
	if n := len(began); began[n-1]-began[n-2] != 1500*ms {
		t.Errorf("a look that succeeds ends the waiting: %v", began[n-3:])
	}
	began = looks(11*time.Minute, time.Hour, 0, []time.Duration{healed}, func(at time.Duration) bool { return true })
	if i := slices.IndexFunc(began, func(at time.Duration) bool { return at > healed }); i < 0 || began[i] > healed+350*ms {
		t.Errorf("a kick is a reason to look even so: %v", began)
	}
}
