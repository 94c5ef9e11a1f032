package checkpoint

import (
	"errors"
	"fmt"
	"time"
)

// grace is how long a Store whose ctx has ended may take to say so.
const grace = time.Second

var errHangs = errors.New("the Store does not answer")

// ask calls the Store. If it has not answered when late is closed, ask returns
// errHangs, and hung is called when it has. A panic is an error.
func ask[T any](late <-chan struct{}, hung func(), call func() (T, error)) (T, error) {
	type answer struct {
		v   T
		err error
	}
	answers := make(chan answer, 1)
	go func() {
		a := answer{err: errors.New("the Store has ended its goroutine")}
		defer func() {
			if p := recover(); p != nil {
				a.err = fmt.Errorf("the Store panicked: %v", p)
			}
			answers <- a
		}()
		a.v, a.err = call()
	}()
	select {
	case a := <-answers:
		return a.v, a.err
	case <-late:
		go func() {
			<-answers
			hung()
		}()
		var none T
		return none, errHangs
	}
}
