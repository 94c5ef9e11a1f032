package stream_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/gvrwatch/gvrwatch/stream"
)

// secret is a value in the objects of these tests.
const secret = "hunter2-secret"

// answerWith answers with a body.
func answerWith(code int, contentType, body string) answer {
	return func(r *http.Request) (*http.Response, error) {
		resp, err := respond(code, io.NopCloser(strings.NewReader(body)))
		resp.Header.Set("Content-Type", contentType)
		return resp, err
	}
}

// TestErrorsQuoteNoObject: whatever the server answers, no error, log line, Status or Trace has a part of an object,
// and no text is long. An event that can't be read is skipped with a GAP.
func TestErrorsQuoteNoObject(t *testing.T) {
	const data = `"data":{"password":"` + secret + `"}`
	good := list("5", "")
	body := func(code int, b string) answer { return answerWith(code, "application/json", b) }
	frame := func(f string) answer { return either(good, watch("raw "+f+"\n")) }
	event := func(kind, o string) answer { return frame(`{"type":"` + kind + `","object":` + o + `}`) }
	failed := func(with string) string { return `{"kind":"Status","apiVersion":"v1","status":"Failure",` + with + `}` }
	long := strings.Repeat("é", 1<<14)
	causes := strings.Repeat(`{"message":"`+long[:4096]+`","field":"`+long[:4096]+`"},`, 99) + "{}"
	for _, tt := range []struct {
		name   string
		answer answer
		want   string // in the text of an error; empty for a GAP with the reason poison
	}{
		{"list without a kind", body(200, `{"metadata":{},"items":[{`+data+`}]}`), "an object lacks its kind"},
		{"list of strings", body(200, `{"kind":"L","items":["`+secret+`"]}`), "cannot unmarshal string"},
		{"number out of range", body(200, `{"kind":"L","items":[{"a":1e777777}]}`), "a number is out of range"},
		{"invalid JSON", body(200, `{"items":[`+secret+`]}`), "invalid character..."},
		{"cut off", body(200, `{"items":[{`+data), "unexpected end of JSON"},
		{"another content type", answerWith(200, "text/html", secret), "serializer for text/html doesn't exist"},
		{"list with the code 204", body(204, `{`+data+`}`), "an object lacks its kind"},
		{"error with an object as text", answerWith(500, "text/plain", `{`+data+`}`), "are no Status"},
		{"403 with an object as text", answerWith(403, "", "kind: Secret\n"+secret), "are no Status"},
		{"error of a proxy", answerWith(503, "text/plain", "no healthy upstream"), "unable to handle the request"},
		{"error of one line", answerWith(500, "text/plain", "password: "+secret), "are no Status"},
		{"answer that is not HTTP", func(r *http.Request) (*http.Response, error) {
			return http.ReadResponse(bufio.NewReader(strings.NewReader("{"+data+"}\n")), r)
		}, "malformed HTTP response..."},
		{"long message", body(500, failed(`"code":500,"message":"`+long+`"`)), "bytes cut)"},
		{"object in a message", body(500, failed(`"code":500,"message":"Object 'Kind' is missing in '`+secret+`'"`)),
			"an object lacks its kind"},
		{"many causes", body(422, failed(`"code":422,"details":{"causes":[`+causes+`]}`)), "cannot list"},

		{"watch with the code 204", either(good, body(204, "{}")), "got status: 204"},
		{"403 to a watch", either(good, answerWith(403, "text/plain", "{"+data+"}")), "are no Status"},
		{"ERROR with a long message", event("ERROR", failed(`"code":500,"message":"`+long+`"`)), "bytes cut)"},

		{"unknown type", event(secret, `{"kind":"Widget","apiVersion":"v1"}`), ""},
		{"event without a kind", event("ADDED", `{`+data+`}`), ""},
		{"null", event("ADDED", "null"), ""},
		{"no object", frame(`{"type":"ADDED"}`), ""},
		{"a string", event("ADDED", `"`+secret+`"`), ""},
		{"number out of range in an event", event("ADDED", `{"kind":"Widget","apiVersion":"v1","a":1e777777}`), ""},
		{"event that is no JSON", frame(secret), ""},
		{"event that is no object", frame(`["` + secret + `"]`), ""},
		{"Status as an object", event("ADDED", failed(`"message":"`+secret+`"`)), ""},
		{"list as an object", event("ADDED", `{"kind":"L","apiVersion":"v1","items":[{`+data+`}]}`), ""},
		{"ERROR with null", event("ERROR", "null"), ""},
		{"ERROR without an object", frame(`{"type":"ERROR"}`), ""},
		{"ERROR with an empty Status", event("ERROR", `{"kind":"Status","apiVersion":"v1"}`), ""},
		{"ERROR with another Status", event("ERROR", `{"kind":"Status","apiVersion":"x/v1",`+data+`}`), ""},
		{"ERROR with a wrong code", event("ERROR", failed(`"code":"`+secret+`"`)), ""},
		{"ERROR with a Pod", event("ERROR", `{"kind":"Pod","apiVersion":"v1",`+data+`}`), ""},
	} {
		for _, v := range []variant{stock, variants()[0]} {
			t.Run(tt.name+"/"+v.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var log bytes.Buffer
					var all []error
					keep := func(err error) {
						if err != nil {
							all = append(all, err)
						}
					}
					sc := &script{t: t, exchanges: []exchange{{"", tt.answer}}}
					s := newStream(t, v.clientAt(t, "http://user:"+secret+"@server.test", sc),
						&setup{Options: stream.Options{
							Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})),
							Trace: &stream.Trace{
								StatusChanged: func(s stream.Status) { keep(s.Cause) },
								RequestDone:   func(r stream.Request) { keep(r.Err) },
								WatchClosed:   func(w stream.Request) { keep(w.Err) },
							},
							Requests: stream.Requests{GiveUpAfter: time.Minute},
						}})
					var got []string
					for ev, err := range s.Events(anHour(t)) {
						if keep(err); err == nil {
							got = append(got, text(ev))
						}
						if len(got) > 1 {
							break
						}
					}
					if tt.want == "" && !slices.Contains(got, "GAP poison from 5 to 5") {
						t.Errorf("got %q, want a GAP", got)
					}
					checkRedacted(t, log.String(), 1<<20)
					found := tt.want == ""
					for _, err := range all {
						found = found || strings.Contains(err.Error(), tt.want)
						checkChain(t, err)
					}
					if !found {
						t.Errorf("no error says %q: %v", tt.want, all)
					}
				})
			})
		}
	}
}

