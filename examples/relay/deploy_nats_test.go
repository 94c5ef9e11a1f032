package main

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"

	"github.com/gvrwatch/gvrwatch/examples/relay/engine"
	"github.com/gvrwatch/gvrwatch/examples/relay/engine/jetstream"
)

// authority makes Secrets, as cert-manager does of deploy/certificates.yaml.
type authority struct {
	t    *testing.T
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
	dirs map[string]string // by the name of the Secret: the folder where it is mounted
}

// certificate is what a Certificate of cert-manager asks for.
type certificate struct {
	Kind string `json:"kind"`
	Spec struct {
		IsCA       bool     `json:"isCA"`
		CommonName string   `json:"commonName"`
		SecretName string   `json:"secretName"`
		DNSNames   []string `json:"dnsNames"`
		Usages     []string `json:"usages"`
	} `json:"spec"`
}

// newAuthority makes the Secrets that are asked for.
func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t, dirs: map[string]string{}}
	a.key, a.cert = a.make(&x509.Certificate{
		Subject: pkix.Name{CommonName: "ca"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	})
	for _, doc := range documentsOf(t, "deploy/certificates.yaml") {
		var c certificate
		if err := yaml.Unmarshal(doc, &c); err != nil {
			t.Fatal(err)
		}
		if c.Kind != "Certificate" || c.Spec.IsCA {
			continue
		}
		want := &x509.Certificate{Subject: pkix.Name{CommonName: c.Spec.CommonName}, DNSNames: c.Spec.DNSNames}
		for _, usage := range c.Spec.Usages {
			switch usage {
			case "server auth":
				want.ExtKeyUsage = append(want.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
				want.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)} // where the test runs it
				want.DNSNames = append(want.DNSNames, "localhost")
			case "client auth":
				want.ExtKeyUsage = append(want.ExtKeyUsage, x509.ExtKeyUsageClientAuth)
			default:
				t.Fatalf("unknown usage %q", usage)
			}
		}
		a.issue(c.Spec.SecretName, want)
	}
	return a
}

// make signs a certificate, with itself if it is the first one.
func (a *authority) make(want *x509.Certificate) (*ecdsa.PrivateKey, *x509.Certificate) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	want.SerialNumber = big.NewInt(time.Now().UnixNano())
	want.NotBefore, want.NotAfter = time.Now().Add(-time.Minute), time.Now().Add(time.Hour)
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = want, key
	}
	der, err := x509.CreateCertificate(rand.Reader, want, parent, &key.PublicKey, signer)
	if err != nil {
		a.t.Fatal(err)
	}
	made, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return key, made
}

// issue writes a Secret.
func (a *authority) issue(secret string, want *x509.Certificate) {
	a.t.Helper()
	key, made := a.make(want)
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	a.dirs[secret] = a.t.TempDir()
	for name, block := range map[string]*pem.Block{
		"tls.key": {Type: "EC PRIVATE KEY", Bytes: der},
		"tls.crt": {Type: "CERTIFICATE", Bytes: made.Raw},
		"ca.crt":  {Type: "CERTIFICATE", Bytes: a.cert.Raw},
	} {
		if err := os.WriteFile(filepath.Join(a.dirs[secret], name), pem.EncodeToMemory(block), 0o600); err != nil {
			a.t.Fatal(err)
		}
	}
}

// client returns how to connect with a Secret.
func (a *authority) client(secret, url string) jetstream.Connection {
	a.t.Helper()
	dir, found := a.dirs[secret]
	if !found {
		a.t.Fatalf("deploy/certificates.yaml makes no Secret %s", secret)
	}
	return jetstream.Connection{
		URL: url, CA: filepath.Join(dir, "ca.crt"), Certificate: filepath.Join(dir, "tls.crt"),
		Key: filepath.Join(dir, "tls.key"),
	}
}

// chartTLS are the values of a tls block of the chart, as far as nats-values.yaml has them.
type chartTLS struct {
	Enabled    bool           `json:"enabled"`
	SecretName string         `json:"secretName"`
	Merge      map[string]any `json:"merge"`
}

