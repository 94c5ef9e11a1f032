package wait_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gvrwatch/gvrwatch/internal/wait"
)

func TestDoubledGrowsUpToMost(t *testing.T) {
	tests := []struct {
		attempt     int
		first, most time.Duration
		want        time.Duration
		why         string
	}{
		{1, time.Second, time.Minute, time.Second, "the first attempt"},
		{0, time.Second, time.Minute, time.Second, "attempts count from 1"},
		{4, time.Second, time.Minute, 8 * time.Second, "doubled three times"},
		{7, time.Second, time.Minute, time.Minute, "up to most"},
		{1 << 40, time.Second, time.Minute, time.Minute, "without overflow"},
	}
	for _, tt := range tests {
		if got := wait.Doubled(tt.attempt, tt.first, tt.most); got != tt.want {
			t.Errorf("%s: got %v, want %v", tt.why, got, tt.want)
		}
	}
}

func TestRaisedGrowsUpToMost(t *testing.T) {
	tests := []struct {
		attempt     int
		first, most time.Duration
		want        time.Duration
		why         string
	}{
		{1, 400, 10_000, 400, "the first attempt"},
		{-1, 400, 10_000, 400, "attempts count from 1"},
		{3, 400, 10_000, 625, "raised twice"},
		{30, 400, 10_000, 10_000, "up to most"},
		{1 << 40, time.Second, time.Minute, time.Minute, "without overflow"},
		{2, time.Minute, time.Second, time.Second, "most is less than first"},
	}
	for _, tt := range tests {
		if got := wait.Raised(tt.attempt, tt.first, tt.most); got != tt.want {
			t.Errorf("%s: got %v, want %v", tt.why, got, tt.want)
		}
	}
}

// A sleep ends after its duration, at a signal, or with its context.
func TestSleepEndsAtWhateverIsFirst(t *testing.T) {
	tests := []struct {
		signal, cancel, sleep time.Duration // zero for none
		want                  bool
		took                  time.Duration
		why                   string
	}{
		{0, 0, time.Minute, true, time.Minute, "the duration ends it"},
		{time.Second, 0, time.Minute, true, time.Second, "a signal ends it"},
		{0, time.Second, time.Minute, false, time.Second, "the context ends it"},
		{0, 0, 0, true, 0, "no duration"},
	}
	for _, tt := range tests {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			wake := wait.NewSignal()
			if tt.signal > 0 {
				time.AfterFunc(tt.signal, func() { wake.Send(); wake.Send() }) // the second Send does not block
			}
			if tt.cancel > 0 {
				time.AfterFunc(tt.cancel, cancel)
			}
			began := time.Now()
			if got := wait.Sleep(ctx, tt.sleep, wake); got != tt.want || time.Since(began) != tt.took {
				t.Errorf("%s: got %v after %v, want %v after %v", tt.why, got, time.Since(began), tt.want, tt.took)
			}
		})
	}
}

func TestBetweenUsesTheWholeRange(t *testing.T) {
	const least, most = time.Second, 3 * time.Second
	lowest, highest := most, least
	for range 1000 {
		d := wait.Between(least, most)
		if d < least || d > most {
			t.Fatalf("%v is not between %v and %v", d, least, most)
		}
		lowest, highest = min(lowest, d), max(highest, d)
	}
	// All 1000 in three quarters of the range: one chance in 10^124.
	if lowest > least+(most-least)/4 || highest < most-(most-least)/4 {
		t.Errorf("1000 durations between %v and %v are not spread out", lowest, highest)
	}
	if d := wait.Between(least, least); d != least {
		t.Errorf("between %v and %v: got %v", least, least, d)
	}
}
