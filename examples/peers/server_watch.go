package main

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// watch sends the existing objects if the request asks for initial events. Then it waits for the run's start, and sends
// the events and a bookmark. It ends when the client goes or timeoutSeconds are over.
func (s *server) watch(a podRequest, w http.ResponseWriter, req *http.Request) {
	query := req.URL.Query()
	ctx := req.Context()
	if seconds, _ := strconv.Atoi(query.Get("timeoutSeconds")); seconds > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(seconds)*time.Second)
		defer cancel()
	}
	initial, _ := strconv.ParseBool(query.Get("sendInitialEvents"))
	from := firstVersion
	if version := query.Get("resourceVersion"); version != "" && !initial {
		v, err := strconv.Atoi(version)
		if err != nil || v < firstVersion {
			w.WriteHeader(http.StatusGone)
			fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",`+
				`"message":"too old resource version: %s","reason":"Expired","code":410}`+"\n", version)
			return
		}
		from = v
	}
	out := newSink(ctx, w)
	out.flush() // sends the header
	if initial {
		s.sendInitialEvents(a, out)
	}
	select {
	case <-a.run.started:
	case <-ctx.Done():
		return
	}
	f := newFlood(a, s.rendered.forRequest(a, frameForm), from)
	if a.run.Rate > 0 {
		rate := float64(a.run.Rate)
		if a.namespace >= 0 {
			rate /= namespaces
		}
		f.sendAtRate(ctx, out, rate, a.run.Length)
	} else {
		f.sendAll(out)
	}
	out.write(s.bookmark(a, f.lastVersion()+1, false))
	out.flush()
	<-ctx.Done()
}

// sendInitialEvents sends the existing objects of a streaming list, and the bookmark that ends it.
func (s *server) sendInitialEvents(a podRequest, out *sink) {
	of := s.rendered.forRequest(a, frameForm)
	var text, one []byte
	a.objects(0, func(n int) bool {
		one = appendObject(one[:0], of, a, n)
		text = append(text, added(one)...)
		if len(text) >= batch {
			out.write(text)
			text = text[:0]
		}
		return out.err == nil
	})
	out.write(append(text, s.bookmark(a, firstVersion, true)...))
	out.flush()
}

// bookmark returns the frame of a bookmark at a version. end adds the annotation that ends the initial events.
func (s *server) bookmark(a podRequest, version int, end bool) []byte {
	kind, of, annotations := "Pod", "v1", ""
	if a.metadata {
		kind, of = "PartialObjectMetadata", "meta.k8s.io/v1"
	}
	if end {
		annotations = `,"annotations":{"k8s.io/initial-events-end":"true"}`
	}
	rest := ""
	if !a.metadata { // an empty Pod has these too
		rest = `,"spec":{"containers":null},"status":{}`
	}
	return fmt.Appendf(nil, `{"type":"BOOKMARK","object":{"kind":%q,"apiVersion":%q,`+
		`"metadata":{"resourceVersion":"%d"%s}%s}}`+"\n", kind, of, version, annotations, rest)
}

// sink writes the body of a watch. After an error it writes nothing more.
type sink struct {
	ctx context.Context
	to  http.ResponseWriter
	err error
}

func newSink(ctx context.Context, w http.ResponseWriter) *sink { return &sink{ctx: ctx, to: w} }

func (s *sink) write(text []byte) {
	if s.err == nil {
		s.err = context.Cause(s.ctx)
	}
	if s.err == nil {
		_, s.err = s.to.Write(text)
	}
}

func (s *sink) flush() {
	if s.err == nil {
		s.err = http.NewResponseController(s.to).Flush()
	}
}
