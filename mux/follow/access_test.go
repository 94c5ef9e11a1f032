package follow

import (
	"testing"
	"testing/synctest"

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
		{nil, false, "no rules"},
		{rules{{both, []string{"example.com"}, []string{"widgets"}, nil}}, true, "exactly this resource"},
		{rules{{[]string{"*"}, []string{"*"}, []string{"*"}, nil}}, true, "everything"},
		{rules{{[]string{"list"}, []string{"example.com"}, []string{"widgets"}, nil},
			{[]string{"watch"}, []string{"*"}, []string{"widgets"}, nil}}, true, "each verb by another rule"},
		{rules{{[]string{"list", "get"}, []string{"example.com"}, []string{"widgets"}, nil}}, false,
			"watch is missing"},
		{rules{{both, []string{""}, []string{"widgets"}, nil}}, false, "a rule of the core group"},
		{rules{{both, []string{"example.com"}, []string{"widgets/status", "gadgets"}, nil}}, false,
			"a rule of other resources"},
		{rules{{both, []string{"*"}, []string{"*"}, []string{"one"}}}, false, "a rule of a single object"},
	}
	for _, tt := range tests {
		if got := tt.rules.allow(resource("widgets", "example.com", true)); got != tt.want {
			t.Errorf("%v: %v, want %v: %s", tt.rules, got, tt.want, tt.why)
		}
	}
}

func TestAccessChecker(t *testing.T) {
	widgets := resource("widgets", "example.com", true)
	tests := []struct {
		name     string
		reviews  bool
		script   []string
		want     map[string]bool
		complete bool
		why      string
	}{
		{"reviews", true, []string{"widgets forbid all", "widgets allow all in one", "widgets allow list in two"},
			map[string]bool{"": false, "one": true, "two": false, "rules of one": true, "rules of two": false}, true,
			"the server answers reviews"},
		{"no reviews", false, []string{"widgets forbid all", "widgets allow all in one", "widgets allow list in two"},
			map[string]bool{"": false, "one": true, "two": true, "rules of one": false, "rules of two": false}, false,
			"without reviews, listing one object decides; a watch may still be refused"},
		{"reviews forbidden", true,
			[]string{"selfsubjectaccessreviews forbid all", "selfsubjectrulesreviews forbid all",
				"widgets forbid all in two"},
			map[string]bool{"": true, "one": true, "two": false, "rules of one": false, "rules of two": false}, false,
			"if reviews are forbidden, listing decides"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := streamtest.NewServer(widgets)
				if tt.reviews {
					srv.WithReviews()
				}
				for _, what := range tt.script {
					if err := srv.Do(what); err != nil {
						t.Fatal(err)
					}
				}
				a := newAccessChecker(srv.Client())
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
				if a.noRules.Load() == tt.complete {
					t.Errorf("%s: a server without rules is remembered: %v", tt.why, a.noRules.Load())
				}
			})
		})
	}
}

// client-go's fake stores reviews as objects.
func TestListingDecidesIfReviewsAnswerNothing(t *testing.T) {
	widgets := resource("widgets", "example.com", true)
	c := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(),
		map[schema.GroupVersionResource]string{widgets.GroupVersionResource: "WidgetList"})
	a := newAccessChecker(c)
	for range 2 {
		if yes, err := a.mayWatch(t.Context(), widgets, ""); !yes || err != nil {
			t.Errorf("%v, %v: want yes, since listing works", yes, err)
		}
	}
}

// client-go's fake would panic for resources that are not registered.
func TestTypeWatcherAcceptsAFake(t *testing.T) {
	newTypeWatcher(nil, dynamicfake.NewSimpleDynamicClient(runtime.NewScheme())).run(t.Context())
}
