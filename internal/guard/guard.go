// Package guard protects from what client-go makes of hostile answers. [Wrap] refuses answers that no Kubernetes API
// server gives, and those that are too large. [Impatient] refuses those that ask for a wait that is too long. [Redact]
// removes objects from errors.
package guard

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// Error reports an answer that was refused. Waiting does not help: the address or a proxy is wrong, or too much was
// requested at once.
type Error struct {
	problem  string
	TooLarge bool
}

func (e *Error) Error() string { return e.problem }

// Refused returns an Error about an answer that is not what was requested. What it quotes is not redacted.
func Refused(problem string) *Error { return &Error{problem: problem} }

// TooLarge returns an Error about an answer that exceeds a limit.
func TooLarge(problem string) *Error { return &Error{problem, true} }

// Wrap returns a transport that refuses, with an [*Error],
//
//   - 101 Switching Protocols: client-go would read the new protocol as the body, without an end and regardless of the
//     request's context,
//   - redirects to another scheme, host or port: client-go would send the credentials there, because its transport adds
//     them to every request,
//   - bodies that exceed the limits, while they are read.
//
// Go's HTTP client follows the other redirects, up to ten in a row.
func Wrap(next http.RoundTripper) http.RoundTripper { return transport{next, answers} }

// WrapDiscovery is Wrap for a discovery client, with lower limits. They do not hold for OpenAPI documents.
func WrapDiscovery(next http.RoundTripper) http.RoundTripper { return transport{next, documents} }

type transport struct {
	next   http.RoundTripper
	limits limits
}

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := t.next.RoundTrip(r)
	if err != nil {
		return resp, err
	}
	if problem := problemOf(r.URL, resp); problem != "" {
		if resp.Body != nil {
			_ = resp.Body.Close()
		}
		return nil, &Error{problem: problem}
	}
	t.limits.apply(r, resp)
	return resp, nil
}

func (t transport) WrappedRoundTripper() http.RoundTripper { return t.next }

// redirects are the codes that Go's HTTP client follows.
var redirects = []int{http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect,
	http.StatusPermanentRedirect}

func problemOf(from *url.URL, resp *http.Response) string {
	location := resp.Header.Get("Location")
	switch {
	case resp.StatusCode == http.StatusSwitchingProtocols:
		return "the server answered 101 Switching Protocols, which was not requested: must be a Kubernetes API server"
	case location == "" || !slices.Contains(redirects, resp.StatusCode):
		return ""
	}
	to, err := from.Parse(location)
	switch {
	case err != nil:
		return "the server sent a redirect without a valid URL"
	case sameServer(from, to):
		return ""
	}
	// Only scheme and host: the rest of the URL may hold credentials.
	return fmt.Sprintf("invalid redirect from %s://%s to %q: must be at the same scheme, host and port, "+
		"because credentials would be sent there", from.Scheme, from.Host, to.Scheme+"://"+to.Host)
}

func sameServer(a, b *url.URL) bool {
	return strings.EqualFold(a.Scheme, b.Scheme) && strings.EqualFold(a.Hostname(), b.Hostname()) && port(a) == port(b)
}

func port(u *url.URL) string {
	if strings.EqualFold(u.Scheme, "https") {
		return cmp.Or(u.Port(), "443")
	}
	return cmp.Or(u.Port(), "80")
}
