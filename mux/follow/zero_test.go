package follow_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"k8s.io/client-go/dynamic"

	"github.com/gvrwatch/gvrwatch/discovery"
	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/mux/follow"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

// TestNilAndZeroValues: a nil or zero argument either works or leads to an error that names it.
func TestNilAndZeroValues(t *testing.T) { synctest.Test(t, testNilAndZeroValues) }

func testNilAndZeroValues(t *testing.T) {
	srv := streamtest.NewServer(robots)
	dc, err := discovery.NewClient(srv.Config())
	if err != nil {
		t.Fatal(err)
	}
	resolver, client := discovery.NewResolver(dc, 0), srv.Client()
	everything, noName := follow.Selection{Resources: []string{"*"}}, follow.Selection{Resources: []string{""}}
	newWith := func(r *discovery.Resolver, c dynamic.Interface, s follow.Selection) error {
		_, err := follow.New(r, c, s, nil)
		return err
	}
	selects := func(s follow.Selection, r gvr.Resource) string { return fmt.Sprint(s.Selects(r)) }
	var zero follow.Mux
	tests := []struct {
		call string
		do   func() any
		want string // a part of the result as text
	}{
		{"New(resolver nil)", func() any { return newWith(nil, client, everything) },
			`invalid resolver: must not be nil`},
		{"New(client nil)", func() any { return newWith(resolver, nil, everything) },
			`invalid client: must not be nil`},
		{"New(Selection{})", func() any { return newWith(resolver, client, follow.Selection{}) },
			`invalid Resources: must have the name of a resource`},
		{"New with an empty name", func() any { return newWith(resolver, client, noName) },
			`invalid Resources: invalid resource type "": it is empty`},
		{"New with an empty category", func() any {
			return newWith(resolver, client, follow.Selection{Categories: []string{""}})
		}, "invalid Categories:"},
		{"New with an empty exclusion", func() any {
			return newWith(resolver, client, follow.Selection{Resources: []string{"*"}, Exclude: []string{""}})
		}, "invalid Exclude:"},
		{"New with an empty namespace", func() any {
			return newWith(resolver, client, follow.Selection{Resources: []string{"*"}, Namespaces: []string{""}})
		}, "invalid Namespaces:"},
		{"New(opts nil)", func() any { return newWith(resolver, client, everything) }, "<nil>"},

		{"Selection{}.Selects", func() any { return selects(follow.Selection{}, robots) }, "false <nil>"},
		{"Selects(Resource{})", func() any { return selects(everything, gvr.Resource{}) }, " <nil>"},
		{"Selects of a GVR alone", func() any {
			return selects(everything, gvr.Resource{GroupVersionResource: robots.GroupVersionResource})
		}, "true <nil>"},

		{"zero Mux: Events", func() any {
			_, err := stream.Until(zero.Events(t.Context()), func(stream.Event) (bool, error) { return false, nil })
			return err
		}, "invalid Mux: must be made with New"},
		{"zero Mux: Add", func() any { return zero.Add(&stream.Stream{}, nil) },
			"invalid Mux: must be made with New"},
		{"zero Mux: Remove", func() any { return zero.Remove("robots") }, "false"},
		{"zero Mux: Stop, Drain", func() any { zero.Stop(); zero.Drain(); return "" }, ""},
		{"zero Mux: AllSynced", func() any { return zero.Status().AllSynced }, "false"},
		{"zero Mux: Status", func() any { return len(zero.Status().Resources) }, "0"},
	}
	for _, tt := range tests {
		func() {
			defer func() {
				if p := recover(); p != nil {
					t.Errorf("%s: panic: %v, want %q", tt.call, p, tt.want)
				}
			}()
			if got := fmt.Sprint(tt.do()); !strings.Contains(got, tt.want) {
				t.Errorf("%s: got %q, want %q", tt.call, got, tt.want)
			}
		}()
	}
}
