package condition_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/internal/testing/seedtest"
	"github.com/gvrwatch/gvrwatch/mux"
	"github.com/gvrwatch/gvrwatch/mux/follow"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/condition"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

// The error of a Wait that ends too early names what does not meet the condition, and why.
func TestUnmet(t *testing.T) {
	var many []string
	eleven := "create is not met "
	for i := range 11 {
		many = append(many, fmt.Sprint("w", 20-i))
		if i < 10 {
			eleven += fmt.Sprintf("by widgets.example.com shop/w%d: does not exist; ", 10+i)
		}
	}
	tests := []struct {
		condition, targets string
		put                map[string]string
		want               string
		why                string
	}{
		{"condition=Ready", "door roof", map[string]string{"door": unready},
			"condition=Ready is not met by widgets.example.com shop/door: condition Ready is False; " +
				"by widgets.example.com shop/roof: does not exist", "two reasons"},
		{"condition=Ready=x", "door", map[string]string{
			"door": `status={"conditions":[{"type":"Ready","status":"secret"}]}`},
			"shop/door: condition Ready has another status", "no error quotes an object"},
		{"condition=Other", "door", map[string]string{"door": ready}, "shop/door: has no condition Other", ""},
		{"condition=Ready", "door", map[string]string{
			"door": `status={"observedGeneration":0,"conditions":[{"type":"Ready","status":"True"}]}`},
			"shop/door: condition Ready is that of an older generation", ""},
		{"jsonpath={.spec.a}=x", "door", map[string]string{"door": "spec.a=secret"},
			"shop/door: {.spec.a} has another value", "no error quotes an object"},
		{"jsonpath={.spec.b}=x", "door", map[string]string{"door": "spec.a=secret"},
			"shop/door: {.spec.b} has no value", ""},
		{"jsonpath={.spec.a[?(@.x==1)]}", "door", map[string]string{"door": "spec.a=secret"},
			"shop/door: {.spec.a[?(@.x==1)]} has no value", "client-go's error would quote it"},
		{"delete", "door roof", map[string]string{"door": ready},
			"delete is not met by widgets.example.com shop/door: exists", "roof meets it"},
		{"create", "", nil, "create is not met by widgets.example.com *: has no objects: time is up", ""},
		{"condition=Ready", "", map[string]string{"door": unready, "roof": ready},
			"shop/door: condition Ready is False", ""},
		{"create", strings.Join(many, " "), nil, eleven + "and by 1 more", "ten are enough, in order"},
	}
	for _, tt := range tests {
		synctest.Test(t, func(t *testing.T) {
			srv := streamtest.NewServer(widgets, gadgets)
			for name, fields := range tt.put {
				srv.Put(widgets, "shop", name, fields)
			}
			ctx, cancel := timeUp(t)
			defer cancel()
			var targets []condition.Target
			for _, name := range strings.Fields(tt.targets) {
				targets = append(targets, target(widgets, name))
			}
			w := start(ctx, t, kinds["Stream"](srv), tt.condition, targets...)
			time.Sleep(2 * time.Hour)
			got := w.state()
			var unmet *condition.UnmetError
			if !errors.As(w.err, &unmet) || !errors.Is(w.err, context.Cause(ctx)) {
				t.Fatalf("%s of %s: %v, want an UnmetError that wraps the cause", tt.condition, tt.targets, w.err)
			}
			want := strings.TrimSuffix(tt.want, ": time is up") + ": time is up"
			if !strings.HasSuffix(got, want) || strings.Contains(got, "secret") || len(unmet.Unmet) > 10 {
				t.Errorf("%s of %s: %s\nwant %s (%s)", tt.condition, tt.targets, got, tt.want, tt.why)
			}
		})
	}
}

