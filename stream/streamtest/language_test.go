package streamtest

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gvrwatch/gvrwatch/internal/friend"
	"github.com/gvrwatch/gvrwatch/internal/testing/apiserver/script"
)

// The documentation names what the scripts of a Server may have, and nothing else. The error about another fault or
// action names the same. A Server made by Of accepts everything.
func TestScriptsHaveTheDocumentedLanguage(t *testing.T) {
	text, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	documented := func(usage string) bool {
		usage, _, _ = strings.Cut(usage, " in NAMESPACE")
		if usage == "CODE" {
			usage = "400 ... 599"
		}
		usage = strings.NewReplacer("CODE plain", "503 plain", "CODE", "429", "every SECONDS", "every 10s",
			"SECONDS", "3s", "DURATION", "2s").Replace(usage)
		return strings.Contains(string(text), "\n//\t"+usage+"  ") || strings.Contains(string(text), `"`+usage+`"`)
	}
	example := strings.NewReplacer("CODE Gone", "410 Gone", "CODE", "500", "SECONDS", "3s", "DURATION", "3s",
		"GROUP", "core", "VERB", "list", "NAMESPACE", "x", " N", " 2")
	accepted := (&Server{}).language()
	tests := []struct {
		what          string
		all, accepted []string
		do            func(s *Server, what string) error
	}{
		{"faults", script.Everything().Faults, accepted.Faults,
			func(s *Server, what string) error { return s.Apply("any 1: " + what) }},
		{"actions", script.Everything().Actions, accepted.Actions, (*Server).Do},
		{"actions of scripts", script.Everything().Actions, accepted.Actions,
			func(s *Server, what string) error { return s.Apply("at 1h: " + what) }},
	}
	for _, tt := range tests {
		t.Run(tt.what, func(t *testing.T) {
			var got, want []string
			for _, usage := range tt.all {
				want = append(want, usage)
				s := NewServer()
				defer s.Close()
				list := "must be one of " + strings.Join(tt.accepted, ", ")
				if err := tt.do(s, example.Replace(usage)); err == nil {
					got = append(got, usage)
				} else if !strings.HasSuffix(err.Error(), list) {
					t.Errorf("%s is refused with %q, want the list of what is accepted", usage, err)
				}
				full := NewServer().AllFaults(friend.Access{})
				defer full.Close()
				if err := tt.do(full, example.Replace(usage)); err != nil {
					t.Errorf("a Server with AllFaults refuses %s: %v", usage, err)
				}
			}
			undocumented := func(usage string) bool { return !slices.Contains(tt.accepted, usage) }
			if diff := cmp.Diff(slices.DeleteFunc(want, undocumented), got); diff != "" {
				t.Errorf("what is accepted (-language +Server):\n%s", diff)
			}
			for _, usage := range tt.accepted {
				if !slices.Contains(tt.all, usage) {
					t.Errorf("package apiserver has no %q", usage)
				}
			}
			if tt.what == "actions of scripts" {
				return
			}
			var missing, rare []string
			for _, usage := range tt.all {
				switch {
				case undocumented(usage) && documented(usage) && usage != "410 in stream": // a fault, too
					rare = append(rare, usage)
				case !undocumented(usage) && !documented(usage):
					missing = append(missing, usage)
				}
			}
			if missing != nil || rare != nil {
				t.Errorf("doc.go lacks %q, and has %q, which are refused", missing, rare)
			}
		})
	}
}
