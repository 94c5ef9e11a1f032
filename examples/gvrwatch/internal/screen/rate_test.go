package screen_test

import (
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gvrwatch/gvrwatch/examples/gvrwatch/internal/screen"
)

func TestRate(t *testing.T) {
	const ms = time.Millisecond
	tests := []struct {
		each  time.Duration // one event
		for_  time.Duration
		after time.Duration // without events
		want  float64
		why   string
	}{
		{0, 0, 0, 0, "no event"},
		{50 * ms, 200 * ms, 0, 4, "four events in less than a second"},
		{100 * ms, 3 * time.Second, 0, 10, "a mean since the first event"},
		{100 * ms, time.Hour, 0, 10, "steady"},
		{10 * ms, time.Minute, 0, 100, "more"},
		{100 * ms, time.Minute, 2500 * ms, 20 / 4.5, "20 events in the last 4.5 s"},
		{100 * ms, time.Minute, 5 * time.Second, 0, "after five seconds it is over"},
		{100 * ms, time.Minute, 24 * 365 * time.Hour, 0, "a long time later"},
	}
	for _, tt := range tests {
		synctest.Test(t, func(t *testing.T) {
			var r screen.Rate
			for began := time.Now(); time.Since(began) < tt.for_; time.Sleep(tt.each) {
				r.Add(1)
			}
			time.Sleep(tt.after)
			if got := r.PerSecond(); math.Abs(got-tt.want) > tt.want/20 {
				t.Errorf("%s: want %v, got %v", tt.why, tt.want, got)
			}
		})
	}
}
