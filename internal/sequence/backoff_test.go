package sequence

import (
	"testing"
	"time"

	"github.com/gvrwatch/gvrwatch/internal/protocol"
)

func TestBackoff(t *testing.T) {
	failed, refused := protocol.Failure{}, protocol.Failure{Class: protocol.Forbidden}
	tests := []struct {
		cause       protocol.Failure
		attempt     int
		least, most time.Duration
		why         string
	}{
		{failed, -1, 100 * time.Millisecond, 200 * time.Millisecond, "a negative attempt counts as the first"},
		{failed, 1, 100 * time.Millisecond, 200 * time.Millisecond, "most failures are short"},
		{failed, 3, 156250 * time.Microsecond, 312500 * time.Microsecond, "raised twice"},
		{failed, 24, 15 * time.Second, 30 * time.Second, "30 s at most"},
		{failed, 1 << 40, 15 * time.Second, 30 * time.Second, "no overflow"},
		{refused, 1, 100 * time.Millisecond, 200 * time.Millisecond, "a CRD that is recreated"},
		{refused, 1 << 40, 7500 * time.Millisecond, 15 * time.Second, "restored rights are noticed in 15 s"},
	}
	for _, tt := range tests {
		least, most := backoff(protocol.Waiting{Attempt: tt.attempt, Cause: tt.cause})
		if least != tt.least || most != tt.most {
			t.Errorf("attempt %d: %v to %v, want %v to %v: %s", tt.attempt, least, most, tt.least, tt.most, tt.why)
		}
	}
}
