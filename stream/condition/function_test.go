package condition_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/condition"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

// TestMetOfFunctions: what Met returns of a function.
func TestMetOfFunctions(t *testing.T) {
	errFull, errRaised := errors.New("full"), errors.New("raised")
	returns := func(met bool, err error) func(*unstructured.Unstructured) (bool, error) {
		return func(*unstructured.Unstructured) (bool, error) { return met, err }
	}
	panics := func(v any) func(*unstructured.Unstructured) (bool, error) {
		return func(*unstructured.Unstructured) (bool, error) { panic(v) }
	}
	door := object(t, `{"metadata":{"name":"door"}}`)
	tests := []struct {
		why      string
		c        condition.Condition
		o        *unstructured.Unstructured
		met      bool
		want     string // the error
		wrapped  error
		panicked any
	}{
		{why: "true", c: condition.New("open", returns(true, nil)), o: door, met: true},
		{why: "false", c: condition.New("open", returns(false, nil)), o: door},
		{why: "what does not exist does not meet it", c: condition.New("open", panics("called"))},
		{why: "an error", c: condition.New("open", returns(false, errFull)), o: door,
			want: "condition: cannot check open: full", wrapped: errFull},
		{why: "true and an error", c: condition.New("open", returns(true, errFull)), o: door,
			want: "condition: cannot check open: full", wrapped: errFull},
		{why: "a panic", c: condition.New("open", panics("boom")), o: door,
			want: "condition: cannot check open: panic: boom", panicked: "boom"},
		{why: "a panic with an error", c: condition.New("open", panics(errRaised)), o: door,
			want: "condition: cannot check open: panic: raised", wrapped: errRaised, panicked: errRaised},
		{why: "no function", c: condition.New("open", nil), o: door,
			want: `gvrwatch: invalid condition "open": must have a name and a function`},
		{why: "no function, no object", c: condition.New("open", nil),
			want: `gvrwatch: invalid condition "open": must have a name and a function`},
		{why: "no name", c: condition.New("", returns(true, nil)), o: door,
			want: "gvrwatch: invalid condition: must have a name and a function"},
	}
	for _, tt := range tests {
		met, err := tt.c.Met(tt.o)
		var got string
		if err != nil {
			got = err.Error()
		}
		wraps := tt.wrapped == nil || errors.Is(err, tt.wrapped)
		if diff := cmp.Diff(tt.want, got); diff != "" || met != tt.met || !wraps {
			t.Errorf("%s: %v (-want +got):\n%s", tt.why, met, diff)
		}
		var p *stream.PanicError
		if errors.As(err, &p) != (tt.panicked != nil) {
			t.Errorf("%s: a PanicError: %v", tt.why, p != nil)
		} else if p != nil &&
			(p.Value != tt.panicked || p.Where != "open" || !strings.Contains(string(p.Stack), "TestMetOf")) {
			t.Errorf("%s: %+v", tt.why, p)
		}
	}
}

// TestFunctionsAreComparable: each New is another Condition, also with the same name and function.
func TestFunctionsAreComparable(t *testing.T) {
	met := func(*unstructured.Unstructured) (bool, error) { return true, nil }
	one, other := condition.New("open", met), condition.New("open", met)
	if same := one; same != one || one == other || one == (condition.Condition{}) {
		t.Error("New does not return a Condition of its own")
	}
	if got := one.String(); got != "open" {
		t.Errorf("String returns %q", got)
	}
	reasons := map[condition.Target]string{{For: one}: "a", {For: other}: "b"}
	if len(reasons) != 2 {
		t.Errorf("%v", reasons)
	}
}

func TestMustParse(t *testing.T) {
	if got := condition.MustParse("condition=Ready"); got != must(condition.Parse("condition=Ready")) {
		t.Errorf("got %s", got)
	}
	defer func() {
		if err, ok := recover().(*stream.OptionsError); !ok || err.Field != "condition" || err.Value != "ready" {
			t.Errorf("panicked with %v", err)
		}
	}()
	condition.MustParse("ready")
}

