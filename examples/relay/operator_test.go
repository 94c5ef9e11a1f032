package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/gvrwatch/gvrwatch/examples/devserver"
)

// startNATSServer starts a server that is not the relay's.
func startNATSServer(t *testing.T, o server.Options) *server.Server {
	t.Helper()
	o.Host, o.Port, o.StoreDir, o.NoLog, o.NoSigs = "127.0.0.1", -1, t.TempDir(), true, true
	s, err := server.NewServer(&o)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(timeout) {
		t.Fatal("the NATS server does not become ready")
	}
	return s
}

// TestWrongConfigurations runs the program with what operators get wrong. What it says has the cause, and what to do.
func TestWrongConfigurations(t *testing.T) {
	silenceClientGo()
	api, err := devserver.Start(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { api.Stop() })
	plain := startNATSServer(t, server.Options{JetStream: true, HTTPHost: "127.0.0.1", HTTPPort: -1})
	closed := startNATSServer(t, server.Options{JetStream: true, Username: "relay", Password: "right"})
	denied := startNATSServer(t, server.Options{JetStream: true, Users: []*server.User{{
		Username: "relay", Password: "right", Permissions: &server.Permissions{
			Publish: &server.SubjectPermission{Allow: []string{"k8s.>"}},
		},
	}}})
	without := startNATSServer(t, server.Options{})
	conn, err := nats.Connect(plain.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	js, err := natsjs.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	for _, cfg := range []natsjs.StreamConfig{
		{Name: "ORDERS", Subjects: []string{"orders.>"}},
		{Name: "AGED", Subjects: []string{"aged.>", "aged-position.>"}, MaxAge: time.Hour},
		{Name: "SHORT", Subjects: []string{"short.>", "short-position.>"}, MaxMsgsPerSubject: 2},
	} {
		if _, err := js.CreateStream(t.Context(), cfg); err != nil {
			t.Fatal(err)
		}
	}
	unreachable := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(unreachable, []byte(`{apiVersion: v1, kind: Config, current-context: c,
clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}], contexts: [{name: c, context: {cluster: c, user: c}}],
users: [{name: c, user: {}}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	inUse, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { inUse.Close() })

	const runs = -1 // the exit status of what does not exit: it says what is wrong in a warning
	for i, test := range []struct {
		why    string
		yaml   string
		args   []string
		status int
		want   string // a regular expression of a line
		report string // one of what relay status prints, which exits with 1
	}{
		{why: "a number for a duration", yaml: "log:\n  keepDeleted: 24\n", status: 2,
			want: `invalid --config .*: line 2: invalid log.keepDeleted "24": must be a duration such as 24h`},
		{why: "a field in the wrong place", yaml: "copies: 3\n", status: 2,
			want: `line 1: unknown field "copies": must be one of .*; is the indentation of log.copies meant\?`},
		{why: "a tab", yaml: "log:\n\tcopies: 3\n", status: 2,
			want: `line 2: invalid tab: must be indented with spaces`},
		{why: "a context that does not exist", status: 1,
			args: []string{"--context", "prodd", "--nats", "nats://127.0.0.1:1"},
			want: `invalid context "prodd": must be one of the kubeconfig: gvrwatch-devserver$`},
		{why: "a kubeconfig that does not exist", args: []string{"--kubeconfig", "no/such/file"}, status: 1,
			want: `the kubeconfig can't be used: stat no/such/file: no such file`},
		{
			why: "an API server that does not answer", args: []string{"--kubeconfig", unreachable}, status: runs,
			want:   `level=WARN .*cluster=c.*127.0.0.1:1: connect: connection refused`,
			report: `cluster c: .*connection refused`,
		},
		{why: "a credentials file that does not exist", args: []string{"--creds", "no.creds"}, status: 1,
			want: `connect to NATS at 127.0.0.1:\d+: nats: open no.creds: no such file`},
		{why: "the wrong password", args: []string{"--nats", "nats://relay:wrong@" + closed.Addr().String()}, status: 1,
			want: `at 127.0.0.1:\d+: nats: Authorization Violation: see nats.credentials, or the user and`},
		{
			why: "a user without permissions", status: 1,
			args: []string{"--nats", "nats://relay:right@" + denied.Addr().String()},
			want: `open stream .*Permissions Violation for Publish to "\$JS.API.STREAM.INFO.S\d+": the user must be`,
		},
		{why: "the scheme of something else", args: []string{"--nats", "http://127.0.0.1:8222"}, status: 2,
			want: `invalid nats.url: must be URLs such as nats://host:4222`},
		{why: "the port for monitoring", args: []string{"--nats", plain.MonitorAddr().String()}, status: 1,
			want: `nats.url must have the port for clients, 4222 by default`},
		{why: "TLS that the server has not", args: []string{"--nats", "tls://" + plain.Addr().String()}, status: 1,
			want: `secure connection not available: the server has no TLS: nats.url must be nats://`},
		{why: "no server", args: []string{"--nats", "nats://u:secret@127.0.0.1:1"}, status: runs,
			want: `level=WARN msg="no NATS server answers; trying again" servers=127.0.0.1:1 `},
		{why: "a server without JetStream", args: []string{"--nats", without.ClientURL()}, status: 1,
			want: `open stream .*: the server must have JetStream \(nats-server -js\)`},
		{why: "subjects of another stream", args: []string{"--prefix", "orders"}, status: 1,
			want: `invalid log.prefix "orders": must be another \(--prefix\), or log.stream be "ORDERS" \(--stream\)`},
		{why: "a stream that forgets", args: []string{"--stream", "AGED", "--prefix", "aged"}, status: 1,
			want: `stream "AGED" can't be used: max_age is 1h0m0s, which removes the last states`},
		{
			why: "a stream with other settings", args: []string{"--stream", "SHORT", "--prefix", "short"}, status: runs,
			want: `level=WARN msg="the stream exists, and keeps its settings" .*differences="log.history is 2, not 16"`,
		},
		{why: "copies on one server", yaml: "log: {copies: 3}\n", status: 1,
			want: `open stream .*: log.copies must be 1 without a cluster of NATS servers`},
		{why: "a stream that is full at once", yaml: "log: {maxBytes: 1024}\n", status: 2,
			want: `invalid log.maxBytes "1024": must be 0, for no limit, or at least 1048576`},
		{why: "a listen address in use", args: []string{"--listen", inUse.Addr().String()}, status: 1,
			want: `invalid listen "127.0.0.1:\d+": .*address already in use`},
		{why: "a listen address without a port", args: []string{"--listen", "8080"}, status: 1,
			want: `invalid listen "8080": .*missing port in address`},
		{
			why: "a selection that matches nothing", args: []string{"-r", "*.exmple.com"}, status: runs,
			want:   `level=WARN .*selection: \*.exmple.com matches none of the \d+ resource types of the server`,
			report: `^[^ ]+: cluster gvrwatch-devserver: selection: \*.exmple.com matches none of the`,
		},
		{
			why: "a rule for a type that does not exist", yaml: "rules: [{resource: robotts}]\n", status: runs,
			want:   `level=WARN .*rules\[0\]: the server serves no resource type \\"robotts\\"`,
			report: `rules\[0\]: the server serves no resource type "robotts"`,
		},
		{
			why: "a rule after one that hides it", status: runs,
			yaml:   "rules: [{resource: '*'}, {resource: crd, redact: ['$.spec']}]\n",
			want:   `level=WARN .*rules\[1\] \(crd\) never applies: rules\[0\] \(\*\) comes before it`,
			report: `rules\[1\] \(crd\) never applies: rules\[0\] \(\*\) comes before it: must come after it`,
		},
	} {
		t.Run(test.why, func(t *testing.T) {
			args := []string{"--kubeconfig", api.Kubeconfig(), "--nats", plain.ClientURL(), "--lease", "1s"}
			args = append(args, "--stream", fmt.Sprint("S", i), "--prefix", fmt.Sprint("s", i))
			if test.yaml != "" {
				file := filepath.Join(t.TempDir(), "relay.yaml")
				if err := os.WriteFile(file, []byte(test.yaml), 0o600); err != nil {
					t.Fatal(err)
				}
				args = append(args, "--config", file)
			}
			args = append(args, test.args...)
			want := regexp.MustCompile("(?m)" + test.want)
			if test.status != runs {
				status, _, errOut := command(t, args...)
				if status != test.status || !want.MatchString(errOut) {
					t.Errorf("exit status %d, want %d; stderr\n%s\nwant %s", status, test.status, errOut, want)
				}
				return
			}
			p := startProgram(t, args...)
			await(t, "line with "+want.String(), func() bool { return want.MatchString(p.errOut.String()) })
			if report := regexp.MustCompile("(?m)" + test.report); test.report != "" {
				await(t, "line of relay status with "+report.String(), func() bool {
					status, out, _ := command(t, append([]string{"status"}, args...)...)
					return status == 1 && report.MatchString(out)
				})
			}
			if text := p.errOut.String(); strings.Contains(text, "secret") {
				t.Errorf("a password is printed:\n%s", text)
			}
		})
	}

	t.Run("two relays", func(t *testing.T) {
		at := []string{"--kubeconfig", api.Kubeconfig(), "--nats", plain.ClientURL(), "--lease", "1s"}
		startProgram(t, append(at, "--replica-id", "old")...)
		await(t, "state in which all is well", func() bool {
			status, out, _ := command(t, append(at, "status")...)
			return status == 0 && strings.Contains(out, "customresourcedefinitions")
		})
		p := startProgram(t, append(at, "--replica-id", "new", "-l", "a=b")...)
		const waits = "replicas with another configuration (old) own 1 of the units of this one: must be restarted"
		await(t, "warning", func() bool { return strings.Contains(p.errOut.String(), waits) })
		await(t, "problem", func() bool {
			status, out, _ := command(t, append(at, "status")...)
			return status == 1 && strings.Contains(out, "new: "+waits)
		})
		if n := strings.Count(p.errOut.String(), waits); n != 1 {
			t.Errorf("%d warnings, want 1:\n%s", n, &p.errOut)
		}
		p.end()
		p = startProgram(t, append(at, "--replica-id", "old")...)
		const twin = "another process has the same ID"
		await(t, "warning", func() bool { return strings.Contains(p.errOut.String(), twin) })
		await(t, "problem", func() bool {
			status, out, _ := command(t, append(at, "status")...)
			return status == 1 && strings.Contains(out, `invalid replica.id "old": another process has it`)
		})
	})

	t.Run("a selector that nothing matches yet is legal", func(t *testing.T) {
		args := []string{
			"--kubeconfig", api.Kubeconfig(), "--nats", plain.ClientURL(), "--stream", "LEGAL", "--prefix", "legal",
			"-l", "a=b",
		}
		p := startProgram(t, args...)
		await(t, "state in which all is well", func() bool {
			status, out, _ := command(t, append([]string{"status"}, args...)...)
			return status == 0 && strings.Contains(out, "customresourcedefinitions")
		})
		if !strings.Contains(p.errOut.String(), " --prefix legal --stream LEGAL") {
			t.Errorf("the commands for another shell have not the flags of the log:\n%s", &p.errOut)
		}
		if strings.Contains(p.errOut.String(), "level=WARN") {
			t.Errorf("a warning:\n%s", &p.errOut)
		}
	})
}
