package stream_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/gvrwatch/gvrwatch/stream"
)

// faulty is a transport that answers lists with pages of one widget, and panics when it
// is asked for one of them, or when so much of one has been read.
type faulty struct {
	page  string // that it panics of
	after int64  // bytes of each page that it panics after; zero means never
	asked chan struct{}
}

const (
	ofTransport = "of a transport"
	widgetPage  = `{"apiVersion":"example.com/v1","kind":"WidgetList","metadata":{"resourceVersion":"7","continue":"next"},"items":[` +
		`{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"w","namespace":"n","uid":"u","resourceVersion":"5"}}]}`
)

func (f faulty) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Query().Get("continue") == f.page && f.after == 0 {
		close(f.asked)
		panic(ofTransport)
	}
	var body io.Reader = strings.NewReader(widgetPage)
	if f.after > 0 {
		body = io.MultiReader(io.LimitReader(spaces{}, f.after), bomb{})
	}
	return respond(200, io.NopCloser(body))
}

type bomb struct{}

func (bomb) Read([]byte) (int, error) { panic(ofTransport) }

// TestPanicOfTransport: what a transport panics with reaches who ranges or lists,
// whichever goroutine made the request.
func TestPanicOfTransport(t *testing.T) {
	for _, tt := range []struct {
		why       string
		transport faulty
		told      int
		leave     bool // after the first event
	}{
		{"the first page", faulty{page: ""}, 0, false},
		{"a page that is read ahead", faulty{page: "next"}, 1, false},
		{"a page that nobody wants", faulty{page: "next"}, 1, true},
		{"a small body", faulty{after: 1000}, 0, false},
		{"a large one", faulty{after: 100 << 10}, 0, false},
	} {
		tt.transport.asked = make(chan struct{})
		client, err := stream.NewClient(&rest.Config{Host: "http://nowhere", QPS: -1, Transport: tt.transport}, nil)
		if err != nil {
			t.Fatal(err)
		}
		s := newStream(t, client, &stream.Options{InitialList: stream.ListPaged})
		told := 0
		recovered := recoverFrom(func() {
			for _, err := range s.Events(t.Context()) {
				if err != nil {
					t.Fatal(err)
				}
				if told++; tt.leave {
					<-tt.transport.asked
					break
				}
			}
		})
		if recovered != ofTransport || told != tt.told {
			t.Errorf("%s: %d events and a panic with %v, want %d and one with %v", tt.why, told, recovered, tt.told, ofTransport)
		}
		if tt.transport.after == 0 {
			continue
		}
		if got := recoverFrom(func() { _, _ = client.Resource(things).List(t.Context(), metav1.ListOptions{}) }); got != ofTransport {
			t.Errorf("%s: List panics with %v, want %v", tt.why, got, ofTransport)
		}
	}
}

func recoverFrom(f func()) (panicked any) {
	defer func() { panicked = recover() }()
	f()
	return nil
}
