package protocol

import "time"

// Failure is why a request failed or a connection ended. Err is for people: only Class and RetryAfter decide what
// happens next. The zero Failure means that nothing failed.
type Failure struct {
	Err        error
	Class      Class
	Gateway    bool          // no API server has said so: the answer is no Status
	RetryAfter time.Duration // that the server asked for; at most [MaxRetryAfter]
}

// Class is the kind of a Failure.
type Class int

const (
	Transient      Class = iota // retried after a wait
	Expired                     // 410: the server no longer has the history since a version
	BadRequest                  // 400
	Unauthorized                // 401
	Forbidden                   // 403
	NotFound                    // 404
	NotAllowed                  // 405
	Invalid                     // 422
	NotImplemented              // 501
	ServerError                 // any other code from 500
	Unusable                    // not a list, or one without a resourceVersion, or of objects without names
	Unreadable                  // an event can't be decoded
	TooLarge                    // the server has not reached a version: only a probe shows whether it will
)

// MaxRetryAfter bounds RetryAfter.
const MaxRetryAfter = time.Hour

// Refused reports whether the server refused the request, or gave an answer that can never be used. Before the first
// SYNCED, waiting seldom helps (isFinal). Later it may: a role binding is replaced, a CRD created again, a token
// renewed.
func (f Failure) Refused() bool {
	if f.Gateway {
		return false
	}
	switch f.Class {
	case BadRequest, Unauthorized, Forbidden, NotFound, NotAllowed, Invalid, Unusable:
		return true
	}
	return false
}

// unsupported reports whether the server may lack streaming lists. A kube-apiserver whose feature gate is off answers
// 422; other servers may answer 405 or 501.
func (f Failure) unsupported() bool {
	return f.Class == NotAllowed || f.Class == Invalid || f.Class == NotImplemented
}

// refusesVerb reports whether the server refuses lists, or watches. It may still permit the other.
func (f Failure) refusesVerb() bool {
	return !f.Gateway && (f.Class == Forbidden || f.Class == NotAllowed)
}

// poisonous reports whether the connection may have ended because of an event that can't be decoded, or that the server
// can't send. If that recurs at the same version, the event must be skipped.
func (f Failure) poisonous() bool {
	return f.Class == Unreadable || (f.Class == NotImplemented || f.Class == ServerError) && f.RetryAfter == 0
}
