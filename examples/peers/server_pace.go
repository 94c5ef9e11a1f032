package main

import (
	"context"
	"strconv"
	"time"
)

// tick is how often events are sent that come at a rate: half of one is the
// latency that it could hide, if they were stamped with when they were due.
const tick = 500 * time.Microsecond

// paced sends events at the rate until the run is over, each stamped with the time
// just before it is written, and flushes each time. Then some more come that are
// stamped with zeros, one of which everybody gets: that is the last one.
func (f *flood) sendAtRate(ctx context.Context, out *sink, rate float64, length time.Duration) {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	began, sent := time.Now(), 0
	for out.err == nil {
		gone := time.Since(began)
		if gone >= length {
			break
		}
		for due := int(gone.Seconds() * rate); sent < due && out.err == nil && time.Since(began) < length; {
			before := f.next
			out.write(f.nextBatch(due-sent, strconv.AppendInt(nil, time.Now().UnixNano(), 10)))
			sent += f.next - before
		}
		out.flush()
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
	for end := f.next + canaryEvery; f.next < end && out.err == nil; {
		out.write(f.nextBatch(end-f.next, zeroTime))
	}
	out.flush()
}
