package condition_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gvrwatch/gvrwatch/discovery"
	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/internal/friend"
	"github.com/gvrwatch/gvrwatch/mux"
	"github.com/gvrwatch/gvrwatch/mux/follow"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/condition"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

var widgets, gadgets = resource("Widget", "widgets"), resource("Gadget", "gadgets")

func resource(kind, plural string) gvr.Resource {
	r := gvr.Resource{Kind: kind, Namespaced: true}
	r.GroupVersionResource = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: plural}
	return r
}

// target returns the target NAME of a resource in the namespace shop, without a condition.
func target(r gvr.Resource, name string) condition.Target {
	return condition.Target{Resource: r.GroupResource().String(), Namespace: "shop", Name: name}
}

// all returns targets with a condition. Without targets it is every object.
func all(c condition.Condition, targets ...condition.Target) []condition.Target {
	if len(targets) == 0 {
		targets = []condition.Target{{}}
	}
	for i := range targets {
		targets[i].For = c
	}
	return targets
}

// source is what Wait takes.
type source interface {
	Events(ctx context.Context) iter.Seq2[stream.Event, error]
	Synced(friend.Access) (all, whole bool)
}

const (
	ready   = `status={"conditions":[{"type":"Ready","status":"True"}]}`
	unready = `status={"conditions":[{"type":"Ready","status":"False"}]}`
)

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// kinds are the kinds of sources that deliver all widgets. Those of a Mux deliver the gadgets, too.
var kinds = map[string]func(*streamtest.Server) source{
	"Stream": func(srv *streamtest.Server) source { return must(stream.New(srv.Client(), widgets, nil)) },
	"raw, in pages": func(srv *streamtest.Server) source {
		return must(stream.New(srv.Client(), widgets,
			&stream.Options{Objects: stream.Raw, Requests: stream.Requests{PagedLists: true}}))
	},
	"namespaces": func(srv *streamtest.Server) source {
		return must(stream.New(srv.Client(), widgets, &stream.Options{Namespaces: []string{"shop", "other"}}))
	},
	"Mux":    func(srv *streamtest.Server) source { return muxOf(srv, nil) },
	"Latest": func(srv *streamtest.Server) source { return muxOf(srv, &mux.Options{Overflow: mux.Latest}) },
	"follow": func(srv *streamtest.Server) source { return followOf(srv) },
	"Mux in a Mux": func(srv *streamtest.Server) source {
		return must(mux.New(nil, keyed{muxOf(srv, nil)}))
	},
	"follow in a Mux": func(srv *streamtest.Server) source {
		return must(mux.New(nil, keyedFollow{followOf(srv)}))
	},
}

// keyed and keyedFollow are sources of a Mux.
type (
	keyed       struct{ *mux.Mux }
	keyedFollow struct{ *follow.Mux }
)

func (keyed) Key() string { return "inner" }

func (keyedFollow) Key() string { return "inner" }

func followOf(srv *streamtest.Server) *follow.Mux {
	r := discovery.NewResolver(must(discovery.NewClient(srv.Config())), 0)
	return must(follow.New(r, srv.Client(), follow.Selection{Resources: []string{"*.example.com"}}, nil))
}

func muxOf(srv *streamtest.Server, o *mux.Options) *mux.Mux {
	c := srv.Client()
	return must(mux.New(o, must(stream.New(c, widgets, nil)), must(stream.New(c, gadgets, nil))))
}

// waiting is a Wait in a goroutine of its own.
type waiting struct {
	t    *testing.T
	done chan error
	err  error
	over bool
}

func start(ctx context.Context, t *testing.T, s source, text string, targets ...condition.Target) *waiting {
	t.Helper()
	return startWait(ctx, t, s, all(must(condition.Parse(text)), targets...)...)
}

func startWait(ctx context.Context, t *testing.T, s source, targets ...condition.Target) *waiting {
	t.Helper()
	w := &waiting{t: t, done: make(chan error, 1)}
	go func() { w.done <- condition.Wait(ctx, s, targets...) }()
	return w
}

// timeUp returns a context that ends after an hour.
func timeUp(t *testing.T) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(t.Context(), time.Hour, errors.New("time is up"))
}

// state returns "waits", "met" or an error, once nothing moves.
func (w *waiting) state() string {
	synctest.Wait()
	if !w.over {
		select {
		case w.err = <-w.done:
			w.over = true
		default:
			return "waits"
		}
	}
	if w.err == nil {
		return "met"
	}
	return fmt.Sprint(w.err)
}

// do runs an action of the server.
func do(t *testing.T, srv *streamtest.Server, actions ...string) {
	t.Helper()
	for _, a := range actions {
		if err := srv.Do(a); err != nil {
			t.Fatal(err)
		}
	}
}

type place struct {
	resource        gvr.Resource
	namespace, name string
}

// named returns the object "door", which is a widget in the namespace shop, or "hall/door", or "gadgets/shop/lock".
func named(text string) place {
	o := place{widgets, "shop", text}
	parts := strings.Split(text, "/")
	if len(parts) > 2 && parts[0] == "gadgets" {
		o.resource = gadgets
	}
	if len(parts) > 1 {
		o.namespace, o.name = parts[len(parts)-2], parts[len(parts)-1]
	}
	return o
}