// What else ends a Wait.
func TestWaitEnds(t *testing.T) {
	door := target(widgets, "door")
	widgetStream := func(srv *streamtest.Server, o stream.Options) source {
		return must(stream.New(srv.Client(), widgets, &o))
	}
	untilSynced := func(srv *streamtest.Server) source {
		return must(stream.New(srv.Client(), widgets, nil)).With(stream.Run{Until: stream.UntilSynced})
	}
	boom := stream.Options{Transform: func(*unstructured.Unstructured) { panic("boom") }}
	tests := []struct {
		why     string
		source  func(*streamtest.Server) source
		script  string
		end     func(context.CancelFunc, *streamtest.Server, source)
		want    string
		matches func(error) bool
	}{
		{"the context", kinds["Stream"], "",
			func(cancel context.CancelFunc, _ *streamtest.Server, _ source) { cancel() },
			"widgets.example.com shop/door: condition Ready is False: context canceled", nil},
		{"before anything is known", kinds["Mux"], "widgets any *: hang",
			func(cancel context.CancelFunc, _ *streamtest.Server, _ source) { cancel() },
			"widgets.example.com shop/door: is not known yet: context canceled", nil},
		{"Stop", kinds["Mux"], "",
			func(_ context.CancelFunc, _ *streamtest.Server, s source) { s.(*mux.Mux).Stop() },
			"the sequence ended before", func(err error) bool { return errors.Is(err, stream.ErrUnmet) }},
		{"UntilSynced checks once", untilSynced, "", nil, "condition Ready is False",
			func(err error) bool { return errors.Is(err, stream.ErrUnmet) }},
		{"a refused request", kinds["Stream"], "any *: 403", nil, "cannot watch widgets.v1.example.com",
			func(err error) bool { var e *stream.RequestError; return errors.As(err, &e) }},
		{"history is lost", func(*streamtest.Server) source { return must(mux.New(nil, lossy{})) }, "", nil,
			"cannot know what happened", func(err error) bool { var e *stream.GapError; return errors.As(err, &e) }},
		{"a panic in a Mux", func(srv *streamtest.Server) source {
			return must(mux.New(nil, widgetStream(srv, boom).(mux.Source)))
		}, "", nil, "boom", func(err error) bool { var e *stream.PanicError; return errors.As(err, &e) }},
	}
	for _, tt := range tests {
		t.Run(tt.why, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := streamtest.NewServer(widgets, gadgets)
				srv.Put(widgets, "shop", "door", unready)
				if err := srv.Apply(tt.script); err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				s := tt.source(srv)
				w := start(ctx, t, s, "condition=Ready", door)
				if synctest.Wait(); tt.end != nil {
					if got := w.state(); got != "waits" {
						t.Fatalf("%s before the end", got)
					}
					tt.end(cancel, srv, s)
				}
				time.Sleep(5 * time.Minute)
				if got := w.state(); !strings.Contains(got, tt.want) || tt.matches != nil && !tt.matches(w.err) {
					t.Errorf("%s, want %s", got, tt.want)
				}
			})
		})
	}
	t.Run("a panic in a Stream", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { // which fails if a goroutine is left
			srv := streamtest.NewServer(widgets)
			srv.Put(widgets, "shop", "door", unready)
			defer func() {
				if p := recover(); p != "boom" {
					t.Errorf("panicked with %v, want boom", p)
				}
			}()
			_ = condition.Wait(t.Context(), widgetStream(srv, boom), all(condition.MustParse("delete"))...)
		})
	})
}