// chartValues are the values of the chart that nats-values.yaml has. An unknown one is an error.
type chartValues struct {
	TLSCA  chartTLS `json:"tlsCA"`
	Config struct {
		NATS struct {
			TLS chartTLS `json:"tls"`
		} `json:"nats"`
		Cluster struct {
			Enabled  bool     `json:"enabled"`
			Replicas int      `json:"replicas"`
			TLS      chartTLS `json:"tls"`
		} `json:"cluster"`
		JetStream struct {
			Enabled   bool           `json:"enabled"`
			FileStore map[string]any `json:"fileStore"`
		} `json:"jetstream"`
		Merge map[string]any `json:"merge"`
	} `json:"config"`
	NATSBox struct {
		Enabled bool `json:"enabled"`
	} `json:"natsBox"`
	PodTemplate    map[string]any   `json:"podTemplate"`
	ExtraResources []map[string]any `json:"extraResources"`
}

func readChartValues(t *testing.T) chartValues {
	t.Helper()
	data, err := os.ReadFile("deploy/nats-values.yaml")
	var v chartValues
	if err == nil {
		err = yaml.UnmarshalStrict(data, &v)
	}
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// tls returns a tls block, as the chart's files/config/tls.yaml renders it.
func (v *chartValues) tls(a *authority, of chartTLS) map[string]any {
	block := map[string]any{}
	if dir := a.dirs[of.SecretName]; of.Enabled && dir != "" {
		block["cert_file"], block["key_file"] = filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	}
	if dir := a.dirs[v.TLSCA.SecretName]; v.TLSCA.Enabled && dir != "" {
		block["ca_file"] = filepath.Join(dir, "ca.crt")
	}
	maps.Copy(block, of.Merge)
	return block
}

// natsServer runs with the values of the chart.
type natsServer struct {
	*authority // the certificates of its clients, whose helper methods tests call on it
	*violations

	server *server.Server
	values chartValues
	url    string
}

// startDeployed starts servers as the chart would configure them, on loopback. A single one has no routes. The account
// has one more user, "root", who may do everything.
func startDeployed(t *testing.T, servers int) *natsServer {
	t.Helper()
	s := &natsServer{authority: newAuthority(t), violations: &violations{}, values: readChartValues(t)}
	s.issue("root", &x509.Certificate{
		Subject: pkix.Name{CommonName: "root"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	merge := s.values.Config.Merge
	account := merge["accounts"].(map[string]any)["GVRWATCH"].(map[string]any)
	account["users"] = append(account["users"].([]any), map[string]any{"user": "CN=root"})
	routes := freeAddresses(t, servers)
	var urls []string
	for i := range servers {
		conf := map[string]any{
			"server_name": fmt.Sprint("nats-", i), "listen": "127.0.0.1:-1",
			"tls":       s.values.tls(s.authority, s.values.Config.NATS.TLS),
			"jetstream": map[string]any{"store_dir": t.TempDir(), "max_memory_store": 0, "max_file_store": 1 << 30},
		}
		if servers > 1 {
			conf["cluster"] = s.routes(s.values.Config.Cluster.TLS.SecretName, routes[i], routes...)
		}
		maps.Copy(conf, merge)
		s.server = s.start(t, conf)
		urls = append(urls, "tls://"+s.server.Addr().String())
	}
	s.url = strings.Join(urls, ",")
	return s
}

// routes returns a cluster block, as the chart's files/config/cluster.yaml renders it, but for the addresses: the hosts
// of the routes are names in the servers' certificate, as there.
func (s *natsServer) routes(secret, address string, to ...string) map[string]any {
	with := s.values.Config.Cluster.TLS
	with.SecretName = secret
	var urls []string
	for _, a := range to {
		urls = append(urls, "tls://"+strings.Replace(a, "127.0.0.1", "localhost", 1))
	}
	return map[string]any{
		"name": "nats", "listen": address, "no_advertise": true, "tls": s.values.tls(s.authority, with), "routes": urls,
	}
}

// freeAddresses returns addresses on loopback that nobody listens on.
func freeAddresses(t *testing.T, n int) (all []string) {
	t.Helper()
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		all = append(all, l.Addr().String())
	}
	return all
}

func (s *natsServer) start(t *testing.T, conf map[string]any) *server.Server {
	t.Helper()
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false) // NATS does not know \u003e; the chart replaces it, too
	err := encoder.Encode(conf)
	if err != nil {
		t.Fatal(err)
	}
	var o server.Options
	if err := o.ProcessConfigString(text.String()); err != nil {
		t.Fatalf("%v in %s", err, &text)
	}
	o.NoSigs = true
	made, err := server.NewServer(&o)
	if err != nil {
		t.Fatal(err)
	}
	made.SetLoggerV2(s.violations, false, false, false)
	made.Start()
	t.Cleanup(func() { made.Shutdown(); made.WaitForShutdown() })
	if !made.ReadyForConnections(timeout) {
		t.Fatal("the server does not become ready")
	}
	return made
}

// violations are what the server has refused.
type violations struct {
	mu    sync.Mutex
	lines []string
}

func (v *violations) Errorf(format string, args ...any) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.lines = append(v.lines, fmt.Sprintf(format, args...))
}
func (v *violations) Noticef(string, ...any)      {}
func (v *violations) Warnf(f string, args ...any) { v.Errorf(f, args...) }
func (v *violations) Fatalf(f string, a ...any)   { v.Errorf(f, a...) }
func (v *violations) Debugf(string, ...any)       {}
func (v *violations) Tracef(string, ...any)       {}

func (v *violations) take() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	all := v.lines
	v.lines = nil
	return all
}

