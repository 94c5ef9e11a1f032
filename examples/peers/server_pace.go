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
// just before it is written, and flushes each time. Then one more comes that is
// stamped with zeros: the last one.
func (f *flood) paced(ctx context.Context, out *sink, rate int, length time.Duration) {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	began, sent := time.Now(), 0
	for out.err == nil {
		gone := time.Since(began)
		if gone >= length {
			break
		}
		for due := int(gone.Seconds() * float64(rate)); sent < due && out.err == nil && time.Since(began) < length; {
			before := f.next
			out.write(f.take(due-sent, strconv.AppendInt(nil, time.Now().UnixNano(), 10)))
			sent += f.next - before
		}
		out.flush()
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
	out.write(f.take(1, noSendTime))
	out.flush()
}