// TestNilAndZeroValues: an invalid argument leads to an error that names it.
func TestNilAndZeroValues(t *testing.T) {
	srv := streamtest.NewServer(widgets)
	defer srv.Close()
	of := func(o stream.Options) source { return must(stream.New(srv.Client(), widgets, &o)) }
	with := func(r stream.Run) source { return must(stream.New(srv.Client(), widgets, nil)).With(r) }
	isReady, deleted := must(condition.Parse("condition=Ready")), must(condition.Parse("delete"))
	otherDoor := target(widgets, "door")
	otherDoor.Namespace = "other"
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	nodes := widgets
	nodes.Namespaced = false
	tracker := must(checkpoint.NewTracker(&checkpoint.Memory{},
		&checkpoint.Options{Cluster: checkpoint.Cluster{UID: "c"}}))
	defer tracker.Close()
	tests := []struct {
		call    string
		ctx     context.Context
		source  source
		c       condition.Condition
		targets []condition.Target
		want    string
	}{
		{"no context", nil, of(stream.Options{}), deleted, nil, "invalid ctx: must not be nil"},
		{"no source", ended, nil, deleted, nil, "invalid source: must not be nil"},
		{"a nil follow.Mux", ended, (*follow.Mux)(nil), deleted, nil, "invalid source: must not be nil"},
		{"a nil Stream", ended, (*stream.Stream)(nil), deleted, nil, "invalid source: must not be nil"},
		{"a nil Mux", ended, (*mux.Mux)(nil), deleted, nil, "invalid source: must not be nil"},
		{"a zero Stream", ended, &stream.Stream{}, deleted, nil, "invalid Stream: must be made with stream.New"},
		{"a zero Mux", ended, &mux.Mux{}, deleted, nil, "invalid Mux: must be made with New"},
		{"a zero follow.Mux", ended, &follow.Mux{}, deleted, nil, "invalid Mux: must be made with New"},
		{"no condition", ended, of(stream.Options{}), condition.Condition{},
			[]condition.Target{target(widgets, "door")},
			`invalid targets "widgets.example.com shop/door": must have a condition (For)`},
		{"a zero Target", ended, must(mux.New(nil)), condition.Condition{}, nil,
			`invalid targets "*": must have a condition (For)`},
		{"no function", ended, of(stream.Options{}), condition.New("open", nil), nil,
			`invalid condition "open": must have a name and a function`},
		{"a function without a name", ended, of(stream.Options{}),
			condition.New("", func(*unstructured.Unstructured) (bool, error) { return true, nil }), nil,
			"invalid condition: must have a name and a function"},
		{"a Target of a Mux without a resource", ended, must(mux.New(nil)), deleted,
			[]condition.Target{{Namespace: "shop", Name: "door"}}, "must have a resource, because it has a name"},
		{"a kind", ended, must(mux.New(nil)), deleted, []condition.Target{{Resource: "Widget", Name: "door"}},
			`invalid targets "Widget door": must have the full name of a resource, such as deployments.apps`},
		{"an apiVersion", ended, must(mux.New(nil)), deleted, []condition.Target{{Resource: "example.com/v1/widgets"}},
			"must have the full name of a resource"},
		{"a short name for a Stream", ended, of(stream.Options{}), deleted, []condition.Target{{Resource: "wi"}},
			`invalid targets "wi *": must be among what the Stream watches, widgets.example.com`},
		{"every object, of a Mux", ended, must(mux.New(nil)), deleted, nil, "context canceled"},
		{"every object, of a Stream with a name", ended, of(stream.Options{Name: "door"}), deleted, nil,
			"context canceled"},
		{"every object of a namespace", ended, of(stream.Options{}), deleted, []condition.Target{target(widgets, "")},
			"context canceled"},
		{"every object of another namespace", ended, of(stream.Options{Namespaces: []string{"other"}}), deleted,
			[]condition.Target{target(widgets, "")},
			`invalid targets "widgets.example.com shop/*": must be among what the Stream watches`},
		{"another resource", ended, of(stream.Options{}), deleted, []condition.Target{target(gadgets, "a")},
			`invalid targets "gadgets.example.com shop/a": must be among what the Stream watches`},
		{"another namespace", ended, of(stream.Options{Namespaces: []string{"shop"}}), deleted,
			[]condition.Target{otherDoor}, "must be among what the Stream watches"},
		{"another name", ended, of(stream.Options{Name: "window"}), deleted,
			[]condition.Target{target(widgets, "door")}, "must be among what the Stream watches"},
		{"only changes", ended, with(stream.Run{Start: stream.Now()}), deleted, nil,
			"must deliver all that exists"},
		{"a checkpoint", ended, with(stream.Run{Checkpoint: tracker}), deleted, nil,
			"must deliver all that exists"},
		{"no namespace", ended, of(stream.Options{}), deleted,
			[]condition.Target{{Resource: "widgets.example.com", Name: "door"}}, "must have a namespace"},
		{"a namespace of what has none", ended, must(stream.New(streamtest.NewServer().Client(), nodes, nil)), deleted,
			[]condition.Target{{Namespace: "shop", Name: "door"}}, "must have a namespace exactly if"},
		{"metadata of a jsonpath", ended, of(stream.Options{Objects: stream.Metadata}),
			must(condition.Parse("jsonpath={.metadata.labels.a}")), nil, "context canceled"},
		{"no status", ended, of(stream.Options{Objects: stream.Metadata}), isReady, nil,
			"must deliver Full or Raw objects"},
		{"metadata", ended, of(stream.Options{Objects: stream.Metadata}), deleted, nil, "context canceled"},
	}
	for _, tt := range tests {
		if err := condition.Wait(tt.ctx, tt.source, all(tt.c, tt.targets...)...); err == nil ||
			!strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %s", tt.call, err, tt.want)
		}
	}
}

