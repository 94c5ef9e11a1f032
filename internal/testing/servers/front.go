package servers

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"time"
)

// front is the HTTP handler of a Personality.
type front struct {
	Personality // embedded: a front is a Personality at work
	behind      http.Handler
}

func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if f.Rate > 0 {
		w = &dripping{w, r, f.Rate}
	}
	r = inJSON(r)
	if f.Answer != nil && f.Answer(w, r, f.behind) {
		return
	}
	q := r.URL.Query()
	if r.Method != http.MethodGet || !isCollection(r.URL.Path) {
		f.behind.ServeHTTP(w, r)
		return
	}
	if f.Ask != nil {
		f.Ask(q)
		r = withQuery(r, q)
	}
	if isWatch(q) {
		f.watch(w, r, q)
	} else {
		f.list(w, r, q)
	}
}

// inJSON returns a request that is answered in JSON, uncompressed.
func inJSON(r *http.Request) *http.Request {
	var accepted []string
	for clause := range strings.SplitSeq(strings.Join(r.Header.Values("Accept"), ","), ",") {
		if strings.Contains(clause, "json") {
			accepted = append(accepted, clause)
		}
	}
	r = r.Clone(r.Context())
	r.Header.Set("Accept", strings.Join(append(accepted, "application/json"), ","))
	r.Header.Del("Accept-Encoding")
	return r
}

// isCollection reports whether a path may be that of a list or a watch: not of discovery, nor of one object.
func isCollection(path string) bool {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	switch {
	case parts[0] == "api" && len(parts) > 2:
		parts = parts[2:]
	case parts[0] == "apis" && len(parts) > 3:
		parts = parts[3:]
	default:
		return false
	}
	return len(parts) == 1 || len(parts) == 3 && parts[0] == "namespaces"
}

func isWatch(q url.Values) bool { return q.Get("watch") == "true" || q.Get("watch") == "1" }

func withQuery(r *http.Request, q url.Values) *http.Request {
	r = r.Clone(r.Context())
	r.URL.RawQuery = q.Encode()
	r.RequestURI = r.URL.RequestURI()
	return r
}

func metadataOf(o map[string]any) map[string]any {
	m, _ := o["metadata"].(map[string]any)
	return m
}

// itemsOf returns the objects of a list.
func itemsOf(list map[string]any) (all []map[string]any) {
	items, _ := list["items"].([]any)
	for _, it := range items {
		if o, ok := it.(map[string]any); ok {
			all = append(all, o)
		}
	}
	return all
}

// unmarshal keeps numbers as they are.
func unmarshal(data []byte, to any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	return d.Decode(to)
}

func mustMarshal(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return data
}

// everything reads all objects at a version, or the newest ones if it is empty.
func (f *front) everything(r *http.Request, version string) func() []map[string]any {
	return func() []map[string]any {
		q := url.Values{}
		for _, name := range []string{"labelSelector", "fieldSelector"} {
			if v := r.URL.Query().Get(name); v != "" {
				q.Set(name, v)
			}
		}
		if version != "" {
			q.Set("resourceVersion", version)
			q.Set("resourceVersionMatch", "Exact")
		}
		var list map[string]any
		if unmarshal(record(f.behind, withQuery(r, q)).Body.Bytes(), &list) != nil {
			return nil
		}
		all := itemsOf(list)
		f.objects(all...)
		return all
	}
}

func (f *front) objects(all ...map[string]any) {
	if f.Object == nil {
		return
	}
	for _, o := range all {
		if m := metadataOf(o); m != nil {
			f.Object(m)
		}
	}
}

