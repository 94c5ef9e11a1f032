package client_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
)

// members returns a gzip member of each text.
func members(texts ...string) []byte {
	var b bytes.Buffer
	z, _ := gzip.NewWriterLevel(&b, gzip.BestSpeed) // as a kube-apiserver
	for _, text := range texts {
		z.Reset(&b)
		_, _ = io.WriteString(z, text)
		_ = z.Close()
	}
	return b.Bytes()
}

func compressed(chunks ...[]byte) *server {
	return &server{served: served{header: map[string]string{"Content-Encoding": "GZIP"}, chunks: chunks}}
}

// A watch is read right although compression was not requested. Errors are those that Go's own transport makes.
func TestCompressedAnswers(t *testing.T) {
	whole := many(10, added+"\n")
	one, two := members(whole), members(whole[:77], whole[77:])
	corrupt, checksum := bytes.Clone(one), bytes.Clone(one)
	corrupt[len(corrupt)/2] ^= 0xff
	checksum[len(checksum)-8] ^= 1
	var named bytes.Buffer
	z := gzip.NewWriter(&named)
	z.Name, z.Comment, z.Extra = "events", "of a watch", make([]byte, 1000)
	_, _ = io.WriteString(z, whole)
	_ = z.Close()
	const all, some = 10, -1
	for _, tt := range []struct {
		why    string
		body   []byte
		events int  // that are received
		broken bool // an ERROR follows, as after a broken frame
	}{
		{"a member", one, all, false},
		{"a member that begins within a frame", two, all, false},
		{"a member for each event", members(slices.Repeat([]string{added + "\n"}, 10)...), all, false},
		{"a member for each byte", members(slices.Collect(func(yield func(string) bool) {
			for i := range whole {
				if !yield(whole[i : i+1]) {
					return
				}
			}
		})...), all, false},
		{"empty members", slices.Concat(members("", ""), one, members("", "", "")), all, false},
		{"only empty members", members("", "", ""), 0, false},
		{"nothing", nil, 0, false},
		{"a header with all fields", named.Bytes(), all, false},
		{"cut within a header", two[:5], 0, false}, // client-go takes an unexpected EOF for an end
		{"cut within a member", one[:len(one)/2], some, false},
		{"cut before a checksum", one[:len(one)-8], all, false},
		{"cut within the second header", slices.Concat(one, two[:5]), all, false},
		{"corrupt", corrupt, some, true},
		{"a wrong checksum", checksum, all, true},
		{"garbage after a member", slices.Concat(one, []byte("not a gzip header")), all, true},
		{"zeros after a member", slices.Concat(one, make([]byte, 512)), all, true},
		{"not compressed", []byte(whole), 0, true},
	} {
		for _, size := range []int{max(len(tt.body), 1), 1} {
			synctest.Test(t, func(t *testing.T) {
				w, err := nextVariant().client(t, compressed(every(size, tt.body)...), nil).Resource(things).Watch(
					t.Context(), metav1.ListOptions{})
				if err != nil {
					t.Fatal(err)
				}
				events := receiveAll(w)
				broken := len(events) > 0 && events[len(events)-1].Type == apiwatch.Error
				if broken {
					events = events[:len(events)-1]
				}
				if n := len(events); broken != tt.broken || n != tt.events && tt.events != some || n > all {
					t.Errorf("%s, %d bytes at a time: %d events, broken %v; want %d, %v", tt.why, size, n, broken,
						tt.events, tt.broken)
				}
			})
		}
	}
}

// The result is that of the same list without compression, or an error.
func TestCompressedLists(t *testing.T) {
	whole := listOf(400, thing)
	z := members(whole[:5000], whole[5000:])
	for _, tt := range []struct {
		why  string
		body []byte
		ok   bool
	}{
		{"two members", z, true},
		{"cut in the first member", members(whole)[:700], false},
		{"cut between the members", members(whole[:5000]), false},
		{"cut before the checksum", z[:len(z)-8], false},
		{"garbage after the list", slices.Concat(z, []byte("garbage")), false},
		{"not compressed", []byte(whole), false},
	} {
		for _, v := range variants() {
			l, err := v.client(t, compressed(every(1000, tt.body)...), nil).Resource(things).List(t.Context(),
				metav1.ListOptions{})
			if (err == nil) != tt.ok || tt.ok && len(l.Items) != 401 {
				t.Errorf("%s (%s): %v", tt.why, v.name, err)
			}
		}
	}
}

// The limits of an answer hold for what it has inflated to. The lowest one is 1 MiB for an error.
func TestCompressedAnswersHaveLimits(t *testing.T) {
	s := compressed(members(many(2<<20, "x")))
	s.status = http.StatusInternalServerError
	_, err := nextVariant().client(t, s, nil).Resource(things).List(t.Context(), metav1.ListOptions{})
	if err == nil || !strings.Contains(err.Error(), "more than 1 MiB") {
		t.Errorf("%.200v, want an error about the size", err)
	}
}

// Snapshots are requested with compression, and single events without, because inflating them takes time.
func TestCompressionIsRequestedForSnapshots(t *testing.T) {
	yes := true
	for _, tt := range []struct {
		why      string
		disabled bool
		watch    *metav1.ListOptions // nil for a list
		want     string
	}{
		{"a list", false, nil, "gzip"},
		{"a watch", false, &metav1.ListOptions{}, "identity"},
		{"a streaming list", false, &metav1.ListOptions{SendInitialEvents: &yes}, "gzip"},
		{"a list, disabled", true, nil, "identity"},
		{"a watch, disabled", true, &metav1.ListOptions{}, "identity"},
		{"a streaming list, disabled", true, &metav1.ListOptions{SendInitialEvents: &yes}, "identity"},
	} {
		var got, wrapped []string
		transport := transportFunc(func(r *http.Request) (*http.Response, error) {
			got = append(got, r.Header.Get("Accept-Encoding"))
			return compressed(members(listOf(0, thing))).RoundTrip(r)
		})
		cfg := &rest.Config{Host: "http://server.test", Transport: transport, DisableCompression: tt.disabled}
		cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
			return transportFunc(func(r *http.Request) (*http.Response, error) {
				resp, err := next.RoundTrip(r)
				if err == nil {
					wrapped = append(wrapped, fmt.Sprint(r.Header.Get("Accept-Encoding"),
						resp.Header.Get("Content-Encoding"), resp.ContentLength, resp.Uncompressed))
				}
				return resp, err
			})
		})
		c := nextVariant().clientFor(t, cfg).Resource(things)
		if tt.watch == nil {
			_, _ = c.List(t.Context(), metav1.ListOptions{})
		} else if w, err := c.Watch(t.Context(), *tt.watch); err == nil {
			w.Stop()
			receiveAll(w)
		}
		if d := cmp.Diff([]string{tt.want}, got) + cmp.Diff([]string{"-1 true"}, wrapped); d != "" {
			t.Errorf("%s: requests, and what the config's WrapTransport sees: %s", tt.why, d)
		}
	}
}