// log connects with a Secret, as a relay does.
func (s *natsServer) log(secret string, o jetstream.Options) *jetstream.Log {
	s.t.Helper()
	o.Connection = s.client(secret, s.url)
	ctx, cancel := context.WithTimeout(s.t.Context(), timeout)
	defer cancel()
	log, err := jetstream.Connect(ctx, o)
	if err != nil {
		s.t.Fatalf("connect as %s: %v", secret, err)
	}
	s.t.Cleanup(log.Close)
	return log
}

// jetStream connects with a Secret, as any client.
func (s *natsServer) jetStream(secret string) (*nats.Conn, natsjs.JetStream) {
	s.t.Helper()
	to := s.client(secret, s.url)
	conn, err := nats.Connect(to.URL, nats.RootCAs(to.CA), nats.ClientCert(to.Certificate, to.Key),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(conn.Close)
	js, err := natsjs.New(conn, natsjs.WithDefaultTimeout(time.Second))
	if err != nil {
		s.t.Fatal(err)
	}
	return conn, js
}

// allowed returns the subjects that a user of the values may publish to.
func (v *chartValues) allowed(t *testing.T, user string) []string {
	t.Helper()
	text, err := json.Marshal(v.Config.Merge["accounts"])
	if err != nil {
		t.Fatal(err)
	}
	var accounts map[string]struct {
		Users []struct {
			User        string `json:"user"`
			Permissions struct {
				Publish struct {
					Allow []string `json:"allow"`
				} `json:"publish"`
			} `json:"permissions"`
		} `json:"users"`
	}
	if err := json.Unmarshal(text, &accounts); err != nil {
		t.Fatal(err)
	}
	for _, u := range accounts["GVRWATCH"].Users {
		if u.User == user {
			return u.Permissions.Publish.Allow
		}
	}
	t.Fatalf("the values have no user %s", user)
	return nil
}

// spy records the subjects that are published to while f runs, but its own.
func (s *natsServer) spy(f func()) (seen []string) {
	s.t.Helper()
	conn, _ := s.jetStream("root")
	defer conn.Close()
	sub, err := conn.SubscribeSync(">")
	if err == nil {
		err = sub.SetPendingLimits(-1, -1)
	}
	if err == nil {
		err = conn.Flush()
	}
	if err != nil {
		s.t.Fatal(err)
	}
	f()
	if err := conn.Flush(); err != nil {
		s.t.Fatal(err)
	}
	for {
		m, err := sub.NextMsg(100 * time.Millisecond)
		if err != nil {
			return seen
		}
		seen = append(seen, m.Subject)
	}
}

// neverUsed returns the patterns that match no subject.
func neverUsed(patterns, subjects []string) []string {
	return slices.DeleteFunc(slices.Clone(patterns), func(pattern string) bool {
		return slices.ContainsFunc(subjects, func(subject string) bool {
			return server.SubjectsCollide(pattern, subject)
		})
	})
}

var robot = engine.Unit{Cluster: "main", Group: "demo.gvrwatch.dev", Resource: "robots"}

// relayOnce does all that a relay does with NATS.
func (s *natsServer) relayOnce(log *jetstream.Log) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), timeout)
	defer cancel()
	must := func(err error) {
		s.t.Helper()
		if err != nil {
			s.t.Error(err)
		}
	}
	must(log.Join(ctx, engine.Member{ID: "one"}))
	// A copy that lags behind may answer.
	members := func(n int) {
		s.t.Helper()
		await(s.t, "members", func() bool {
			all, err := log.Members(ctx)
			must(err)
			return err != nil || len(all) == n
		})
	}
	members(1)
	publish := func(revision, commit uint64, messages ...engine.Message) uint64 {
		s.t.Helper()
		revisions, err := log.Publish(ctx, []engine.Part{{
			Unit: robot, Revision: revision, Messages: messages,
			Position: engine.Position{Owner: "one", Epoch: 1, Commit: commit, ResourceVersion: "7"},
		}})
		must(err)
		return append(revisions, 0)[0]
	}
	at := func(typ engine.Type, uid string) engine.Message {
		u := robot
		u.Namespace = "factory"
		return engine.Message{
			Unit: u, UID: uid, Name: uid, Type: typ, ResourceVersion: "7", ID: uid,
			Data: []byte(`{"specversion":"1.0","type":"io.gvrwatch.` + string(typ) + `","data":{}}`),
		}
	}
	revision := publish(0, 1)
	publish(revision, 2, at(engine.Added, "a"), at(engine.Deleted, "b"))
	_, err := log.Position(ctx, robot)
	must(err)
	if all, err := log.Positions(ctx, engine.Unit{}); err != nil || len(all) != 1 {
		s.t.Errorf("positions %v, %v", all, err)
	}
	if all, err := log.Objects(ctx, robot, true); err != nil || len(all) != 2 {
		s.t.Errorf("objects %v, %v", all, err)
	}
	must(log.Expire(ctx, time.Now().Add(time.Hour)))
	if all, err := log.Objects(ctx, robot, false); err != nil || len(all) != 1 {
		s.t.Errorf("after Expire objects %v, %v", all, err)
	}
	for _, err := range log.Tail(ctx, engine.TailOptions{UntilEnd: true}) {
		must(err)
	}
	must(log.Leave(ctx, "one"))
	for i := range 8 { // enough for NATS to control the flow of those who read them
		must(log.Join(ctx, engine.Member{ID: fmt.Sprint(i), Problems: []string{strings.Repeat("x", 1<<20)}}))
	}
	members(8)
}

