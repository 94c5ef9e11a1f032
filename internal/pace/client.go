package pace

import (
	"cmp"
	"context"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gvrwatch/gvrwatch/internal/wait"
)

// Client paces the requests of all Streams of a client.
type Client struct {
	server *limit
	login  login
	asked  atomic.Int64 // Streams that wait for as long as the server has asked
}

// Answer is what a request led to.
type Answer int

const (
	None         Answer = iota // the request was canceled, or its answer says nothing about the server
	Good                       // the server answers
	Bad                        // it fails, refuses connections, or is overloaded
	Unauthorized               // it does not accept the credentials
)

// NewClient returns a Client that permits rate requests per second while requests fail; 0 means DefaultRate.
func NewClient(rate int) *Client {
	return &Client{server: newLimit(cmp.Or(rate, DefaultRate))}
}

// clients are the Clients that Share has returned, by client.
var clients = struct {
	sync.Mutex
	byKey map[any]*shared
}{byKey: map[any]*shared{}}

type shared struct {
	client *Client
	users  int
}

// Share returns the Client of a client that has none of its own. The caller calls release when it is done.
func Share(client any) (c *Client, release func()) {
	if !reflect.ValueOf(client).Comparable() {
		return NewClient(0), func() {}
	}
	clients.Lock()
	defer clients.Unlock()
	s := clients.byKey[client]
	if s == nil {
		s = &shared{client: NewClient(0)}
		clients.byKey[client] = s
	}
	s.users++
	return s.client, func() {
		clients.Lock()
		defer clients.Unlock()
		if s.users--; s.users == 0 {
			delete(clients.byKey, client)
		}
	}
}

// Sender is who sends a request.
type Sender struct {
	Lasts bool // the Stream goes on after a 401, and so waits until credentials are accepted
	// Next says that the request completes what the last one of the Stream has begun: it opens a watch after a probe or
	// a list. It goes before the requests that are not Next. So a Stream must not ask for two of them in a row.
	Next bool
}

// Request is a request that Wait has permitted.
type Request struct {
	lasts bool // as in Sender
	tries bool // whether the credentials are accepted again
}

// Delay is why a request waits because other requests have failed.
type Delay struct {
	Answer  Answer // to the others: Bad or Unauthorized
	Cause   error
	NextTry time.Time // of any request that waits
}

// Wait waits until a request may be sent, or ctx ends. If it has to wait because others have failed, it calls report.
// Done must follow.
func (c *Client) Wait(ctx context.Context, by Sender, report func(Delay)) Request {
	r, waited := Request{lasts: by.Lasts}, false
	if by.Lasts {
		r.tries = c.login.wait(ctx, report)
	}
	defer func() {
		if !waited { // report has panicked: others must not wait for this request
			c.login.answered(r, None, nil)
		}
	}()
	c.server.wait(ctx, by.Next, report)
	waited = true
	return r
}

// Done records the answer to a request. After a failure with err, the channel that it returns is closed when a retry
// may succeed because another request has.
func (c *Client) Done(r Request, a Answer, err error) (recovered <-chan struct{}) {
	accepted := c.login.answered(r, a, err)
	switch a {
	case Good:
		c.server.succeeded()
	case Bad:
		return c.server.failed(err)
	case Unauthorized:
		return accepted
	}
	return nil
}

// Asked says that a Stream waits for as long as the server has asked, until it calls over. The wait may be longer by up
// to spread, so that the Streams that wait do not all return at once.
func (c *Client) Asked() (spread time.Duration, over func()) {
	others := c.asked.Add(1) - 1
	return time.Duration(others) * time.Second / time.Duration(c.server.rate), func() { c.asked.Add(-1) }
}

// Broken says that a watch has ended too early.
func (c *Client) Broken() { c.server.broken() }

// A request that is refused with 401 is tried again after firstLogin, a quarter longer each time up to maxLogin.
const firstLogin, maxLogin = 200 * time.Millisecond, 15 * time.Second

// login is whether the server accepts the credentials.
type login struct {
	mu       sync.Mutex
	refusals int           // in a row
	cause    error         // of the last one
	nextTry  time.Time     // no request is sent before
	tried    chan struct{} // closed when the request that tries the credentials is answered; nil if there is none
	accepted chan struct{} // closed when credentials are accepted; nil if none were refused
}

// wait waits while the credentials are refused, unless it is the turn of this request to try them.
func (l *login) wait(ctx context.Context, report func(Delay)) (tries bool) {
	for ctx.Err() == nil {
		l.mu.Lock()
		refused, tried, accepted := l.refusals > 0, l.tried, l.accepted
		delay := Delay{Unauthorized, l.cause, l.nextTry}
		tries = refused && tried == nil && !time.Now().Before(l.nextTry)
		if tries {
			l.tried = make(chan struct{})
		}
		l.mu.Unlock()
		if tries || !refused {
			return tries
		}
		report(delay)
		if tried == nil {
			wait.Sleep(ctx, time.Until(delay.NextTry), accepted)
			continue
		}
		select {
		case <-tried:
		case <-ctx.Done():
		}
	}
	return false
}

// answered records the answer to a request. It returns the channel accepted.
func (l *login) answered(r Request, a Answer, err error) <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if a == Unauthorized && l.accepted == nil {
		l.accepted = make(chan struct{})
	}
	accepted := l.accepted
	switch {
	case a == Unauthorized && r.lasts && !time.Now().Before(l.nextTry): // else it is one of several sent at once
		l.refusals, l.cause = l.refusals+1, err
		most := wait.Raised(l.refusals, firstLogin, maxLogin)
		l.nextTry = time.Now().Add(wait.Between(most/2, most))
	case a == Good && l.accepted != nil:
		l.refusals, l.cause, l.nextTry = 0, nil, time.Time{}
		close(l.accepted)
		l.accepted = nil
	}
	if r.tries {
		close(l.tried)
		l.tried = nil
	}
	return accepted
}