// TestRandomHistories compares Wait with what exists: while nothing is lost, it has returned exactly if all targets
// have been ready at the same moment; after a gap, exactly if they are.
func TestRandomHistories(t *testing.T) {
	names := []string{"door", "window"}
	for seed := range seedtest.Default(10).All(t) {
		for kind, newSource := range kinds {
			synctest.Test(t, func(t *testing.T) {
				random := rand.New(rand.NewPCG(seed, 1))
				srv := streamtest.NewServer(widgets, gadgets)
				isReady := map[string]bool{}
				w := start(t.Context(), t, newSource(srv), "condition=Ready",
					target(widgets, "door"), target(widgets, "window"))
				var log []string
				met := false // at a moment that was delivered
				change := func() {
					name := names[random.IntN(len(names))]
					switch random.IntN(5) {
					case 0, 1:
						srv.Put(widgets, "shop", name, ready)
						isReady[name] = true
						log = append(log, "ready "+name)
					case 2, 3:
						srv.Put(widgets, "shop", name, unready)
						isReady[name] = false
						log = append(log, "unready "+name)
					default:
						_, _ = srv.Delete(widgets, "shop", name)
						isReady[name] = false
						log = append(log, "delete "+name)
					}
				}
				for range 12 {
					if synctest.Wait(); random.IntN(3) > 0 {
						change()
					} else {
						do(t, srv, "silence")
						for range 1 + random.IntN(6) {
							change()
						}
						do(t, srv, "compact") // what was met in between is lost
						time.Sleep(5 * time.Minute)
						log = append(log, "gap")
					}
					met = met || isReady["door"] && isReady["window"]
					got := w.state()
					if want := map[bool]string{true: "met", false: "waits"}[met]; got != want {
						t.Fatal(kind, cmp.Diff(want, got), strings.Join(log, "; "))
					}
				}
			})
			if t.Failed() {
				return
			}
		}
	}
}

// lossy is a source that is synced, and a minute later has lost its history.
type lossy struct{}

func (lossy) Key() string { return "lossy" }

func (lossy) Events(context.Context) iter.Seq2[stream.Event, error] {
	return func(yield func(stream.Event, error) bool) {
		_ = yield(stream.Event{Type: stream.Synced, Resource: widgets}, nil)
		time.Sleep(time.Minute)
		_ = yield(stream.Event{Type: stream.Gap, Resource: widgets, Gap: &stream.GapDetails{HistoryLost: true}}, nil)
	}
}

// TestTargetsAreNotChanged: Wait completes copies.
func TestTargetsAreNotChanged(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	want := condition.Target{For: condition.MustParse("delete"), Namespace: "shop", Name: "door"}
	targets := []condition.Target{want}
	s := must(stream.New(streamtest.NewServer(widgets).Client(), widgets, nil))
	err := condition.Wait(ctx, s, targets...)
	if !errors.Is(err, context.Canceled) || targets[0] != want {
		t.Errorf("%v, and the target is %v", err, targets[0])
	}
}

// TestSourcesOfAMuxDeliverEverything: an object that a source does not deliver is no deleted object.
func TestSourcesOfAMuxDeliverEverything(t *testing.T) {
	for _, tt := range []struct {
		run     stream.Run
		tracked bool
		want    string
		why     string
	}{
		{stream.Run{Start: stream.Now()}, false, "must deliver all", "it delivers changes only"},
		{stream.Run{Start: stream.After("1")}, false, "must deliver all", "nor what was before"},
		{stream.Run{Start: stream.Resume()}, false, "must deliver all", "nor what it has delivered"},
		{stream.Run{}, true, "must deliver all", "nor what was acked"},
		{stream.Run{}, false, "door: exists", "it delivers the door"},
	} {
		synctest.Test(t, func(t *testing.T) {
			srv := streamtest.NewServer(widgets, gadgets)
			srv.Put(widgets, "shop", "door")
			if tt.tracked {
				tt.run.Checkpoint = must(checkpoint.NewTracker(&checkpoint.Memory{},
					&checkpoint.Options{Cluster: checkpoint.Cluster{UID: "1"}}))
				defer tt.run.Checkpoint.Close()
			}
			c := srv.Client()
			m := must(mux.New(nil, must(stream.New(c, gadgets, nil)), must(stream.New(c, widgets, nil)).With(tt.run)))
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			err := condition.Wait(ctx, m, all(condition.MustParse("delete"), target(widgets, "door"))...)
			invalid := errors.As(err, new(*stream.OptionsError))
			if invalid != strings.HasPrefix(tt.want, "must") || err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%s: %v, want %s", tt.why, err, tt.want)
			}
			if n := len(srv.Requests()); invalid && n > 0 {
				t.Errorf("%s: %d requests: the events of a run that is refused are lost", tt.why, n)
			}
		})
	}
}

// TestSourceThatIsAddedDeliversEverything: the same for a source that is added while Wait runs.
func TestSourceThatIsAddedDeliversEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := streamtest.NewServer(widgets, gadgets)
		srv.Put(widgets, "shop", "door")
		c := srv.Client()
		m := must(mux.New(nil, must(stream.New(c, gadgets, nil))))
		w := start(t.Context(), t, m, "delete", target(widgets, "door"))
		synctest.Wait()
		if err := m.Add(must(stream.New(c, widgets, nil)).With(stream.Run{Start: stream.Now()}), nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if got := w.state(); !strings.Contains(got, "must deliver all that exists") {
			t.Error(got)
		}
	})
}
