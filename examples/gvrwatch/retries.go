package main

import (
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/gvrwatch/gvrwatch/stream"
)

// retries gathers what several types report in the same second for the same reason, as when a server goes down:
//
//	gvrwatch: 12 types: trying again in 1.2s: dial tcp 127.0.0.1:6443: connect: connection refused
//
// A type that is alone in its second has its own line. Lines that are not written yet are written by flush.
type retries struct {
	w io.Writer

	mu     sync.Mutex
	bursts []*burst // in the order of their first reports
}

// burst is what types have reported for one reason.
type burst struct {
	reason    string // without what differs from type to type
	resources []string
	last      string // what the last one does now
	err       error  // of the last one; nil if it has recovered
	timer     *time.Timer
}

const gatherTime = time.Second

// add reports that the Stream of a resource does something because of err.
func (r *retries) add(resource, does string, err error) {
	reason := recovered
	if err != nil {
		reason = rootCause(err).Error()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	// What a type has reported before for another reason comes first.
	for _, b := range slices.Clone(r.bursts) {
		if b.reason != reason && slices.Contains(b.resources, resource) {
			r.print(b)
		}
	}
	i := slices.IndexFunc(r.bursts, func(b *burst) bool { return b.reason == reason })
	if i < 0 {
		b := &burst{reason: reason}
		b.timer = time.AfterFunc(gatherTime, func() {
			r.mu.Lock()
			defer r.mu.Unlock()
			for range slices.Index(r.bursts, b) + 1 { // those before it are due, too
				r.print(r.bursts[0])
			}
		})
		i, r.bursts = len(r.bursts), append(r.bursts, b)
	}
	b := r.bursts[i]
	if !slices.Contains(b.resources, resource) {
		b.resources = append(b.resources, resource)
	}
	b.last, b.err = does, err
}

// settle writes what waits of a resource, before another line about it.
func (r *retries) settle(resource string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, b := range slices.Clone(r.bursts) {
		if slices.Contains(b.resources, resource) {
			r.print(b)
		}
	}
}

// flush writes what waits.
func (r *retries) flush() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.bursts) > 0 {
		r.print(r.bursts[0])
	}
}

// print writes the line of a burst, unless it is written already.
func (r *retries) print(b *burst) {
	i := slices.Index(r.bursts, b)
	if i < 0 {
		return
	}
	r.bursts = slices.Delete(r.bursts, i, i+1)
	b.timer.Stop()
	cause := ""
	switch {
	case b.err != nil && len(b.resources) == 1:
		cause = ": " + b.err.Error()
	case b.err != nil:
		cause = ": " + b.reason
	}
	who := b.resources[0]
	if n := len(b.resources); n > 1 {
		who = fmt.Sprintf("%d types", n)
	}
	printMessage(r.w, "%s: %s%s", who, b.last, cause)
}

// rootCause returns the error without the request that has failed, which names the resource.
func rootCause(err error) error {
	var request *stream.RequestError
	if errors.As(err, &request) {
		err = request.Err
	}
	var broken *url.Error
	if errors.As(err, &broken) {
		err = broken.Err
	}
	return err
}
