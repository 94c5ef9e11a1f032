package acks

import (
	"errors"
	"fmt"
	"time"
)

// gracePeriod is how long a Store may take to return after its ctx has ended.
const gracePeriod = time.Second

var errNoAnswer = errors.New("the Store does not answer")

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
