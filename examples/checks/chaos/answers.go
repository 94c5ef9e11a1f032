package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
)

// falseAnswer is what the proxy answers for a while instead of the server.
type falseAnswer struct {
	name string
	what string
	// respond answers a request. next answers it truly.
	respond func(w http.ResponseWriter, r *http.Request, next http.Handler)
	// frame is sent in each open watch, and at the beginning of each new one. Unless goOn is set, it is the last one.
	frame []byte
	goOn  bool
}

var falseAnswers = []falseAnswer{
	{name: "429", what: "429 with Retry-After", respond: status(http.StatusTooManyRequests, "TooManyRequests")},
	{name: "500", what: "500", respond: status(http.StatusInternalServerError, "InternalError")},
	{name: "503", what: "503", respond: status(http.StatusServiceUnavailable, "ServiceUnavailable")},
	{name: "504", what: "504", respond: status(http.StatusGatewayTimeout, "Timeout")},
	{name: "html", what: "a page of HTML with status 200", respond: body(http.StatusOK, "text/html",
		"<!DOCTYPE html><html><body>Please log in.</body></html>\n")},
	{name: "empty-object", what: "{} with status 200", respond: body(http.StatusOK, "application/json", "{}\n")},
	{name: "truncated", what: "half of each list and watch", respond: truncated},
	{name: "401", what: "401", respond: status(http.StatusUnauthorized, "Unauthorized")},
	{name: "404", what: "a gateway's page with status 404",
		respond: body(http.StatusNotFound, "text/plain; charset=utf-8", "404 page not found\n")},
	{name: "no-version", what: "lists without a resourceVersion, after 410", respond: withoutVersion, frame: expired},
	{name: "closed-watch", what: "watches that are closed at once", respond: closedWatch},
	{name: "error-frame", what: "an ERROR that has no Status, in watches", respond: truly, frame: []byte(
		`{"type":"ERROR","object":{"apiVersion":"` + group + `/v1","kind":"Widget","metadata":{"name":"x"}}}` + "\n")},
	{name: "garbage-frame", what: "a frame of garbage, in watches",
		respond: truly, frame: []byte("\x00\xff{]garbage\n"), goOn: true},
}

// expired ends a watch so that the client lists.
var expired = []byte(`{"type":"ERROR","object":{"apiVersion":"v1","kind":"Status","status":"Failure",` +
	`"reason":"Expired","code":410,"message":"too old resource version"}}` + "\n")

func truly(w http.ResponseWriter, r *http.Request, next http.Handler) { next.ServeHTTP(w, r) }

func status(code int, reason string) func(http.ResponseWriter, *http.Request, http.Handler) {
	text := fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",`+
		`"message":"false answer","reason":%q,"code":%d}`+"\n", reason, code)
	answer := body(code, "application/json", text)
	return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if code == http.StatusTooManyRequests {
			w.Header().Set("Retry-After", "1")
		}
		answer(w, r, next)
	}
}

func body(code int, contentType, text string) func(http.ResponseWriter, *http.Request, http.Handler) {
	return func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(code)
		io.WriteString(w, text)
	}
}

// truncated answers with the first half of the true answer, as if that were all of it.
func truncated(w http.ResponseWriter, r *http.Request, next http.Handler) {
	if isWatch(r) {
		body(http.StatusOK, "application/json", `{"type":"ADDED","object":{"apiVersion":"`+group)(w, r, next)
		return
	}
	code, header, data := record(r, next)
	send(w, code, header, data[:len(data)/2])
}

// withoutVersion removes the resourceVersion of a list.
func withoutVersion(w http.ResponseWriter, r *http.Request, next http.Handler) {
	if isWatch(r) {
		next.ServeHTTP(w, r)
		return
	}
	code, header, data := record(r, next)
	var list map[string]any
	if json.Unmarshal(data, &list) == nil && list["items"] != nil {
		if metadata, ok := list["metadata"].(map[string]any); ok {
			delete(metadata, "resourceVersion")
		}
		if edited, err := json.Marshal(list); err == nil {
			data = edited
		}
	}
	send(w, code, header, data)
}

// closedWatch answers each watch with 200 and an empty body.
func closedWatch(w http.ResponseWriter, r *http.Request, next http.Handler) {
	if isWatch(r) {
		body(http.StatusOK, "application/json", "")(w, r, next)
		return
	}
	next.ServeHTTP(w, r)
}

// record returns the true answer, uncompressed.
func record(r *http.Request, next http.Handler) (code int, header http.Header, data []byte) {
	r = r.Clone(r.Context())
	r.Header.Del("Accept-Encoding")
	recorder := &answerRecorder{header: http.Header{}, code: http.StatusOK}
	next.ServeHTTP(recorder, r)
	return recorder.code, recorder.header, recorder.body.Bytes()
}

func send(w http.ResponseWriter, code int, header http.Header, data []byte) {
	for key, values := range header {
		w.Header()[key] = values
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(data)))
	w.WriteHeader(code)
	w.Write(data)
}

// answerRecorder is an http.ResponseWriter that stores the answer.
type answerRecorder struct {
	header http.Header
	code   int
	body   bytes.Buffer
}

func (a *answerRecorder) Header() http.Header { return a.header }

func (a *answerRecorder) WriteHeader(code int) { a.code = code }

func (a *answerRecorder) Write(b []byte) (int, error) { return a.body.Write(b) }

// Flush does nothing: the answer is sent as a whole.
func (a *answerRecorder) Flush() {}