// tailAcross follows the log, and loses its connection.
func (s *natsServer) tailAcross(log *jetstream.Log) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), timeout)
	defer cancel()
	conn, _ := s.jetStream("root")
	first := true
	for m, err := range log.Tail(ctx, engine.TailOptions{All: true}) {
		switch {
		case err != nil:
			s.t.Error(err)
			return
		case m.ResourceVersion == "8":
			return
		case first:
			first = false
			connections, err := s.server.Connz(nil)
			if err != nil {
				s.t.Fatal(err)
			}
			for _, c := range connections.Conns {
				if c.Name == "gvrwatch relay" {
					_ = s.server.DisconnectClientByID(c.Cid)
				}
			}
			await(s.t, "connection", log.Connected)
			if err := conn.PublishMsg(&nats.Msg{
				Subject: "k8s.main.demo_gvrwatch_dev.robots.factory.a", Header: nats.Header{"Gvr-Version": {"8"}},
			}); err != nil {
				s.t.Fatal(err)
			}
		}
	}
}

const (
	direct = "$JS.API.DIRECT.GET.K8S.>"    // where the stream has allow_direct
	info   = "$JS.API.CONSUMER.INFO.K8S.*" // of Node's client, when it has connected again: see TestConsumer
)

// TestDeployedSecrets: the configuration of the relay names files of Secrets that certificates.yaml makes, and a server
// that the servers' certificate names.
func TestDeployedSecrets(t *testing.T) {
	d, a := readDeployed(t), newAuthority(t)
	pod := d.deployment.Spec.Template.Spec
	mounted := map[string]string{} // the folder of each file in a Secret
	for _, v := range pod.Volumes {
		if v.Secret == nil {
			continue
		}
		for _, m := range pod.Containers[0].VolumeMounts {
			if m.Name == v.Name {
				mounted[m.MountPath] = a.dirs[v.Secret.SecretName]
			}
		}
	}
	of := d.config.NATS
	for _, file := range []string{of.CA, of.Certificate, of.Key} {
		if _, err := os.Stat(filepath.Join(mounted[filepath.Dir(file)], filepath.Base(file))); err != nil {
			t.Errorf("%s is in no Secret: %v", file, err)
		}
	}
	u, err := url.Parse(of.URL)
	if err != nil {
		t.Fatal(err)
	}
	if u.Scheme != "tls" {
		t.Errorf("nats.url is %q: must begin with tls", of.URL)
	}
	values := readChartValues(t)
	server, err := tls.LoadX509KeyPair(filepath.Join(a.dirs[values.Config.NATS.TLS.SecretName], "tls.crt"),
		filepath.Join(a.dirs[values.Config.NATS.TLS.SecretName], "tls.key"))
	if err != nil {
		t.Fatal(err)
	}
	for _, host := range []string{u.Hostname(), "nats-0.nats-headless"} { // the second one as the chart makes it
		if err := server.Leaf.VerifyHostname(host); err != nil {
			t.Error(err)
		}
	}
	pvc, _ := values.Config.JetStream.FileStore["pvc"].(map[string]any)
	disk, err := resource.ParseQuantity(fmt.Sprint(pvc["size"]))
	if err != nil {
		t.Fatal(err)
	}
	if most := d.config.Log.MaxBytes; most != disk.Value()/10*9 {
		t.Errorf("log.maxBytes is %d: must be 90 %% of the disk, %d", most, disk.Value())
	}
	if d.config.Log.Copies != values.Config.Cluster.Replicas {
		t.Errorf("log.copies is %d, and there are %d servers", d.config.Log.Copies, values.Config.Cluster.Replicas)
	}
}

