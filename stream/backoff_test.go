package stream

import (
	"testing"
	"time"
)

func TestBackoff(t *testing.T) {
	tests := []struct {
		bounds      func(int) (time.Duration, time.Duration)
		attempt     int
		least, most time.Duration
		why         string
	}{
		{backoff, -1, 0, 200 * time.Millisecond, "no such attempt, no panic"},
		{backoff, 1, 0, 200 * time.Millisecond, "most failures are a moment's"},
		{backoff, 2, 0, 1600 * time.Millisecond, "a server that closes after each event is asked here, over and over"},
		{backoff, 3, 0, 3200 * time.Millisecond, "doubled"},
		{backoff, 6, 0, 25600 * time.Millisecond, "doubled"},
		{backoff, 7, 0, 30 * time.Second, "half a minute is enough"},
		{backoff, 1 << 40, 0, 30 * time.Second, "no overflow"},
		{refusedBackoff, -1, time.Second, 2 * time.Second, "no such attempt, no panic"},
		{refusedBackoff, 1, time.Second, 2 * time.Second, "a refusal does not go away at once"},
		{refusedBackoff, 3, 4 * time.Second, 8 * time.Second, "doubled"},
		{refusedBackoff, 1 << 40, 7500 * time.Millisecond, 15 * time.Second, "rights that come back are noticed within 15 s"},
	}
	for _, tt := range tests {
		if least, most := tt.bounds(tt.attempt); least != tt.least || most != tt.most {
			t.Errorf("attempt %d: %v to %v, want %v to %v: %s", tt.attempt, least, most, tt.least, tt.most, tt.why)
		}
	}
}
