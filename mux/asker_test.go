package mux

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"

	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

func TestRulesAllow(t *testing.T) {
	both := []string{"list", "watch"}
	tests := []struct {
		rules rules
		want  bool
		why   string
	}{
		{nil, false, "nothing is allowed"},
		{rules{{both, []string{"example.com"}, []string{"widgets"}, nil}}, true, "just this"},
		{rules{{[]string{"*"}, []string{"*"}, []string{"*"}, nil}}, true, "everything"},
		{rules{{[]string{"list"}, []string{"example.com"}, []string{"widgets"}, nil}, {[]string{"watch"}, []string{"*"}, []string{"widgets"}, nil}}, true, "each by another rule"},
		{rules{{[]string{"list", "get"}, []string{"example.com"}, []string{"widgets"}, nil}}, false, "it may not be watched"},
		{rules{{both, []string{""}, []string{"widgets"}, nil}}, false, "of the core group"},
		{rules{{both, []string{"example.com"}, []string{"widgets/status", "gadgets"}, nil}}, false, "of another resource"},
		{rules{{both, []string{"*"}, []string{"*"}, []string{"one"}}}, false, "of a single object"},
	}
	for _, tt := range tests {
		if got := tt.rules.allow(served("widgets", "example.com", true)); got != tt.want {
			t.Errorf("%v: %v, want %v: %s", tt.rules, got, tt.want, tt.why)
		}
	}
}

func TestAsker(t *testing.T) {
	widgets := served("widgets", "example.com", true)
	tests := []struct {
		name     string
		reviews  bool
		script   []string
		want     map[string]bool
		complete bool
		why      string
	}{
		{"reviews", true, []string{"widgets forbid all", "widgets allow all in one", "widgets allow list in two"},
			map[string]bool{"": false, "one": true, "two": false, "rules of one": true, "rules of two": false}, true, "the server is asked"},
		{"none", false, []string{"widgets forbid all", "widgets allow all in one", "widgets allow list in two"},
			map[string]bool{"": false, "one": true, "two": true, "rules of one": false, "rules of two": false}, false, "a list of one object is tried; the watch will tell more"},
		{"forbidden", true, []string{"selfsubjectaccessreviews forbid all", "selfsubjectrulesreviews forbid all", "widgets forbid all in two"},
			map[string]bool{"": true, "one": true, "two": false, "rules of one": false, "rules of two": false}, false, "who may not ask can try"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := streamtest.NewServer(widgets)
				if tt.reviews {
					srv.Serve(streamtest.Reviews()...)
				}
				for _, what := range tt.script {
					if err := srv.Do(what); err != nil {
						t.Fatal(err)
					}
				}
				a := &asker{client: srv.Client()}
				got := map[string]bool{}
				for _, n := range []string{"", "one", "two"} {
					yes, err := a.mayWatch(t.Context(), widgets, n)
					if err != nil {
						t.Fatal(err)
					}
					got[n] = yes
					if n == "" {
						continue
					}
					rules, complete := a.rules(t.Context(), n)
					got["rules of "+n] = rules.allow(widgets)
					if complete != tt.complete {
						t.Errorf("the rules of %s are complete: %v, want %v", n, complete, tt.complete)
					}
				}
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Errorf("%s (-want +got):\n%s", tt.why, diff)
				}
				asked := len(srv.Requests())
				if _, complete := a.rules(t.Context(), "one"); complete != tt.complete || !tt.complete && len(srv.Requests()) != asked {
					t.Error("what the server has turned out not to have is not asked for again")
				}
			})
		})
	}
}

// client-go's fake keeps reviews as objects and answers nothing.
func TestAskerOfAFake(t *testing.T) {
	widgets := served("widgets", "example.com", true)
	c := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{widgets.GroupVersionResource: "WidgetList"})
	a := &asker{client: c}
	for range 2 {
		if yes, err := a.mayWatch(t.Context(), widgets, ""); !yes || err != nil {
			t.Errorf("%v, %v: want yes, as a list of it works", yes, err)
		}
	}
}

func TestRightsBelieveTheWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		widgets := served("widgets", "example.com", true)
		srv := streamtest.NewServer(append(streamtest.Reviews(), widgets)...) // which says yes to everything
		r := newRights(&asker{client: srv.Client()}, []string{"one"}, func() {})
		told := 0
		began := time.Now()
		deny := func() { r.deny(widgets, "", nil, func() { told++ }) }
		deny()
		r.ask(t.Context())
		if everywhere, in := r.of(widgets.GroupResource()); everywhere || !cmp.Equal(in, []string{"one"}) {
			t.Errorf("asked at once: %v, %v; want the watch to be believed", everywhere, in)
		}
		var last time.Duration
		for range 4 {
			for {
				time.Sleep(time.Second)
				r.ask(t.Context())
				if everywhere, _ := r.of(widgets.GroupResource()); everywhere {
					break
				}
			}
			waited := time.Since(began)
			if waited < 2*last {
				t.Errorf("believed again after %v, after %v before: want it to take longer each time", waited, last)
			}
			began, last = time.Now(), waited
			deny()
		}
		if told == 0 {
			t.Error("nobody was told of what changed")
		}
	})
}

// TestTriggersOfAFake: client-go's fake would panic at what it was not told of.
func TestTriggersOfAFake(t *testing.T) {
	newTriggers(nil, dynamicfake.NewSimpleDynamicClient(runtime.NewScheme())).run(t.Context())
}
