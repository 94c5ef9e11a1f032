package stream_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/gvrwatch/gvrwatch/internal/decode/decodetest"
)

func TestSameRecordedWatches(t *testing.T) {
	turn := 0 // all variants, but not all of everything
	for _, r := range decodetest.ReadRecorded(t, recordings) {
		if !r.Watch {
			continue
		}
		t.Run(r.Name, func(t *testing.T) {
			watches := func(why string, a served) {
				v := variants()[turn%len(variants())]
				turn++
				if err := inSteps(t, v, a); err != nil {
					t.Errorf("%s (%s): %v", why, v.name, err)
				}
			}
			watches("in one read", served{chunks: [][]byte{r.Data}})
			watches("in reads of 3,000 bytes", served{chunks: every(3000, r.Data)})
			watches("a frame at a time", served{chunks: r.Frames()})
			watches("again and again", served{chunks: every(40_000, []byte(many(3, string(r.Data))))})
			watches("without line ends", served{chunks: [][]byte{[]byte(strings.ReplaceAll(string(r.Data), "\n", ""))}})
		})
	}
}

// TestSameFrames has every case of package decodetest, between good frames.
func TestSameFrames(t *testing.T) {
	for i, c := range decodetest.Frames() {
		// The bigger ones are for package decode.
		if len(c.Text) > 2<<10 {
			continue
		}
		v := variants()[i%len(variants())]
		// What is broken is told when it is clear where it ends: at the end.
		a := served{chunks: chunksOf(added, c.Text+"\n", deleted)}
		if broken(c.Text + "\n" + deleted) {
			a.chunks = [][]byte{slices.Concat(a.chunks...)}
			a.with = true
		}
		if err := inSteps(t, v, a); err != nil {
			t.Errorf("%s (%s): %v\n%.300q", c.Why, v.name, err, c.Text)
		}
		if err := inSteps(t, v, served{chunks: chunksOf(c.Text), with: true}); err != nil {
			t.Errorf("%s, alone (%s): %v\n%.300q", c.Why, v.name, err, c.Text)
		}
	}
}

func TestSameFraming(t *testing.T) {
	pretty := "{\n  \"type\": \"ADDED\",\n  \"object\": {\n    \"apiVersion\": \"v1\",\n    \"kind\": \"Thing\",\n    \"metadata\": {\n      \"name\": \"a}{\\\"\"\n    }\n  }\n}"
	for i, test := range []struct {
		why    string
		chunks [][]byte
	}{
		{"nothing", nil},
		{"one without a line end is told at once", chunksOf(added)},
		{"two of them", chunksOf(added, deleted)},
		{"two at once", chunksOf(added + deleted)},
		{"two on a line", chunksOf(added + " " + deleted + "\n")},
		{"two on lines", chunksOf(added + "\n" + deleted + "\n")},
		{"the line end comes later", chunksOf(added, "\n", deleted, "\n")},
		{"it comes with the next one", chunksOf(added, "\n"+deleted, "\n"+added)},
		{"CRLF", chunksOf(added+"\r\n"+deleted+"\r\n", "\r\n", added+"\r", "\n")},
		{"blank lines", chunksOf("\n\n"+added+"\n\n \n", " \t\r\n", deleted+"\n\n")},
		{"white space alone", chunksOf(" ", "\n", "\t\t")},
		{"many at once", chunksOf(many(300, added+"\n"))},
		{"many without line ends", chunksOf(many(300, added))},
		{"many and a half", chunksOf(many(100, added+"\n")+added[:50], added[50:]+"\n"+many(50, deleted))},
		{"pretty", chunksOf(pretty+"\n", pretty)},
		{"pretty, without line ends between", chunksOf(pretty+pretty+added+pretty, pretty)},
		{"pretty, by line", slices.Collect(func(yield func([]byte) bool) {
			for line := range strings.Lines(pretty + "\n" + pretty + "\n" + added) {
				if !yield([]byte(line)) {
					return
				}
			}
		})},
		{"pretty, by byte", every(1, []byte(pretty+"\n"+pretty+added+"\n"))},
		{"by byte", every(1, []byte(added+"\n"+deleted+added))},
		{"by three bytes", every(3, []byte(many(3, added+"\n\n"+deleted)))},
		{"the object first, of a bookmark and of a change", chunksOf(`{"object":`+thing+`,"type":"BOOKMARK"}`+"\n", `{"object":`+thing+`,"type":"MODIFIED"}`+"\n")},
		{"ERROR, and what follows", chunksOf(added+"\n"+expired+"\n"+deleted+"\n", expired, added)},
		{"half a frame at the end", chunksOf(added+"\n", deleted[:100])},
		{"garbage first", chunksOf("garbage\n" + added + "\n")},
		{"garbage in the middle", chunksOf(added + "\ngarbage\n" + deleted + "\n")},
		{"garbage at the end", chunksOf(added + "\n" + deleted + "\ngarbage\n")},
		{"broken JSON in the middle", chunksOf(added + "\n" + `{"type":"ADDED","object":{"a":01}}` + "\n" + deleted)},
		{"a frame whose object is broken, and good ones after it", chunksOf(added + `{"type":"ADDED","object":{}}` + deleted)},
		{"a closing brace too many", chunksOf(added + "}\n" + deleted)},
		{"an unknown type in the middle", chunksOf(added + "\n" + `{"type":"RENAMED","object":` + thing + "}\n" + deleted)},
	} {
		watchesTheSame(t, test.why, served{chunks: test.chunks})
		if err := inSteps(t, variants()[i%len(variants())], served{chunks: test.chunks, with: true}); err != nil {
			t.Errorf("%s, the end with the last: %v", test.why, err)
		}
	}
}

