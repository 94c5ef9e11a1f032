package doctest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// manifest is an object of docs/rbac: a ServiceAccount, a role or a binding.
type manifest struct {
	rbacv1.ClusterRole
	RoleRef  rbacv1.RoleRef   `json:"roleRef"`
	Subjects []rbacv1.Subject `json:"subjects"`
}

// TestManifestsBindTheirRoles: each file of docs/rbac has a ServiceAccount, roles, and a binding of each role to it. A
// comment explains each rule, no rule allows to change anything but a ConfigMap, and docs/operations.md links the file.
func TestManifestsBindTheirRoles(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(root, "docs/rbac/*.yaml"))
	if err != nil || len(files) < 8 {
		t.Fatalf("found only %q: %v", files, err)
	}
	page := read(t, filepath.Join(root, "docs/operations.md"))
	for _, file := range files {
		name := filepath.Base(file)
		if !strings.Contains(page, "(rbac/"+name+")") {
			t.Errorf("docs/operations.md does not link %s", name)
		}
		for _, err := range checkManifests(read(t, file)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestBadManifestsAreFound: what is wrong with a manifest is reported.
func TestBadManifestsAreFound(t *testing.T) {
	good := read(t, filepath.Join(root, "docs/rbac/watch-cluster.yaml"))
	for _, test := range []struct{ old, new, want, why string }{
		{"kind: ClusterRole\nmetadata", "kind: Deployment\nmetadata", "unexpected kind", "another kind"},
		{"verbs: [list", "verbs: [delete, list", "allows delete", "a right to change something"},
		{"  # list:", "  list:", "mapping values", "no YAML"},
		{"  # list: the", "  - apiGroups: [apps]\n  # list: the", "1 comments for 2 rules", "a rule without a comment"},
		{"    name: gvrwatch\n", "    name: default\n", "subject", "another subject"},
		{"  name: gvrwatch-watch\nsubjects", "  name: other\nsubjects", "no ClusterRole other", "a role of nobody"},
	} {
		bad := strings.Replace(good, test.old, test.new, 1)
		if got := fmt.Sprint(checkManifests(bad)); bad == good || !strings.Contains(got, test.want) {
			t.Errorf("%s: got %s, want %s", test.why, got, test.want)
		}
	}
}

func checkManifests(text string) (errs []error) {
	problem := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	roles, bound, rules, account := map[string]bool{}, map[string]bool{}, 0, false
	documents := yaml.NewYAMLReader(bufio.NewReader(strings.NewReader(text)))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		var m manifest
		if err == nil {
			err = yaml.UnmarshalStrict(document, &m)
		}
		if err != nil {
			return append(errs, err)
		}
		switch kind := m.Kind; kind {
		case "ServiceAccount":
			account = m.Name == "gvrwatch" && m.Namespace == "gvrwatch"
		case "Role", "ClusterRole":
			roles[kind+" "+m.Name+" "+m.Namespace] = true
			rules += len(m.Rules)
			for _, r := range m.Rules {
				for _, verb := range r.Verbs {
					if !slices.Contains([]string{"get", "list", "watch"}, verb) &&
						!slices.Equal(r.Resources, []string{"configmaps"}) {
						problem("%s allows %s of %q", m.Name, verb, r.Resources)
					}
				}
			}
		case "RoleBinding", "ClusterRoleBinding":
			role := m.RoleRef.Kind + " " + m.RoleRef.Name + " " + m.Namespace
			if !roles[role] || kind != m.RoleRef.Kind+"Binding" || m.RoleRef.APIGroup != rbacv1.GroupName {
				problem("there is no %s for %s %s", role, kind, m.Name)
			}
			bound[role] = true
			want := rbacv1.Subject{Kind: "ServiceAccount", Name: "gvrwatch", Namespace: "gvrwatch"}
			if !slices.Equal(m.Subjects, []rbacv1.Subject{want}) {
				problem("%s has another subject: %v", m.Name, m.Subjects)
			}
		default:
			problem("unexpected kind %q", kind)
		}
	}
	if !account || len(roles) == 0 || len(roles) != len(bound) {
		problem("must have the ServiceAccount gvrwatch, and bind each of its roles: has %v", roles)
	}
	comments := 0
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, "  # ") && strings.HasPrefix(lines[i+1], "  - ") {
			comments++
		}
	}
	if comments != rules {
		problem("%d comments for %d rules", comments, rules)
	}
	return errs
}
