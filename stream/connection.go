package stream

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

const (
	// overtime is how long after its lifetime a watch may still end by itself.
	overtime = 30 * time.Second
	// partingTime is how long close waits for the watch's goroutine.
	partingTime = time.Second
)

var errOverdue = errors.New("the connection is dead: the server should have ended the watch by now")

// connection is a watch that the server has accepted.
type connection struct {
	watch  watch.Interface
	cancel context.CancelCauseFunc
	opened time.Time
	death  *time.Timer // fires when the server should long have ended it

	check func(*unstructured.Unstructured) (object, error)
	told  told // by the frame last received
}

// told is what a frame tells of an object.
type told struct {
	object
	deleted bool
}

func (t told) changes(x *index, old bool) []change {
	switch {
	case t.deleted && old:
		return x.removeOld(t.object)
	case t.deleted:
		return x.remove(t.object)
	case old:
		return x.putOld(t.object)
	}
	return x.put(t.object)
}

// take returns what was received last, once: nothing keeps it after that.
func (c *connection) take() told {
	t := c.told
	c.told = told{}
	return t
}

// receive waits for the next frame, or for the end.
func (c *connection) receive(ctx context.Context) input {
	select {
	case ev, ok := <-c.watch.ResultChan():
		if !ok {
			return closed{after: time.Since(c.opened)}
		}
		in, err := c.read(ev)
		if err != nil {
			// Whatever comes after an error is not to be trusted.
			return closed{time.Since(c.opened), err}
		}
		return in
	case <-c.death.C:
		return closed{time.Since(c.opened), errOverdue}
	case <-ctx.Done():
		return closed{}
	}
}

func (c *connection) read(ev watch.Event) (input, error) {
	switch ev.Type {
	case watch.Added, watch.Modified, watch.Deleted, watch.Bookmark:
	case watch.Error:
		return nil, errorOf(ev.Object)
	default:
		return nil, fmt.Errorf("the server sent an event of the unknown type %q", ev.Type)
	}
	u, ok := ev.Object.(*unstructured.Unstructured)
	if !ok || u == nil {
		return nil, fmt.Errorf("the client sent a %T instead of an *unstructured.Unstructured", ev.Object)
	}
	if ev.Type == watch.Bookmark {
		return frame{bookmark: true, rv: u.GetResourceVersion()}, nil
	}
	o, err := c.check(u)
	if err != nil {
		return nil, err
	}
	c.told = told{o, ev.Type == watch.Deleted}
	if strings.HasPrefix(o.version, noVersion) {
		return frame{}, nil
	}
	return frame{rv: o.version}, nil
}

// errorOf is what an ERROR event says.
func errorOf(o runtime.Object) error {
	if v := reflect.ValueOf(o); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		return errors.New("the server sent an ERROR event that says nothing")
	}
	return apierrors.FromObject(o)
}

// close ends the watch and waits for its goroutine. It may be called on nil.
func (c *connection) close() {
	if c == nil {
		return
	}
	c.death.Stop()
	c.watch.Stop()
	c.cancel(nil)
	// watch.Interface promises that the channel is closed after Stop. Not every
	// double keeps it (watch.NewProxyWatcher): then there is nothing to wait for.
	parting := time.NewTimer(partingTime)
	defer parting.Stop()
	for {
		select {
		case _, ok := <-c.watch.ResultChan():
			if !ok {
				return
			}
		case <-parting.C:
			return
		}
	}
}

// brokenWatch recognises what client-go returns, with a nil error, when the
// connection broke or timed out before the server answered. It is no answer of
// the server, so it says nothing about the version asked for.
func brokenWatch(w watch.Interface) bool {
	return reflect.TypeOf(w) == reflect.TypeOf(watch.NewEmptyWatch())
}
