package guard_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/textproto"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/gvrwatch/gvrwatch/internal/guard"
)

func TestRedactKeepsWhatPredicatesNeed(t *testing.T) {
	refused := &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	missing := runtime.NewMissingKindErr("hunter2")
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", errors.New("no"))
	long := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", errors.New(strings.Repeat("é", 5000)))
	for _, tt := range []struct {
		err  error
		same bool   // Redact changes nothing
		text string // if not the same; ends with *
		is   []error
		why  string
	}{
		{nil, true, "", nil, "no error"},
		{io.EOF, true, "", nil, "an ordinary error"},
		{forbidden, true, "", nil, "a Status with short texts"},
		{fmt.Errorf("x: %w", &url.Error{Op: "Get", URL: "https://a.test", Err: refused}), true, "", nil,
			"an error of the network"},
		{fmt.Errorf("%w: %w", context.Canceled, missing), false, "context canceled: an object lacks its kind",
			[]error{context.Canceled},
			"a text that quotes an object"},
		{fmt.Errorf("x: %w", &apierrors.UnexpectedObjectError{Object: &metav1.Status{Message: "hunter2"}}), false,
			"x: there is an object in the place of a Status", nil, "a quoted object"},
		{&url.Error{Op: "Get", URL: "https://a.test/" + strings.Repeat("p", 5000), Err: refused}, false,
			`Get "https://a.test/ppp*`, []error{refused, syscall.ECONNREFUSED}, "a long URL"},
		{fmt.Errorf("https://u:hunter2@a.test: %w", io.EOF), false, "https://***@a.test: EOF", []error{io.EOF},
			"a password"},
		{fmt.Errorf("x: %w", long), false, `x: pods is forbidden: éé*`, nil, "a long Status that is wrapped"},
		{&url.Error{Op: "parse", URL: "https://u:hunter2 @a.test", Err: io.EOF}, false, "invalid URL", []error{io.EOF},
			"a password in an invalid URL"},
		{utilerrors.NewAggregate([]error{missing, io.EOF}), false, "an object lacks its kind", nil,
			"an error that can't be compared"},
		{fmt.Errorf("%w", utilerrors.NewAggregate([]error{io.EOF})), true, "", nil, "nor can the wrapped one"},
	} {
		got := guard.Redact(tt.err)
		if tt.same {
			if fmt.Sprintf("%#v", got) != fmt.Sprintf("%#v", tt.err) {
				t.Errorf("%s: got %#v, want the same error", tt.why, got)
			}
			continue
		}
		text := got.Error()
		want, begins := strings.CutSuffix(tt.text, "*")
		if text != want && !begins || !strings.HasPrefix(text, want) || len(text) > 1<<10 || !utf8.ValidString(text) {
			t.Errorf("%s: got %q, want %q", tt.why, text, tt.text)
		}
		if apierrors.IsForbidden(got) != apierrors.IsForbidden(tt.err) {
			t.Errorf("%s: IsForbidden has changed", tt.why)
		}
		for _, is := range tt.is {
			if !errors.Is(got, is) {
				t.Errorf("%s: %v is lost", tt.why, is)
			}
		}
	}
}

