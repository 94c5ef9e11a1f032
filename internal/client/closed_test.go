package client_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// closing is a body that calls close.
type closing struct {
	io.Reader
	close func()
}

func (b closing) Close() error { b.close(); return nil }

// The request of a watch is canceled once nobody reads the answer: over HTTP/1 before the body is closed, because Close
// may read on there, and otherwise after that.
func TestRequestsOfWatchesAreCanceled(t *testing.T) {
	const notFound = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`
	type result struct{ AtClose, After bool } // whether the request is canceled at the first Close, and later
	for _, tt := range []struct {
		why    string
		major  int
		code   int
		text   string
		nobody bool
		want   result
	}{
		{"over HTTP/1", 1, http.StatusOK, added, false, result{true, true}},
		{"over HTTP/2", 2, http.StatusOK, added, false, result{false, true}},
		{"an error, whose body is read at once", 1, http.StatusNotFound, notFound, false, result{false, true}},
		{"no body", 1, http.StatusOK, "", true, result{false, true}},
	} {
		for _, v := range variants() {
			var got result
			var ctx context.Context
			c := v.client(t, transportFunc(func(r *http.Request) (*http.Response, error) {
				ctx = r.Context()
				first := func() { got.AtClose = ctx.Err() != nil }
				body := closing{strings.NewReader(tt.text), sync.OnceFunc(first)}
				resp, err := respond(tt.code, body)
				if resp.ProtoMajor = tt.major; tt.nobody {
					resp.Body = nil
				}
				return resp, err
			}), nil)
			w, err := c.Resource(things).Watch(t.Context(), metav1.ListOptions{})
			if err == nil {
				receiveAll(w)
				w.Stop()
			}
			got.After = ctx.Err() != nil
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("%s, %s: %v (-want +got):\n%s", tt.why, v.name, err, diff)
			}
		}
	}
}
