package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMistakesInTheFile(t *testing.T) {
	for _, test := range []struct{ why, text, want string }{
		{"a number for a duration", "listen: ':1'\nlog:\n  keepDeleted: 24\n",
			`line 3: invalid log.keepDeleted "24": must be a duration such as 24h`},
		{"a duration without its unit", "replica: {lease: '15'}\n",
			`line 1: invalid replica.lease "15": must be a duration such as 24h`},
		{"a duration that is a list", "log: {keepDeleted: [24h]}\n",
			`line 1: invalid log.keepDeleted "": must be a duration such as 24h`},
		{"a duration that is missing", "log:\n  keepDeleted:\n",
			`line 2: invalid log.keepDeleted "": must be a duration such as 24h`},
		{"text for a list", "selection:\n  resources: pods\n",
			`line 2: invalid selection.resources "pods": must be a list, such as [pods]`},
		{"fields for a list", "clusters:\n  name: a\n",
			`line 2: invalid clusters "": must be a list: each item begins with -`},
		{"a list for text", "nats:\n  url:\n  - nats://u:secret@h\n",
			`line 3: invalid nats.url "": must be one value`},
		{"text for fields", "selection: pods\n",
			`line 1: invalid selection "pods": must be fields and their values, such as resources: ...`},
		{"text for a number", "log:\n  copies: three\n", `line 2: invalid log.copies "three": must be a whole number`},
		{"a part of a number", "log: {history: 1.5}\n", `line 1: invalid log.history "1.5": must be a whole number`},
		{"too large a number", "log:\n  maxBytes: 9999999999999999999\n",
			`line 2: invalid log.maxBytes "9999999999999999999": must be a whole number`},
		{"text for true or false", "rules:\n- resource: pods\n  split: perhaps\n",
			`line 3: invalid rules[0].split "perhaps": must be true or false`},
		{"a document without fields", "pods\n",
			`line 1: invalid file "pods": must be fields and their values, such as clusters: ...`},
		{"a field that does not exist", "queue:\n  overflow: latest\n  byte: 1\n",
			`line 3: unknown field "queue.byte": must be one of overflow, bytes`},
		{
			"a field in the wrong place", "replica:\n  id: a\n  prefix: k\n",
			`line 3: unknown field "replica.prefix": must be one of id, lease, grace; is the indentation of ` +
				"log.prefix meant?",
		},
		{
			"an item without indentation", "rules:\n- {resource: pods, namespaces: [a]}\n",
			`line 2: unknown field "rules[0].namespaces": must be one of resource, labelSelector, fieldSelector, ` +
				`redact, unredacted, split; is the indentation of selection.namespaces or metrics.namespaces ` +
				"meant?",
		},
		{"a field twice", "listen: ':1'\nlogLevel: info\nlisten: ':2'\n",
			"line 3: invalid listen: must be given once, and is in line 1"},
		{"what a merged field hides", "rules:\n- &a {resource: pods}\n- <<: *a\n  splits: true\n",
			`line 4: unknown field "rules[1].splits": must be one of resource, labelSelector, fieldSelector, redact, ` +
				"unredacted, split"},
		{"a tab", "log:\n\tcopies: 3\n", "line 2: invalid tab: must be indented with spaces"},
		{"a wildcard is an alias", "selection:\n  resources: [*]\n",
			`line 2: invalid text that begins with *: must be in quotes, such as "*"`},
		{"a wildcard is an alias, in a list", "selection:\n  resources:\n  - pods\n  - *.example.com\n",
			`line 4: invalid text that begins with *: must be in quotes, such as "*"`},
		{
			"indentation that fits to nothing", "log:\n  copies: 3\n   history: 2\n",
			"line 3: mapping values are not allowed in this context: the fields of one level must begin in the same " +
				"column, and text with : or # be in quotes",
		},
		{"a second document", "listen: ':1'\n---\nlisten: ':2'\n", "line 2: a second document: must be one"},
	} {
		t.Run(test.why, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "relay.yaml")
			if err := os.WriteFile(file, []byte(test.text), 0o600); err != nil {
				t.Fatal(err)
			}
			status, _, errOut := command(t, "--config", file, "--print-config")
			want := "relay: invalid --config " + file + ": " + test.want + "\nSee 'relay --help'.\n"
			if d := cmp.Diff(want, errOut); d != "" || status != 2 {
				t.Errorf("exit status %d, stderr -want +got:\n%s", status, d)
			}
		})
	}
}

// TestReadsWhatYAMLHas: what is no mistake is read as before.
func TestReadsWhatYAMLHas(t *testing.T) {
	const text = "rules:\n- &pods\n  resource: pods\n  split: yes\n- *pods\n- <<: *pods\n  labelSelector: a\n" +
		"log: {stream: 12, prefix: }\nqueue:\n"
	file := filepath.Join(t.TempDir(), "relay.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	status, out, errOut := command(t, "--config", file, "--print-config", "--replica-id", "r", "--dir", "/d")
	const want = `log:
  copies: 1
  history: 16
  keepDeleted: 24h0m0s
  prefix: k8s
  stream: "12"
logLevel: info
metrics: {}
nats:
  dir: /d
queue:
  bytes: 67108864
  overflow: block
replica:
  grace: 25s
  id: r
  lease: 15s
rules:
- resource: pods
  split: true
- resource: pods
  split: true
- labelSelector: a
  resource: pods
  split: true
selection:
  resources:
  - '*'
`
	if d := cmp.Diff(want, out); d != "" || status != 0 {
		t.Errorf("exit status %d, stderr %s, -want +got:\n%s", status, errOut, d)
	}
}
