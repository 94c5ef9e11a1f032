package protocol

import "time"

// Failure is why a request failed or a connection ended. Err is for people: only
// Class and RetryAfter decide what happens. The zero Failure is none.
type Failure struct {
	Err        error
	Class      Class
	RetryAfter time.Duration // that the server asked for; at most [MaxRetryAfter]
}

// Class says what kind of failure it is.
type Class int

const (
	Transient      Class = iota // retried after a wait
	Expired                     // 410: the server no longer knows what happened since a version
	BadRequest                  // 400
	Unauthorized                // 401
	Forbidden                   // 403
	NotFound                    // 404
	NotAllowed                  // 405
	Invalid                     // 422
	NotImplemented              // 501
	ServerError                 // any other code from 500
	Unusable                    // a list without a resourceVersion, or of objects without names
	Unreadable                  // an event that can't be decoded
)

// MaxRetryAfter bounds RetryAfter.
const MaxRetryAfter = time.Hour

// Refused says whether waiting will not help before the first SYNCED. Later it may: a
// role binding is replaced, a CRD created again, a token renewed.
func (f Failure) Refused() bool {
	switch f.Class {
	case BadRequest, Unauthorized, Forbidden, NotFound, NotAllowed, Invalid, Unusable:
		return true
	}
	return false
}

// unsupported says whether the server may have no streaming lists. A kube-apiserver
// whose feature gate is off answers 422; others may know the parameter even less.
func (f Failure) unsupported() bool {
	return f.Class == NotAllowed || f.Class == Invalid || f.Class == NotImplemented
}

// mayNotList says whether lists are refused, which does not mean that watches are.
func (f Failure) mayNotList() bool { return f.Class == Forbidden || f.Class == NotAllowed }

// poisonous says whether the connection ended with an event that can't be read, or that
// the server can't send. If it recurs at the same version, it must be skipped.
func (f Failure) poisonous() bool {
	return f.Class == Unreadable || (f.Class == NotImplemented || f.Class == ServerError) && f.RetryAfter == 0
}