// TestDeployedRelay: with the permissions of its user, the relay can do all that it does, and it has no others.
func TestDeployedRelay(t *testing.T) {
	s := startDeployed(t, 1)
	seen := s.spy(func() {
		s.relayOnce(s.log("gvrwatch-relay-nats", jetstream.Options{Lease: time.Minute}))
		log := s.log("gvrwatch-relay-nats", jetstream.Options{Lease: 2 * time.Minute}) // changes the bucket
		s.tailAcross(log)
	})
	if refused := s.violations.take(); len(refused) > 0 {
		t.Errorf("refused:\n%s", strings.Join(refused, "\n"))
	}
	idle := neverUsed(s.values.allowed(t, "CN=gvrwatch-relay"), seen)
	if d := cmp.Diff([]string{direct}, idle); d != "" {
		t.Errorf("permissions that the relay never uses -want +got:\n%s", d)
	}
}

// TestDeployedReader: one who reads can use tail, view and status, and has no other permission.
func TestDeployedReader(t *testing.T) {
	s := startDeployed(t, 1)
	s.relayOnce(s.log("gvrwatch-relay-nats", jetstream.Options{Lease: time.Minute}))
	s.violations.take()
	to := s.client("gvrwatch-reader-nats", s.url)
	at := []string{"--nats", to.URL, "--ca", to.CA, "--cert", to.Certificate, "--key", to.Key}
	seen := s.spy(func() {
		for _, c := range []struct {
			want string
			args []string
		}{
			{" factory/a ", []string{"tail", "--until-end"}},
			{"factory     a ", []string{"view", "robots"}},
			{"main/robots.demo.gvrwatch.dev ", []string{"status"}},
		} {
			began := time.Now()
			_, out, errOut := command(t, append(c.args, at...)...)
			if !strings.Contains(out, c.want) {
				t.Errorf("%s: no %q in\n%s%s", c.args[0], c.want, out, errOut)
			}
			if took := time.Since(began); took > 3*time.Second {
				t.Errorf("%s took %v: does it wait for an answer that is refused?", c.args[0], took)
			}
		}
		s.tailAcross(s.log("gvrwatch-reader-nats", jetstream.Options{ReadOnly: true}))
	})
	if refused := s.violations.take(); len(refused) > 0 {
		t.Errorf("refused:\n%s", strings.Join(refused, "\n"))
	}
	idle := neverUsed(s.values.allowed(t, "CN=gvrwatch-reader"), seen)
	if d := cmp.Diff([]string{direct, info}, idle); d != "" {
		t.Errorf("permissions that a reader never uses -want +got:\n%s", d)
	}
}

