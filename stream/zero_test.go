package stream_test

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

// TestNilAndZeroValues: a nil or zero argument either works or leads to an error that names it.
func TestNilAndZeroValues(t *testing.T) {
	last := func(seq iter.Seq2[stream.Event, error]) error {
		_, err := stream.Until(seq, func(stream.Event) (bool, error) { return false, nil })
		return err
	}
	newWith := func(c dynamic.Interface, r gvr.Resource, o *setup) error {
		_, err := newRunning(c, r, o)
		return err
	}
	client := (&script{t: t}).client()
	named := func(version, plural string) (r gvr.Resource) {
		r.Version, r.Resource = version, plural
		return r
	}
	var (
		none    func(func(stream.Event, error) bool)
		zero    stream.Stream
		context = context.Background()
	)
	tests := []struct {
		call string
		do   func() any
		want string // a part of the result as text
	}{
		{"New(nil)", func() any { return newWith(nil, widgets(), nil) }, "invalid client: must not be nil"},
		{"New(Resource{})", func() any { return newWith(client, gvr.Resource{}, nil) },
			"invalid Resource: must have a version and a plural"},
		{"New without a version", func() any { return newWith(client, named("", "pods"), nil) },
			`invalid Resource "pods": must have a version and a plural`},
		{"New without a plural", func() any { return newWith(client, named("v1", ""), nil) },
			`invalid Resource "v1": must have a version and a plural`},
		{"New of a subresource", func() any { return newWith(client, named("v1", "pods/log"), nil) },
			`invalid Resource "pods/log.v1": must have`},
		{"New(opts nil)", func() any { return newWith(client, widgets(), nil) }, "<nil>"},

		{"zero Stream: Events", func() any { return last(zero.Events(context)) },
			"invalid Stream: must be made with stream.New"},
		{"zero Stream: Stop", func() any { zero.Stop(); return "" }, ""},
		{"zero Stream: With", func() any { return last(zero.With(stream.Run{}).Events(context)) },
			"invalid Stream: must be made with stream.New"},
		{"nil Stream: With", func() any { return last((*stream.Stream)(nil).With(stream.Run{}).Events(context)) },
			"invalid Stream: must be made with stream.New"},
		{"nil Stream: Key", func() any { return (*stream.Stream)(nil).Key() }, ""},
		{"zero Sequence", func() any {
			var q stream.Sequence
			return fmt.Sprint(last(q.Events(context)), q.Key(), q.Status().State, len(q.Position().Objects),
				q.Resource().Kind)
		}, "invalid Stream: must be made with stream.New"},
		{"zero Stream: Status", func() any { return zero.Status().State }, "Idle"},
		{"zero Stream: Position", func() any { return len(zero.Position().Objects) }, "0"},
		{"zero Stream: Key", func() any { return zero.Key() + zero.Resource().Kind }, ""},

		{"NewClient(nil)", func() any { _, err := stream.NewClient(nil, nil); return err },
			"invalid cfg: must not be nil"},
		{"NewClient(Config{})", func() any { _, err := stream.NewClient(&rest.Config{}, nil); return err }, "<nil>"},

		{"Until(nil)", func() any { return last(none) }, "invalid seq: must not be nil"},
		{"Until(cond nil)", func() any { _, err := stream.Until(none, nil); return err },
			"invalid cond: must not be nil"},
		{"Acked(nil)", func() any { return last(stream.Acked(nil)) }, "invalid seq: must not be nil"},
		{"Event{}.Ack", func() any { stream.Event{}.Ack(); return "" }, ""},

		{"From(Position{})", func() any { return stream.From(checkpoint.Position{}) == stream.Now() }, "false"},
		{"After", func() any { return newWith(client, widgets(), &setup{Run: stream.Run{Start: stream.After("")}}) },
			"invalid Start: After must have a resourceVersion"},

		{"errors", func() any {
			return fmt.Sprint((&stream.OptionsError{}).Error() != "", (&stream.RequestError{}).Error() != "",
				(&stream.GaveUpError{}).Error() != "", (&stream.NotWatchableError{}).Error() != "",
				(&stream.GapError{}).Error() != "", (&stream.GapError{}).Oldest() == "")
		}, "true true true true true true"},
		{"a long version in an error", func() any {
			return len((&stream.GapError{From: strings.Repeat("9", 1<<20)}).Error()) < 2<<10
		}, "true"},
	}
	for _, tt := range tests {
		t.Run(tt.call, func(t *testing.T) {
			defer func() {
				if p := recover(); p != nil {
					t.Errorf("panic: %v, want %q", p, tt.want)
				}
			}()
			if got := fmt.Sprint(tt.do()); !strings.Contains(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// TestResourceOfGVRAlone: without Verbs, Kind and scope everything of a resource can be watched, whatever its scope.
func TestResourceOfGVRAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := streamtest.NewServer(widgets())
		srv.Put(widgets(), "ns", "a")
		alone := gvr.Resource{GroupVersionResource: widgets().GroupVersionResource}
		run := func(c dynamic.Interface, o setup) string {
			rec := streamtest.Record(streamOf(t, c, alone, &o).Events(anHour(t)), nil)
			return fmt.Sprint(rec.Texts(), rec.Err)
		}
		for _, o := range []setup{
			{Run: stream.Run{Until: stream.UntilSynced}},
			{Options: stream.Options{Requests: stream.Requests{PagedLists: true}},
				Run: stream.Run{Until: stream.UntilSynced}},
			{Options: stream.Options{Objects: stream.Metadata}, Run: stream.Run{Until: stream.UntilSynced}},
		} {
			if got := run(srv.Client(), o); got != "[ADDED ns/a@2 SYNCED @2] <nil>" {
				t.Errorf("%+v: %s", o, got)
			}
		}
		// An object instead of a list must not look like an empty list.
		sc := &script{t: t, exchanges: []exchange{{"list", func(*http.Request) (*http.Response, error) {
			return respondJSON(200, object("a@9"))
		}}}}
		paged := setup{Options: stream.Options{Requests: stream.Requests{PagedLists: true}}}
		if got := run(sc.client(), paged); !strings.Contains(got, "[] cannot list") {
			t.Errorf("an object instead of a list: %s", got)
		}
		o := setup{Options: stream.Options{Namespaces: []string{"ns"}}, Run: stream.Run{Until: stream.UntilSynced}}
		_, err := newRunning(srv.Client(), alone, &o)
		if err == nil || !strings.Contains(err.Error(), "Namespaced of its gvr.Resource is false") {
			t.Errorf("Namespaces: got %v", err)
		}
		alone.Namespaced = true
		if got := run(srv.Client(), o); got != "[ADDED ns/a@2 SYNCED @2 in ns] <nil>" {
			t.Errorf("Namespaces: %s", got)
		}
	})
}
