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
		{backoff, -1, 100 * time.Millisecond, 200 * time.Millisecond, "a negative attempt counts as the first"},
		{backoff, 1, 100 * time.Millisecond, 200 * time.Millisecond, "most failures are short"},
		{backoff, 3, 400 * time.Millisecond, 800 * time.Millisecond, "for a server that closes after each event"},
		{backoff, 8, 12800 * time.Millisecond, 25600 * time.Millisecond, "doubled"},
		{backoff, 9, 15 * time.Second, 30 * time.Second, "30 s at most"},
		{backoff, 1 << 40, 15 * time.Second, 30 * time.Second, "no overflow"},
		{refusedBackoff, -1, time.Second, 2 * time.Second, "a negative attempt counts as the first"},
		{refusedBackoff, 1, time.Second, 2 * time.Second, "a refusal lasts longer than a broken connection"},
		{refusedBackoff, 3, 4 * time.Second, 8 * time.Second, "doubled"},
		{refusedBackoff, 1 << 40, 7500 * time.Millisecond, 15 * time.Second, "restored rights are noticed in 15 s"},
	}
	for _, tt := range tests {
		if least, most := tt.bounds(tt.attempt); least != tt.least || most != tt.most {
			t.Errorf("attempt %d: %v to %v, want %v to %v: %s", tt.attempt, least, most, tt.least, tt.most, tt.why)
		}
	}
}
