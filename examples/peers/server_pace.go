package main

import (
	"context"
	"strconv"
	"time"
)

// tick is the interval in which sendAtRate sends events. An event waits half a tick on average after it is due; that
// wait is not part of its latency, because its stamp has the time of the write.
const tick = 500 * time.Microsecond

// sendAtRate sends events at the rate until length is over, each stamped with the time just before it is written, and
// flushes after each tick. Then it sends canaryEvery more with zeroTime, which end the measurement: at least one of
// them passes every peer's Select.
func (f *flood) sendAtRate(ctx context.Context, out *sink, rate float64, length time.Duration) {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	began, sent := time.Now(), 0
	for out.err == nil {
		elapsed := time.Since(began)
		if elapsed >= length {
			break
		}
		for due := int(elapsed.Seconds() * rate); sent < due && out.err == nil && time.Since(began) < length; {
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
