package streamtest_test

import (
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/internal/testing/oracle"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

// TestNilAndZeroValues: a nil or zero argument either works, or leads to an error or to a documented panic that names
// it.
func TestNilAndZeroValues(t *testing.T) { bubble(t, testNilAndZeroValues) }

func testNilAndZeroValues(t *testing.T, srv *streamtest.Server) {
	srv.Put(widgets, "x", "a")
	var zero streamtest.Server
	alone := gvr.Resource{GroupVersionResource: widgets.GroupVersionResource}
	empty, badSelector := &unstructured.Unstructured{}, &stream.Options{LabelSelector: "a in (b"}
	h := srv.History(widgets, nil)
	at := func(h streamtest.History, epoch int, rv string) int { return len(h.At(epoch, rv)) }
	result := func(o *unstructured.Unstructured, err error) string { return fmt.Sprint(o != nil, " ", err) }
	tests := []struct {
		call string
		do   func() any
		want string // a part of the result as text
	}{
		{"zero Server: Requests", func() any { return len(zero.Requests()) }, "0"},
		{"zero Server: ResourceVersion", func() any { return zero.ResourceVersion() }, "1"},
		{"zero Server: Apply", func() any { return zero.Apply("list 1: 500\nchange 7: garbage") }, "<nil>"},
		{"zero Server: CheckScript", func() any { return zero.CheckScript() }, "change 7: garbage"},
		{"zero Server: Do", func() any { return zero.Do("discovery down core") }, "<nil>"},
		{"zero Server: Create", func() any { return result(zero.Create(widgets, empty)) }, "false "},
		{"zero Server: History", func() any { return len(zero.History(widgets, nil).Changes) }, "0"},
		{"zero Server: Compact", func() any { zero.Compact(""); return "" }, ""},
		{"zero Server: Unserve", func() any { zero.Unserve(gvr.Resource{}); return "" }, ""},
		{"zero Server: list", func() any {
			_, err := zero.Client().Resource(widgets.GroupVersionResource).List(t.Context(), metav1.ListOptions{})
			return apierrors.ReasonForError(err)
		}, "InternalError"},
		{"zero Server: Serve", func() any { zero.Serve(widgets); return zero.Put(widgets, "x", "a").GetName() }, "a"},
		{"zero Server: Replay", func() any { return new(streamtest.Server).Replay("testdata/incident.rec") }, "<nil>"},
		{"Replay of no file", func() any { return srv.Replay("") }, "streamtest: replay: open "},
		{"zero Server: Close", func() any { zero.Close(); new(streamtest.Server).Close(); return "" }, ""},

		{"NewServer()", func() any { return streamtest.NewServer().ResourceVersion() }, "1"},
		{"NewServer(Resource{})", func() any { return streamtest.NewServer(gvr.Resource{}) },
			`panic: streamtest: invalid resource "": must have a version, a plural and a kind`},
		{"NewServer of a GVR alone", func() any { return streamtest.NewServer(alone) },
			"panic: streamtest: invalid resource \"widgets.v1.example.com\": must have"},

		{"Create(nil)", func() any { return result(srv.Create(widgets, nil)) }, "false the object is not"},
		{"Create of an empty object", func() any { return result(srv.Create(widgets, empty)) },
			"false the object is not"},
		{"Create(Resource{})", func() any { return result(srv.Create(gvr.Resource{}, nil)) }, "false "},
		{"Update(nil)", func() any { return result(srv.Update(widgets, nil)) }, "false the object is not"},
		{"Delete without a name", func() any { return result(srv.Delete(widgets, "", "")) }, "false "},
		{"Put without a name", func() any { return srv.Put(widgets, "x", "") },
			"panic: streamtest: Put x/: name or generateName is required"},
		{"Put(Resource{})", func() any { return srv.Put(gvr.Resource{}, "", "a") },
			"panic: streamtest: Put a: the server could not find the requested resource"},
		{"Put with an empty field", func() any { return srv.Put(widgets, "x", "a", "") },
			`panic: streamtest: Put x/a: invalid field "": must be PATH=VALUE`},
		{"Compact", func() any { srv.Compact("x"); return "" },
			`panic: streamtest: invalid resourceVersion "x": must be a number`},
		{"Apply", func() any { return srv.Apply("") }, "<nil>"},
		{"Do", func() any { return srv.Do("") }, `invalid action ""`},

		{"History(Resource{})", func() any { return len(srv.History(gvr.Resource{}, nil).Changes) }, "0"},
		{"History with a bad selector", func() any { return srv.History(widgets, badSelector) },
			"streamtest: invalid selector: "},
		{"Check with a bad selector", func() any {
			return streamtest.Check(srv.History(widgets, badSelector), nil, nil)
		}, "streamtest: invalid selector: "},
		{"At of this epoch", func() any { return at(h, 0, "2") }, "1"},
		{"At of no epoch", func() any { return fmt.Sprint(at(h, -1, "2"), at(h, 1, "2")) }, "0 0"},
		{"At of no version", func() any { return fmt.Sprint(at(h, 0, ""), at(h, 0, "x")) }, "0 0"},
		{"History{}.At", func() any { return at(streamtest.History{}, 0, "5") }, "0"},
		{"At of a Change without an object", func() any {
			return at(streamtest.History{Changes: []streamtest.Change{{}, {Type: watch.Added, Object: empty}}}, 0, "5")
		}, "1"},

		{"Check(nil)", func() any { return streamtest.Check(streamtest.History{}, nil, nil) }, "<nil>"},
		{"Check of an empty event", func() any { return streamtest.Check(h, []stream.Event{{}}, nil) }, "unknown type"},
		{"Check of an event without an object", func() any {
			return streamtest.Check(h, []stream.Event{{Type: stream.Added}}, nil)
		}, "must have an object"},
		{"Check of an event with an empty object", func() any {
			return streamtest.Check(h, []stream.Event{{Type: stream.Added, Object: empty}}, nil)
		}, `breaks "truthful"`},
		{"Check of a GAP without details", func() any {
			return streamtest.Check(h, []stream.Event{{Type: stream.Gap}}, nil)
		}, "unknown reason"},
		{"Record(nil)", func() any { return streamtest.Record(nil, nil).Err }, "invalid seq: must not be nil"},
		{"Texts(nil)", func() any { return len(oracle.Texts(nil)) }, "0"},
		{"Violation{}", func() any { return (&streamtest.Violation{}).Error() }, "breaks"},
	}
	isPanic := func(s string) bool { return strings.HasPrefix(s, "panic: ") }
	for _, tt := range tests {
		func() {
			got := ""
			defer func() {
				if p := recover(); p != nil {
					got = fmt.Sprint("panic: ", p)
				}
				if !strings.Contains(got, tt.want) || isPanic(got) != isPanic(tt.want) {
					t.Errorf("%s: got %q, want %q", tt.call, got, tt.want)
				}
			}()
			got = fmt.Sprint(tt.do())
		}()
	}
}