// TestSameAtEveryOffset cuts in two places: one that moves, and a fixed one.
func TestSameAtEveryOffset(t *testing.T) {
	const short = `{"type":"ADDED","object":{"kind":"A","apiVersion":"v1","a":[-1.5e3,"\"}é"]}}`
	text := []byte(short + "\n" + expired + short + "\r\n{ \"type\" :\n\"BOOKMARK\",\"object\":{\"kind\":\"A\\u00e9\\\"}\",\"apiVersion\":\"v1\"}}" + short)
	for i := range text {
		v := variants()[i%len(variants())]
		if err := inSteps(t, v, served{chunks: [][]byte{text[:i], text[i:]}}); err != nil {
			t.Errorf("cut at %d (%s): %v", i, v.name, err)
		}
		if err := inSteps(t, v, served{chunks: [][]byte{text[:i]}}); err != nil {
			t.Errorf("ended at %d (%s): %v", i, v.name, err)
		}
	}
}

// TestGarbageIsToldAtOnce: who sends a line that is no JSON, and then nothing, is
// not waited for. (Garbage without a line end may be: nobody can take a byte at a
// time and look at it as closely as client-go does, and be quick.)
func TestGarbageIsToldAtOnce(t *testing.T) {
	for _, garbage := range []string{"garbage\n", "<html>\n", "]", "}", ",\n", "data: {}\n", "\xff\n", "\ufeff\n", "k8s\x00\n", "1\n", "null\n", "{}", `{"a":1}`, `[]`} {
		watchesTheSame(t, "garbage first", served{chunks: chunksOf(garbage, "")})
		watchesTheSame(t, "garbage after a frame", served{chunks: chunksOf(added+"\n"+garbage, "")})
		watchesTheSame(t, "garbage on the line of a frame", served{chunks: chunksOf(added, garbage, "")})
	}
}

func bigFrame(size int) string {
	const begin, end = `{"type":"ADDED","object":{"apiVersion":"v1","kind":"Thing","metadata":{"name":"a"},"data":"`, `"}}`
	return begin + strings.Repeat("x", size-len(begin)-len(end)) + end
}

func TestSameBigFrames(t *testing.T) {
	const limit = 16 << 20 // of client-go
	space := strings.Repeat(" \n", 1000)
	if err := inSteps(t, variants()[0], served{chunks: chunksOf(added+"\n", bigFrame(limit+1)+"\n", deleted)}); err != nil {
		t.Errorf("a byte too much: %.500v", err)
	}
	chunks := [][]byte{[]byte(added + "\n" + space + bigFrame(limit) + space + added), []byte(deleted + "\n")}
	if err := inSteps(t, variants()[1], served{chunks: chunks}); err != nil {
		t.Errorf("as much as may be, and white space: %.500v", err)
	}
}

