package acks

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// gracePeriod is how long a Store may take to return after its ctx has ended.
const gracePeriod = time.Second

var errNoAnswer = errors.New("the Store does not answer")

// ask calls the Store through f, with a context that ends after a timeout, and not with ctx. If the Store does not
// answer, ask returns errNoAnswer, and late is called with the answer when it comes.
func ask(ctx context.Context, timeout time.Duration, late func(error), f func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
	defer cancel()
	tooLate := make(chan struct{}) // closed some time after ctx ends, so that the Store can return ctx's error
	defer context.AfterFunc(ctx, func() { time.AfterFunc(gracePeriod, func() { close(tooLate) }) })()
	return call(tooLate, late, func() error { return f(ctx) })
}

// call calls the Store through f. If f has not returned when tooLate is closed, call returns errNoAnswer, and a
// goroutine calls late with the error of f as soon as f has returned. A panic becomes an error.
func call(tooLate <-chan struct{}, late func(error), f func() error) error {
	answers := make(chan error, 1)
	go func() {
		err := errors.New("the Store called runtime.Goexit")
		defer func() {
			if p := recover(); p != nil {
				err = fmt.Errorf("the Store panicked: %v", p)
			}
			answers <- err
		}()
		err = f()
	}()
	select {
	case err := <-answers:
		return err
	case <-tooLate:
		go func() { late(<-answers) }()
		return errNoAnswer
	}
}
