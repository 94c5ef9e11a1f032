package main

import (
	"context"
	"math/rand/v2"
	"time"
)

func resetAll(_ context.Context, w *world, _ *rand.Rand) error {
	w.proxy.reset(everyConn)
	return nil
}

func resetSome(_ context.Context, w *world, r *rand.Rand) error {
	odd := r.IntN(2)
	w.proxy.reset(func(n int) bool { return n%2 == odd })
	return nil
}

// cutFrame ends each watch after half of its next frame: with a clean end, with a broken response, or with a reset of
// its connection.
func cutFrame(ctx context.Context, w *world, r *rand.Rand) error {
	o := frameOrder{half: true}
	switch r.IntN(3) {
	case 0:
		o.err = errBroken
	case 1:
		o.by = (*proxyConn).reset
	}
	w.proxy.orderAll(o)
	pause(ctx, time.Second) // until most watches had a frame
	return nil
}

func endWatches(_ context.Context, w *world, _ *rand.Rand) error {
	w.proxy.orderAll(frameOrder{})
	return nil
}

func halfOpen(ctx context.Context, w *world, r *rand.Rand) error {
	w.proxy.swallow(false)
	pause(ctx, between(r, 3*time.Second, 7*time.Second))
	w.proxy.revive()
	return nil
}

func partition(ctx context.Context, w *world, r *rand.Rand) error {
	w.proxy.swallow(true)
	pause(ctx, between(r, time.Second, 4*time.Second))
	w.proxy.revive()
	return nil
}

func slow(ctx context.Context, w *world, r *rand.Rand) error {
	w.proxy.rate.Store(int64(2000 << r.IntN(5)))
	pause(ctx, between(r, time.Second, 3*time.Second))
	w.proxy.rate.Store(0)
	return nil
}

// answerFalsely also ends the open watches, unless the false answer does.
func answerFalsely(ctx context.Context, w *world, r *rand.Rand, a *falseAnswer) error {
	w.proxy.answerWith(a)
	if a.frame == nil {
		w.proxy.reset(everyConn)
	} else {
		w.proxy.orderAll(frameOrder{add: a.frame, goOn: a.goOn})
	}
	pause(ctx, between(r, 300*time.Millisecond, 2500*time.Millisecond))
	w.proxy.answerWith(nil)
	return nil
}

// newTokens resets the connections, so that clients must use their tokens.
func newTokens(ctx context.Context, w *world, r *rand.Rand) error {
	publish := w.renewTokens()
	w.proxy.reset(everyConn)
	pause(ctx, between(r, 200*time.Millisecond, 2*time.Second))
	return publish()
}
