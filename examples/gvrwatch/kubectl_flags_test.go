package main

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
)

// kubectlGet are the flags of kubectl get 0.37.2, those that it inherits included.
const kubectlGet = `all-namespaces allow-missing-template-keys as as-group as-uid as-user-extra cache-dir
	certificate-authority chunk-size client-certificate client-key cluster context disable-compression field-selector
	filename ignore-not-found insecure-skip-tls-verify kubeconfig kustomize label-columns match-server-version namespace
	no-headers output output-watch-events profile profile-output proxy-url raw recursive request-timeout selector server
	server-print show-kind show-labels show-managed-fields sort-by subresource template tls-server-name token user
	warnings-as-errors watch watch-only`

// TestMissingFlagsAreDocumented: docs/migrating.md names each flag of kubectl get that the tool lacks, in its table.
func TestMissingFlagsAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/migrating.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "\n| `kubectl get -w` |")
	table, _, _ = strings.Cut(table, "\n\n")
	var named []string
	for _, found := range regexp.MustCompile(`--([a-z-]+)`).FindAllStringSubmatch(table, -1) {
		named = append(named, found[1])
	}
	root := newRoot(genericiooptions.NewTestIOStreamsDiscard(), nil)
	i := slices.IndexFunc(root.Commands(), func(c *cobra.Command) bool { return c.Name() == "watch" })
	flags, missing := root.Commands()[i].Flags(), 0
	for _, name := range strings.Fields(kubectlGet) {
		if flags.Lookup(name) != nil {
			continue
		}
		if missing++; !slices.Contains(named, name) {
			t.Errorf("the tool has no --%s, and docs/migrating.md does not say so", name)
		}
	}
	if missing == 0 {
		t.Error("found no flag that is missing")
	}
}