func record(h http.Handler, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func (f *front) list(w http.ResponseWriter, r *http.Request, q url.Values) {
	answer := record(f.behind, r)
	data, code := answer.Body.Bytes(), answer.Code
	var list map[string]any
	if code == http.StatusOK && unmarshal(data, &list) == nil && metadataOf(list) != nil {
		version, _ := metadataOf(list)["resourceVersion"].(string)
		f.objects(itemsOf(list)...)
		var err error
		if f.List != nil {
			err = f.List(&List{Query: q, Body: list, Everything: f.everything(r, version)})
		}
		if data = mustMarshal(list); err != nil {
			data, code = failure(err), http.StatusInternalServerError
		}
	}
	for name, values := range answer.Header() {
		w.Header()[name] = values
	}
	w.Header().Del("Content-Length")
	w.WriteHeader(code)
	_, _ = w.Write(data)
}

func failure(err error) []byte {
	return fmt.Appendf(nil, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"InternalError",`+
		`"code":500,"message":%q}`, err)
}

func (f *front) watch(w http.ResponseWriter, r *http.Request, q url.Values) {
	out := &frames{ResponseWriter: w, front: f, opened: time.Now()}
	if f.Watch != nil {
		out.decide = f.Watch(&List{Query: q, Everything: f.everything(r, "")})
	}
	defer func() {
		// The server behind broke its answer off because out has ended it. To the client that is a clean end.
		if p := recover(); p != nil && (p != http.ErrAbortHandler || !out.ended) {
			panic(p)
		}
	}()
	f.behind.ServeHTTP(out, r)
}

const expired = `{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure",` +
	`"reason":"Expired","code":410,"message":"too old resource version"}}` + "\n"

// frames writes a watch, whose frames are lines.
type frames struct {
	http.ResponseWriter // embedded: all but Write is that of the client's connection
	front               *front
	decide              func(*Frame) Verdict // may be nil
	opened              time.Time
	code                int
	rest                []byte // of a frame that is not complete
	ended               bool
}

func (w *frames) WriteHeader(code int) {
	w.code = code
	w.ResponseWriter.WriteHeader(code)
}

// Flush sends what was written.
func (w *frames) Flush() {
	// An error means that the client has gone, which the next Write returns, too.
	_ = http.NewResponseController(w.ResponseWriter).Flush()
}

func (w *frames) Write(data []byte) (int, error) {
	if w.ended {
		return 0, io.ErrClosedPipe
	}
	if w.code != 0 && w.code != http.StatusOK {
		return w.ResponseWriter.Write(data)
	}
	w.rest = append(w.rest, data...)
	for {
		line, rest, ok := bytes.Cut(w.rest, []byte("\n"))
		if !ok {
			return len(data), nil
		}
		w.rest = bytes.Clone(rest)
		if err := w.line(line); err != nil {
			return 0, err
		}
		w.Flush()
	}
}

func (w *frames) line(line []byte) error {
	fr := &Frame{Open: time.Since(w.opened)}
	if unmarshal(line, fr) == nil && fr.Type != "ERROR" {
		if fr.Type != "BOOKMARK" {
			w.front.objects(fr.Object)
		}
		if w.decide != nil {
			switch w.decide(fr) {
			case Drop:
				return nil
			case Expire:
				_, _ = io.WriteString(w.ResponseWriter, expired)
				w.Flush()
				w.ended = true
				return io.ErrClosedPipe
			}
		}
		line = mustMarshal(fr)
	}
	_, err := w.ResponseWriter.Write(append(line, '\n'))
	return err
}

// dripping writes byte by byte.
type dripping struct {
	http.ResponseWriter // embedded: all but Write is that of the client's connection
	request             *http.Request
	rate                int // bytes a second
}

// Unwrap is for http.ResponseController.
func (w *dripping) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *dripping) Write(data []byte) (int, error) {
	for i := range data {
		select {
		case <-time.After(time.Second / time.Duration(w.rate)):
		case <-w.request.Context().Done():
			return i, w.request.Context().Err()
		}
		if _, err := w.ResponseWriter.Write(data[i : i+1]); err != nil {
			return i, err
		}
		_ = http.NewResponseController(w.ResponseWriter).Flush()
	}
	return len(data), nil
}