// clientAt returns a client for a server at an address.
func (v variant) clientAt(t *testing.T, host string, transport http.RoundTripper) dynamic.Interface {
	t.Helper()
	cfg := &rest.Config{Host: host, QPS: -1, Transport: transport, WarningHandler: rest.NoWarnings{}}
	c, err := dynamic.Interface(nil), error(nil)
	if v.opts == nil {
		c, err = dynamic.NewForConfig(cfg)
	} else {
		c, err = stream.NewClient(cfg, v.opts)
	}
	noError(t, err)
	return c
}

// checkChain checks err and all errors that it wraps.
func checkChain(t *testing.T, err error) {
	t.Helper()
	checkRedacted(t, fmt.Sprintf("%v", err), 4<<10)
	checkRedacted(t, fmt.Sprintf("%+v %#v", err, err), 200<<10)
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		checkRedacted(t, fmt.Sprintf("%+v", status.Status()), 100<<10)
	}
	switch err := err.(type) {
	case interface{ Unwrap() error }:
		if err.Unwrap() != nil {
			checkChain(t, err.Unwrap())
		}
	case interface{ Unwrap() []error }:
		for _, err := range err.Unwrap() {
			checkChain(t, err)
		}
	}
}

func checkRedacted(t *testing.T, text string, most int) {
	t.Helper()
	if i := strings.Index(text, secret); i >= 0 {
		t.Errorf("a text has a part of an object: %s", text[max(0, i-200):min(len(text), i+100)])
	}
	if i := strings.Index(text, "777777"); i >= 0 {
		t.Errorf("a text has a number of an object: %s", text[max(0, i-200):min(len(text), i+100)])
	}
	if len(text) > most {
		t.Errorf("a text has %d bytes: %s", len(text), text[:200])
	}
}
