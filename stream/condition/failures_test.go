package condition_test

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/mux"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/condition"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

// TestUnmetNamesFailures: the error at the end of ctx says why the server's state is not known, or is an old one.
func TestUnmetNamesFailures(t *testing.T) {
	const unknown = "is not known yet: time is up"
	for _, tt := range []struct {
		why, script string
		sources     string // of kinds
		want        string // the end of the error; "...": anything
	}{
		{"503", "widgets any *: 503", "Stream Mux follow",
			unknown + " (cannot list widgets.v1.example.com across the cluster: " +
				"the server is currently unable to handle the request (list widgets.example.com))"},
		{"refused", "widgets any *: refuse", "Stream Mux follow",
			unknown + " (cannot list widgets.v1.example.com across the cluster: ...connection refused)"},
		{"no answer", "widgets any *: hang", "Stream Mux follow",
			unknown + " (cannot list widgets.v1.example.com across the cluster: the server did not answer in time)"},
		{"each namespace fails", "widgets any *: 503", "namespaces",
			unknown + " (cannot list widgets.v1.example.com in namespace ...(list widgets.example.com))"},
		{"two resources fail", "widgets any *: 503\ngadgets any *: hang", "Mux follow",
			unknown + " (cannot list gadgets.v1.example.com across the cluster: the server did not answer in time; " +
				"cannot list widgets.v1.example.com across the cluster: ...(list widgets.example.com))"},
		{"what is known is old", "at 5s: forbid all\nat 5s: close watches", "Stream",
			"shop/door: condition Ready is False: time is up (cannot watch widgets.v1.example.com ...)"},
		{"so is all of a Mux", "at 5s: forbid all\nat 5s: close watches", "Mux",
			"shop/door: condition Ready is False: time is up (cannot watch gadgets.v1.example.com ...scope)"},
		{"nothing fails any more", "widgets list 1-3: 503", "Stream Mux follow",
			"shop/door: condition Ready is False: time is up"},
	} {
		for _, kind := range strings.Fields(tt.sources) {
			synctest.Test(t, func(t *testing.T) {
				srv := streamtest.NewServer(widgets, gadgets)
				defer srv.Close()
				srv.Put(widgets, "shop", "door", unready)
				if err := srv.Apply(tt.script); err != nil {
					t.Fatal(err)
				}
				ctx, cancel := timeUp(t)
				defer cancel()
				err := condition.Wait(ctx, kinds[kind](srv), all(condition.MustParse("condition=Ready"),
					target(widgets, "door"))...)
				if !errors.Is(err, context.Cause(ctx)) || !errors.As(err, new(*condition.UnmetError)) {
					t.Fatalf("%s, %s: %v, want an UnmetError that wraps the cause", tt.why, kind, err)
				}
				begin, end, _ := strings.Cut(tt.want, "...")
				if got := err.Error(); !strings.Contains(got, begin) || !strings.HasSuffix(got, cmp.Or(end, begin)) {
					t.Errorf("%s, %s: %s\nwant %s", tt.why, kind, got, tt.want)
				}
			})
		}
	}
}

// TestUnmetNamesThreeFailures: a Mux may have many sources that fail.
func TestUnmetNamesThreeFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all []gvr.Resource
		for _, plural := range []string{"as", "bs", "cs", "ds", "es"} {
			all = append(all, resource(strings.ToUpper(plural[:1]), plural))
		}
		srv := streamtest.NewServer(all...)
		defer srv.Close()
		if err := srv.Apply("any *: refuse"); err != nil {
			t.Fatal(err)
		}
		m := must(mux.New(nil))
		for _, r := range all {
			if err := m.Add(must(stream.New(srv.Client(), r, nil)), nil); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := timeUp(t)
		defer cancel()
		got := condition.Wait(ctx, m, condition.Target{For: condition.MustParse("create")}).Error()
		if strings.Count(got, "cannot list") != 3 || !strings.HasSuffix(got, "; and 2 more)") {
			t.Error(got)
		}
	})
}

// reporting is a source that delivers nothing and has a Status.
type reporting struct {
	lossy
	status func() stream.Status
}

func (r reporting) Status() stream.Status { return r.status() }

func (reporting) Events(ctx context.Context) iter.Seq2[stream.Event, error] {
	return func(yield func(stream.Event, error) bool) {
		<-ctx.Done()
		yield(stream.Event{}, context.Cause(ctx))
	}
}

// TestStatusOfSource: Wait reads the Status that a source of a Mux has.
func TestStatusOfSource(t *testing.T) {
	of := func(s stream.State) func() stream.Status {
		return func() stream.Status { return stream.Status{State: s, Cause: errors.New("broken")} }
	}
	for _, tt := range []struct {
		why    string
		status func() stream.Status
		want   string
	}{
		{"the list or the watch fails", of(stream.Backoff), "time is up (broken)"},
		{"a watch is silent", of(stream.Stalled), "time is up (broken)"},
		{"a watch is open, although the versions are wrong", of(stream.Unordered), "time is up"},
		{"beside the loop nobody could recover a panic", func() stream.Status { panic("no status") }, "time is up"},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := timeUp(t)
			defer cancel()
			m := must(mux.New(nil, reporting{status: tt.status}))
			err := condition.Wait(ctx, m, all(condition.MustParse("create"))...)
			if !errors.Is(err, context.Cause(ctx)) || !strings.HasSuffix(err.Error(), ": "+tt.want) {
				t.Errorf("%s: %v, want %s", tt.why, err, tt.want)
			}
		})
	}
}

// deadlined is a source that reports the Deadline of its context.
type deadlined struct {
	scripted
	got *time.Time
}

func (d deadlined) Events(ctx context.Context) iter.Seq2[stream.Event, error] {
	*d.got, _ = ctx.Deadline()
	return d.scripted.Events(ctx)
}

// TestSourceKnowsTheDeadline: what would not end in time need not begin.
func TestSourceKnowsTheDeadline(t *testing.T) {
	ctx, cancel := timeUp(t)
	defer cancel()
	var got time.Time
	_ = condition.Wait(ctx, deadlined{got: &got}, all(condition.MustParse("create"))...)
	if want, _ := ctx.Deadline(); !got.Equal(want) {
		t.Errorf("the deadline is %v, want %v", got, want)
	}
}