// timeout is an error of a connection that has waited for too long.
type timeout struct{}

func (timeout) Error() string   { return "i/o timeout" }
func (timeout) Timeout() bool   { return true }
func (timeout) Temporary() bool { return true }

func TestSameEnds(t *testing.T) {
	i := 0
	for _, end := range []error{
		io.EOF, io.ErrUnexpectedEOF, io.ErrClosedPipe, io.ErrNoProgress,
		syscall.ECONNRESET, &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}, &net.OpError{Op: "read", Net: "tcp", Err: syscall.EPIPE},
		timeout{}, fmt.Errorf("wrapped: %w", timeout{}), net.ErrClosed, &net.OpError{Op: "read", Err: net.ErrClosed},
		context.Canceled, context.DeadlineExceeded,
		// As the HTTP/2 of net/http says it, whose types are its own.
		errors.New("stream error: stream ID 7; INTERNAL_ERROR; received from peer"),
		errors.New("http2: server sent GOAWAY and closed the connection; LastStreamID=1, ErrCode=NO_ERROR, debug=\"\""),
		errors.New("http2: client connection lost"), errors.New("http: read on closed response body"),
		fmt.Errorf("wrapped: %w", io.EOF), fmt.Errorf("wrapped: %w", io.ErrUnexpectedEOF), errors.New("something else"),
	} {
		for where, chunks := range map[string][][]byte{
			"before anything": nil, "after a frame": chunksOf(added + "\n"), "after a frame without a line end": chunksOf(added, deleted),
			"within a frame": chunksOf(added + "\n" + deleted[:70]), "within the first": chunksOf(added[:20]), "after an open string": chunksOf(added[:3]),
			"after white space": chunksOf(added + "\n \n"), "after garbage": chunksOf(added + "\nnul"), "after a literal": chunksOf("null"), "after a number": chunksOf("12"),
			"after ERROR": chunksOf(expired + "\n"), "after many": chunksOf(many(100, added+"\n") + added[:9]),
		} {
			for _, with := range []bool{false, true} {
				v := variants()[i%len(variants())]
				i++
				if err := inSteps(t, v, served{chunks: chunks, end: end, with: with}); err != nil {
					t.Errorf("%v, %s (with it: %v) (%s): %v", end, where, with, v.name, err)
				}
			}
		}
	}
}

func TestSameContentTypes(t *testing.T) {
	for _, kind := range []string{
		"application/json", "application/json;charset=utf-8", "application/json; charset=UTF-8; stream=watch", "APPLICATION/JSON", "", "text/plain", "text/json", "text/html",
		"application/yaml", "application/vnd.kubernetes.protobuf;stream=watch", "application/vnd.kubernetes.protobuf", "application/cbor", "application/cbor-seq", "application/json-seq",
		"application/problem+json", "application/json;as=Table;g=meta.k8s.io;v=v1", "no type", ";", "application/json; q=\"", "*/*",
	} {
		watchesTheSame(t, "content type "+kind, served{header: map[string]string{"Content-Type": kind}, chunks: chunksOf(added+"\n", deleted)})
	}
}

func TestSameRefusals(t *testing.T) {
	const status = `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"no","reason":"Forbidden","details":{"kind":"things"},"code":403}`
	for _, code := range []int{200, 201, 204, 301, 400, 401, 403, 404, 406, 410, 422, 429, 500, 502, 503, 504} {
		for _, text := range []string{status, "", "Bad Gateway", added, "{}"} {
			watchesTheSame(t, fmt.Sprint(code), served{status: code, chunks: chunksOf(text)})
			watchesTheSame(t, fmt.Sprint(code, ", no type"), served{status: code, header: map[string]string{"Content-Type": "text/plain"}, chunks: chunksOf(text)})
		}
	}
}