// TestRedactQuotesNothing: a text ends where it begins to quote what was wrong, except a message of a server.
func TestRedactQuotesNothing(t *testing.T) {
	const object = `{"kind":"Secret","data":{"password":"hunter2"}}`
	raw := func(answer string) error {
		_, err := http.ReadResponse(bufio.NewReader(strings.NewReader(answer+"\r\n\r\n")), nil)
		return fmt.Errorf("net/http: connection broken: %w", err)
	}
	header := func(line string) error { return raw("HTTP/1.1 200 OK\r\n" + line) }
	_, duration := time.ParseDuration("5hunter2")
	_, groupVersion := schema.ParseGroupVersion("hunter2/hunter2/x")
	number := json.Unmarshal([]byte(`{"n":"hunter2"}`), &struct{ N json.Number }{})
	untilQuoted, _, _ := strings.Cut(number.Error(), ` "`) // which differs since Go 1.27
	strict := json.NewDecoder(strings.NewReader(`{"hunter2":1}`))
	strict.DisallowUnknownFields()
	var status metav1.Status
	foreign := []byte(`{"kind":"hunter2","apiVersion":"v1"}`)
	_, _, notRegistered := scheme.Codecs.UniversalDeserializer().Decode(foreign, nil, nil)
	_, _, accessor := unstructured.NestedString(map[string]any{"a": "hunter2"}, "a", "b")
	decoding := apierrors.NewClientErrorReporter(500, "GET", "ClientWatchDecoding").AsObject(number).(*metav1.Status)
	answer := func(code int, body string) error {
		return apierrors.NewGenericServerResponse(code, "get", schema.GroupResource{}, "", body, 0, true)
	}
	message := func(m string) error { return &apierrors.StatusError{ErrStatus: metav1.Status{Message: m}} }
	for _, tt := range []struct {
		err  error
		want string // in the text
	}{
		{raw(object), "net/http: connection broken: malformed HTTP response..."},
		{raw("HTTP/1.1 hunter2 OK"), "malformed HTTP status code..."},
		{raw("HTTP/hunter2 200 OK"), "malformed HTTP version..."},
		{header(object), "malformed MIME header line..."},
		{header(strings.ReplaceAll(object, ":", "=")), "malformed MIME header..."},
		{textproto.ProtocolError("malformed MIME header line: " + object), "malformed MIME header line..."},
		{header("Content-Length: hunter2"), "bad Content-Length..."},
		{header("Content-Length: 5\r\nContent-Length: hunter2"), "multiple Content-Length headers; got..."},
		{header("Transfer-Encoding: hunter2"), "unsupported transfer encoding..."},
		{number, untilQuoted + "..."},
		{strict.Decode(&status), "json: unknown field..."},
		{groupVersion, "unexpected GroupVersion string..."},
		{duration, "time: unknown unit..."},
		{notRegistered, "no kind..."},
		{accessor, "accessor error..."},
		{fmt.Errorf("invalid x: %w", io.EOF), "invalid x: EOF"},
		{fmt.Errorf("unknown y: %w", duration), "unknown y: time: unknown unit..."},
		{errors.New("dial https://user:p/hunter2@a.test/ failed"), "dial https://***@a.test/ failed"},
		{answer(500, "password: hunter2"), "the server answered 500 with 17 bytes that are no Status"},
		{answer(500, "conversion webhook for a.b/v1, Kind=C failed: hunter2"),
			"the server answered 500 with 53 bytes that are no Status: conversion webhook for a.b/v1, Kind=C failed"},
		{answer(500, `"hunter2"`), "the server answered 500 with 9 bytes that are no Status"},
		{answer(403, "hunter2"), "the server answered 403 with 7 bytes that are no Status"},
		{answer(404, "404 page not found, hunter2"), "the server could not find the requested resource"},
		{&apierrors.StatusError{ErrStatus: *decoding}, "the server answered 500"},
		{message(`cannot unmarshal number 1hunter2 into Go value`), "a number is out of range"},
		{message(`strconv.ParseInt: parsing "hunter2": invalid syntax`), "invalid value"},
		{message(`pods "a" is invalid: bad "b"`), `pods "a" is invalid: bad "b"`},
	} {
		got := guard.Redact(tt.err)
		if !strings.Contains(got.Error(), tt.want) {
			t.Errorf("%q: got %q, want %q", tt.err, got, tt.want)
		}
		for err := got; err != nil; err = errors.Unwrap(err) {
			if all := fmt.Sprintf("%v %+v %#v", err, err, err); strings.Contains(all, "hunter2") {
				t.Errorf("%q: got %s", tt.err, all)
			}
		}
	}
}