// TestDeployedReaderChangesNothing: one who reads can't change the log or the members, or see what the relay receives.
func TestDeployedReaderChangesNothing(t *testing.T) {
	s := startDeployed(t, 1)
	relay := s.log("gvrwatch-relay-nats", jetstream.Options{Lease: time.Hour})
	s.relayOnce(relay)
	conn, js := s.jetStream("gvrwatch-reader-nats")
	_, root := s.jetStream("root")
	ctx := t.Context()
	state := func() (all []string) {
		for _, name := range []string{"K8S", "KV_K8S-members"} {
			stream, err := root.Stream(ctx, name)
			if err != nil {
				t.Fatal(err)
			}
			info, err := stream.Info(ctx, natsjs.WithSubjectFilter(">"))
			if err != nil {
				t.Fatal(err)
			}
			text, err := json.Marshal([]any{info.Config, info.State.FirstSeq, info.State.LastSeq, info.State.Subjects})
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, string(text))
		}
		return all
	}
	before := state()
	const answer = 200 * time.Millisecond // a request that is refused has none
	request := func(subject, body string) error {
		_, err := conn.Request(subject, []byte(body), answer)
		return err
	}
	push := func(to string) error {
		_, err := js.CreatePushConsumer(ctx, "K8S", natsjs.ConsumerConfig{DeliverSubject: to})
		if err == nil { // it may exist; what counts is that it delivers nothing
			err = nats.ErrPermissionViolation
		}
		return err
	}
	subscribe := func(subject string) error {
		own, _ := s.jetStream("gvrwatch-reader-nats") // LastError is its
		_, err := own.SubscribeSync(subject)
		if err == nil {
			err = own.Flush()
		}
		if err == nil {
			err = own.LastError()
		}
		return err
	}
	for _, c := range []struct {
		why string
		try func() error
	}{
		{"publish a message", func() error { return request("k8s.main.core.pods.a.u", "") }},
		{"set a position", func() error { return request("k8s-position.main.core.pods.-", "") }},
		{"become a member", func() error { return request("$KV.K8S-members.x", "") }},
		{"delete the stream", func() error { return request("$JS.API.STREAM.DELETE.K8S", "") }},
		{"purge the stream", func() error { return request("$JS.API.STREAM.PURGE.K8S", "") }},
		{"change the stream", func() error {
			return request("$JS.API.STREAM.UPDATE.K8S", `{"name":"K8S","subjects":["x"]}`)
		}},
		{"delete a message", func() error { return request("$JS.API.STREAM.MSG.DELETE.K8S", `{"seq":1}`) }},
		{"make a stream", func() error { return request("$JS.API.STREAM.CREATE.X", `{"name":"X","subjects":["x"]}`) }},
		{"delete the bucket", func() error { return request("$JS.API.STREAM.DELETE.KV_K8S-members", "") }},
		{"purge the bucket", func() error { return request("$JS.API.STREAM.PURGE.KV_K8S-members", "") }},
		{"list consumers", func() error { return request("$JS.API.CONSUMER.NAMES.K8S", "") }},
		{"restore the stream", func() error { return request("$JS.API.STREAM.RESTORE.K8S", `{}`) }},
		{"have messages delivered into the bucket", func() error { return push("$KV.K8S-members.x") }},
		{"have messages delivered to the API", func() error { return push("$JS.API.STREAM.DELETE.K8S") }},
		{"have messages delivered into the stream", func() error { return push("k8s.main.core.pods.a.u") }},
		{"subscribe past the stream", func() error { return subscribe("k8s.>") }},
		{"subscribe to requests", func() error { return subscribe("$JS.API.>") }},
		{"subscribe to the relay's inboxes", func() error { return subscribe("_INBOX_gvrwatch-relay.>") }},
	} {
		if err := c.try(); err == nil {
			t.Errorf("%s: no error", c.why)
		}
	}
	if d := cmp.Diff(before, state()); d != "" {
		t.Errorf("changed -before +after:\n%s", d)
	}

	inboxes, err := conn.SubscribeSync("_INBOX.>")
	if err == nil {
		err = conn.Flush()
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := relay.Members(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := relay.Objects(ctx, robot, true); err != nil {
		t.Fatal(err)
	}
	if err := conn.Flush(); err != nil {
		t.Fatal(err)
	}
	if m, err := inboxes.NextMsg(answer); err == nil {
		t.Errorf("sees what the relay receives: %s", m.Subject)
	}
}

// TestDeployedStrangers: only the users' certificates open the door for clients, and only the servers' that for routes.
func TestDeployedStrangers(t *testing.T) {
	s := startDeployed(t, 1)
	s.issue("stranger", &x509.Certificate{
		Subject: pkix.Name{CommonName: "stranger"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	other := newAuthority(t)
	ca := nats.RootCAs(filepath.Join(s.dirs["root"], "ca.crt"))
	with := func(dir string) nats.Option {
		return nats.ClientCert(filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key"))
	}
	for _, c := range []struct {
		why     string
		url     string
		options []nats.Option
		in      bool
	}{
		{"a certificate of a user", s.url, []nats.Option{ca, with(s.dirs["gvrwatch-reader-nats"])}, true},
		{"no TLS", "nats://" + s.server.Addr().String(), nil, false},
		{"no certificate", s.url, []nats.Option{ca}, false},
		{"a user's name of another CA", s.url, []nats.Option{ca, with(other.dirs["gvrwatch-relay-nats"])}, false},
		{"another name of the CA", s.url, []nats.Option{ca, with(s.dirs["stranger"])}, false},
		{"the servers' certificate", s.url, []nats.Option{ca, with(s.dirs["nats-server-tls"])}, false},
		{"a password", s.url, []nats.Option{ca, nats.UserInfo("CN=gvrwatch-relay", "")}, false},
	} {
		conn, err := nats.Connect(c.url, append(c.options, nats.MaxReconnects(0))...)
		if err == nil {
			conn.Close()
		}
		if (err == nil) != c.in {
			t.Errorf("%s: %v", c.why, err)
		}
	}

	// A server that waits for routes. It has no JetStream, which would need others to start.
	routed := func(secret string, to ...string) *server.Server {
		return s.start(t, map[string]any{
			"server_name": rand.Text(), "listen": "127.0.0.1:-1",
			"cluster": s.routes(secret, freeAddresses(t, 1)[0], to...),
		})
	}
	first := routed(s.values.Config.Cluster.TLS.SecretName, "127.0.0.1:1") // without a route no name is known
	to := first.ClusterAddr().String()
	s.violations.take()
	routed("gvrwatch-relay-nats", to)
	await(t, "refusal", func() bool {
		return strings.Contains(strings.Join(s.violations.take(), "\n"), "Route Error 'Authorization Violation'")
	})
	if first.NumRoutes() != 0 {
		t.Error("the relay's certificate opens a route")
	}
	routed("nats-server-tls", to)
	await(t, "route", func() bool { return first.NumRoutes() > 0 })
}

// TestDeployedCluster: three servers share the stream, and the permissions suffice there, too.
func TestDeployedCluster(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: the servers take seconds to elect leaders")
	}
	s := startDeployed(t, 3)
	_, root := s.jetStream("root")
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(strings.Join(s.violations.take(), "\n"))
		}
	})
	await(t, "leader", func() bool {
		info, err := root.AccountInfo(t.Context())
		return err == nil && info != nil
	})
	options := jetstream.Options{Lease: time.Minute, Create: jetstream.Create{Copies: 3}}
	s.relayOnce(s.log("gvrwatch-relay-nats", options))
	s.tailAcross(s.log("gvrwatch-reader-nats", jetstream.Options{ReadOnly: true}))
	for _, line := range s.violations.take() {
		if strings.Contains(line, "Violation") {
			t.Error(line)
		}
	}
}
