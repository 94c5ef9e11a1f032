package discovery

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const ms = time.Millisecond

// scenario is a schedule's input. Times are since its start.
type scenario struct {
	until     time.Duration               // when it ends
	interval  time.Duration               // between polls
	took      time.Duration               // by each poll
	refreshes []time.Duration             // calls of Refresh
	fails     func(at time.Duration) bool // whether the poll at that time fails; nil: none does
}

// run returns when the polls of the scenario started.
func (sc scenario) run() []time.Duration {
	start := time.Unix(1e9, 0)
	s := &schedule{}
	s.polled(start, start, false)
	var polls []time.Duration
	refreshes := sc.refreshes
	for {
		next := s.next(sc.interval).Sub(start)
		if len(refreshes) > 0 && refreshes[0] <= max(next, 0) {
			s.refresh(start.Add(refreshes[0]))
			refreshes = refreshes[1:]
			continue
		}
		if next > sc.until {
			return polls
		}
		polls = append(polls, next)
		s.polled(start.Add(next), start.Add(next+sc.took), sc.fails != nil && sc.fails(next))
	}
}

// every returns the multiples of interval up to until.
func every(interval, until time.Duration) []time.Duration {
	var times []time.Duration
	for at := interval; at <= until; at += interval {
		times = append(times, at)
	}
	return times
}

func TestScheduleOfPollsAndRefreshes(t *testing.T) {
	tests := []struct {
		scenario
		want []time.Duration
		why  string
	}{
		{
			scenario{until: time.Minute, interval: 25 * time.Second},
			[]time.Duration{25 * time.Second, 50 * time.Second},
			"without a Refresh, the interval alone counts",
		},
		{scenario{until: 350 * ms, interval: 1 * ms}, every(100*ms, 300*ms), "the minimum interval is 100 ms"},
		{
			scenario{until: 10 * time.Second, interval: time.Second, took: 2 * time.Second},
			[]time.Duration{time.Second, 9 * time.Second},
			"a slow server rests three quarters of the time",
		},
		{
			scenario{until: 10 * time.Second, interval: time.Hour, refreshes: []time.Duration{time.Second}},
			[]time.Duration{1050 * ms, 1400 * ms, 2000 * ms, 2800 * ms, 4000 * ms, 7000 * ms},
			"a Refresh causes several polls, because discovery documents lag",
		},
		{
			scenario{
				until: 5 * time.Second, interval: time.Hour,
				refreshes: []time.Duration{1000 * ms, 1010 * ms, 1040 * ms},
			},
			[]time.Duration{1050 * ms, 1440 * ms, 2040 * ms, 2840 * ms, 4040 * ms},
			"a burst of Refreshes counts once",
		},
		{
			scenario{until: 3 * time.Second, interval: time.Hour, refreshes: []time.Duration{1000 * ms, 1100 * ms}},
			[]time.Duration{1050 * ms, 1150 * ms, 1500 * ms, 2100 * ms, 2900 * ms},
			"the later polls count from the last Refresh",
		},
		{
			scenario{until: 1700 * ms, interval: 1020 * ms, refreshes: []time.Duration{1010 * ms}},
			[]time.Duration{1020 * ms, 1060 * ms, 1410 * ms},
			"a poll less than 50 ms after a Refresh does not replace the Refresh's own",
		},
		{
			scenario{
				until: 2 * time.Second, interval: time.Hour,
				refreshes: []time.Duration{1000 * ms, 1060 * ms, 1120 * ms, 1180 * ms, 1240 * ms},
			},
			[]time.Duration{1050 * ms, 1110 * ms, 1170 * ms, 1050*ms + time.Second/3, 1050*ms + 2*(time.Second/3)},
			"Refreshes cause three polls at once, then three a second",
		},
		{
			scenario{until: 2 * time.Second, interval: 100 * ms, refreshes: []time.Duration{1910 * ms}},
			every(100*ms, 2*time.Second),
			"a Refresh adds nothing to polls at the minimum interval",
		},
		{
			scenario{
				until: 10 * time.Second, interval: time.Hour, took: 4 * time.Second,
				refreshes: []time.Duration{0},
			},
			[]time.Duration{50 * ms, 8050 * ms},
			"a slow server rests between the polls of a Refresh, too",
		},
	}
	for _, tt := range tests {
		if diff := cmp.Diff(tt.want, tt.scenario.run()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.why, diff)
		}
	}
}

func TestScheduleLimitsRefreshesToThreePollsASecond(t *testing.T) {
	sc := scenario{until: time.Minute, interval: 1500 * ms, took: 10 * ms}
	for at := time.Duration(0); at < time.Minute; at += 10 * ms {
		sc.refreshes = append(sc.refreshes, at)
	}
	polls := sc.run()
	if n := len(polls); n > 3*60+3 || n < 2*60 {
		t.Errorf("%d polls in a minute of Refreshes, want about 3 a second", n)
	}
	for i := range polls[1:] {
		if gap := polls[i+1] - polls[i]; gap > 500*ms {
			t.Errorf("%v without a poll during Refreshes", gap)
		}
	}
}

func TestScheduleRefreshAfterManyPollsIsNotLate(t *testing.T) {
	now := time.Unix(1e9, 0)
	s := &schedule{}
	for range 1000 {
		now = now.Add(100 * ms)
		s.polled(now, now, false)
	}
	s.refresh(now)
	if wait := s.next(time.Hour).Sub(now); wait != refreshInterval {
		t.Errorf("the poll comes %v after the Refresh, want %v", wait, refreshInterval)
	}
}

func TestScheduleBacksOffAfterFailures(t *testing.T) {
	always := func(time.Duration) bool { return true }
	polls := scenario{until: time.Hour, interval: 1500 * ms, fails: always}.run()
	var longest time.Duration
	for i := range polls[1:] {
		gap := polls[i+1] - polls[i]
		longest = max(longest, gap)
		if bound := min(time.Second<<min(i, 10), 30*time.Second); gap > bound || gap < 100*ms {
			t.Errorf("failure %d: next poll after %v, want at most %v", i+1, gap, bound)
		}
	}
	// The mean delay is 15 s once the bound is reached.
	if n := len(polls); n < 150 || n > 400 || longest < 15*time.Second {
		t.Errorf("%d polls in an hour, at most %v apart", n, longest)
	}
}

func TestScheduleReturnsToTheIntervalAfterASuccess(t *testing.T) {
	healed := 10 * time.Minute
	before := func(at time.Duration) bool { return at < healed }
	polls := scenario{until: 11 * time.Minute, interval: 1500 * ms, fails: before}.run()
	if n := len(polls); polls[n-1]-polls[n-2] != 1500*ms {
		t.Errorf("the last polls were at %v, want them 1.5s apart", polls[n-3:])
	}
}

func TestScheduleRefreshOverridesTheBackoff(t *testing.T) {
	at := 10 * time.Minute
	polls := scenario{
		until: 11 * time.Minute, interval: time.Hour, refreshes: []time.Duration{at},
		fails: func(time.Duration) bool { return true },
	}.run()
	if i := slices.IndexFunc(polls, func(p time.Duration) bool { return p > at }); i < 0 || polls[i] > at+350*ms {
		t.Errorf("no poll within 350ms of the Refresh at %v: %v", at, polls)
	}
}