// TestPanicOfAFunctionEndsWait, and no goroutine of the source is left, which would fail the bubble.
func TestPanicOfAFunctionEndsWait(t *testing.T) {
	for kind, newSource := range kinds {
		synctest.Test(t, func(t *testing.T) {
			srv := streamtest.NewServer(widgets, gadgets)
			srv.Put(widgets, "shop", "door", unready)
			careless := condition.New("careless", func(o *unstructured.Unstructured) (bool, error) {
				return o.Object["status"].(map[string]any)["phase"].(string) == "on", nil
			})
			err := condition.Wait(t.Context(), newSource(srv), all(careless, target(widgets, "door"))...)
			var p *stream.PanicError
			if !errors.As(err, &p) || p.Where != "careless" {
				t.Fatalf("%s: %v, want a PanicError", kind, err)
			}
			if !strings.HasSuffix(err.Error(), "(widgets.example.com shop/door)") {
				t.Errorf("%s: %v does not name the object", kind, err)
			}
		})
	}
}

// TestFunctionMayKeepObjects: what a function has kept is not changed later, and may be read while Wait goes on.
func TestFunctionMayKeepObjects(t *testing.T) {
	for kind, newSource := range kinds {
		synctest.Test(t, func(t *testing.T) {
			srv := streamtest.NewServer(widgets, gadgets)
			kept := make(chan *unstructured.Unstructured, 100)
			keeps := condition.New("keeps", func(o *unstructured.Unstructured) (bool, error) {
				kept <- o
				return o.GetLabels()["step"] == "step-9", nil
			})
			w := startWait(t.Context(), t, newSource(srv), all(keeps, target(widgets, "door"))...)
			var objects []*unstructured.Unstructured
			read := func() (all []string) {
				for _, o := range objects {
					all = append(all, fmt.Sprint(o.Object))
				}
				return all
			}
			var before []string
			for step := range 10 {
				want := fmt.Sprint("step-", step)
				srv.Put(widgets, "shop", "door", "metadata.labels.step="+want)
				o := <-kept // Wait is in the next event meanwhile
				objects = append(objects, o)
				if got := o.GetLabels()["step"]; got != want {
					t.Fatalf("%s: %s, want %s", kind, got, want)
				}
				if got := read(); !slices.Equal(got[:step], before) {
					t.Errorf("%s: what was kept has changed (-want +got):\n%s", kind, cmp.Diff(before, got[:step]))
				}
				before = read()
				time.Sleep(time.Second)
			}
			if got := w.state(); got != "met" {
				t.Errorf("%s: %s", kind, got)
			}
		})
	}
}

// TestOneObjectIsDecodedOnce: all targets of an object see the same one, and Wait makes one call of a function for each
// state and target.
func TestOneObjectIsDecodedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := streamtest.NewServer(widgets)
		srv.Put(widgets, "shop", "door", ready)
		srv.Put(widgets, "shop", "other", ready)
		var seen [2][]*unstructured.Unstructured
		see := func(i int) condition.Condition {
			return condition.New("seen", func(o *unstructured.Unstructured) (bool, error) {
				seen[i] = append(seen[i], o)
				return len(seen[i]) == 2, nil
			})
		}
		w := startWait(t.Context(), t, kinds["raw, in pages"](srv), slices.Concat(
			all(see(0), target(widgets, "door")), all(see(1), target(widgets, "door")))...)
		if got := w.state(); got != "waits" {
			t.Fatal(got)
		}
		srv.Put(widgets, "shop", "door", unready)
		if got := w.state(); got != "met" {
			t.Fatal(got)
		}
		if diff := cmp.Diff([]int{2, 2}, []int{len(seen[0]), len(seen[1])}); diff != "" {
			t.Fatalf("calls (-want +got):\n%s", diff)
		}
		if !slices.Equal(seen[0], seen[1]) {
			t.Error("the targets see different objects")
		}
	})
}
