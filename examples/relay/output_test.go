package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gvrwatch/gvrwatch/examples/relay/engine"
)

func TestEscaper(t *testing.T) {
	for _, test := range []struct{ why, given, want string }{
		{"text stays", "a\tb \"c\" \\ é 日\n", "a\tb \"c\" \\ é 日\n"},
		{"a terminal interprets escape sequences", "\x1b[31m\u009b1m\r", `\u001b[31m\u009b1m\u000d`},
		{"a direction turns text around", "a\u202eb", `a\u202eb`},
		{"a character beyond 16 bits is a pair", "\U000e0001", `\udb40\udc01`},
		{"bytes that are no text", "a\xffb", "a\ufffdb"},
	} {
		t.Run(test.why, func(t *testing.T) {
			var out strings.Builder
			n, err := escaper{&out}.Write([]byte(test.given))
			if err != nil || n != len(test.given) {
				t.Errorf("Write: %d, %v", n, err)
			}
			if d := cmp.Diff(test.want, out.String()); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
		})
	}
}

func TestTailPrintsOneLine(t *testing.T) {
	unit := engine.Unit{Cluster: "c", Resource: "pods", Namespace: "n\n"}
	m := engine.Message{Unit: unit, Name: "\x1b", Type: engine.Added}
	m.Data = []byte("{\"data\":\n{}}")
	if d := cmp.Diff(`{"data":{}}`, compact(m.Data)); d != "" {
		t.Errorf("JSON -want +got:\n%s", d)
	}
	if d := cmp.Diff(`\u000abroken`, compact([]byte("\nbroken"))); d != "" {
		t.Errorf("no JSON -want +got:\n%s", d)
	}
	if got := describe(m); strings.ContainsAny(got, "\n\x1b") || !strings.Contains(got, `n\u000a/\u001b`) {
		t.Errorf("describe: %q", got)
	}
}

func TestSelectsMessages(t *testing.T) {
	for _, test := range []struct {
		why, subject string
		want         bool
	}{
		{"all tokens", "k8s.lab.core.pods.default.u1", true},
		{"all", "k8s.>", true},
		{"wildcards", "k8s.*.core.*.default.>", true},
		{"another prefix selects nothing", "k9s.>", false},
		{"nor do fewer tokens", "k8s.lab.core.pods", false},
		{"nor more", "k8s.lab.core.pods.default.u1.>", false},
		{"positions are no messages", "k8s-position.>", false},
		{"everything has positions, too", ">", false},
		{"NATS refuses an empty token", "k8s..core.pods.default.u1", false},
		{"and a space", "k8s.my lab.core.pods.default.u1", false},
		{"and the rest before the end", "k8s.>.core.pods.default.u1", false},
	} {
		if got := selectsMessages(test.subject, "k8s"); got != test.want {
			t.Errorf("%s: selectsMessages(%q) = %v", test.why, test.subject, got)
		}
	}
}

func TestAnnouncedFlags(t *testing.T) {
	for _, test := range []struct {
		why, want string
		args      []string
	}{
		{"defaults need no flags", "", nil},
		{"flags that find no log are left out", " --dir /d", []string{"--dir", "/d", "--listen", ":1", "-r", "pods"}},
		{"a shell splits words", ` --dir '/a b'\''c'`, []string{"--dir", "/a b'c"}},
		{"a password stays secret", " --nats nats://xxxxx@h:1,nats://xxxxx@i --stream S",
			[]string{"--stream", "S", "--nats", "nats://u:hunter2@h:1,nats://token@i"}},
		{"so it does with an @ in it", " --nats nats://xxxxx@h:1", []string{"--nats", "nats://u:hunter2@3@h:1"}},
		{"so it does without a scheme", " --nats xxxxx@h", []string{"--nats", "u:hunter2@h"}},
	} {
		t.Run(test.why, func(t *testing.T) {
			root := newRoot(nil, nil)
			if err := root.ParseFlags(test.args); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(test.want, sameLog(root)); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
		})
	}
}
