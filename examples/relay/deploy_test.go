package main

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/yaml"

	"github.com/gvrwatch/gvrwatch/examples/devserver"
	"github.com/gvrwatch/gvrwatch/examples/relay/relay"
)

// manifests returns the documents of deploy/relay.yaml.
func manifests(t *testing.T) [][]byte { return documentsOf(t, "deploy/relay.yaml") }

// documentsOf returns the documents of a YAML file.
func documentsOf(t *testing.T, file string) [][]byte {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	r := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	var all [][]byte
	for {
		doc, err := r.Read()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, doc)
	}
}

// deployed is what deploy/relay.yaml has.
type deployed struct {
	kinds      []string
	role       *rbacv1.ClusterRole
	deployment *appsv1.Deployment
	policy     *networkingv1.NetworkPolicy
	config     relay.Config
}

func readDeployed(t *testing.T) *deployed {
	t.Helper()
	decoder := serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()
	d := &deployed{}
	for _, doc := range manifests(t) {
		o, kind, err := decoder.Decode(doc, nil, nil)
		if err != nil {
			t.Fatalf("%v in\n%s", err, doc)
		}
		d.kinds = append(d.kinds, kind.Kind)
		switch o := o.(type) {
		case *rbacv1.ClusterRole:
			d.role = o
		case *appsv1.Deployment:
			d.deployment = o
		case *networkingv1.NetworkPolicy:
			d.policy = o
		case *corev1.ConfigMap:
			if err := yaml.UnmarshalStrict([]byte(o.Data["relay.yaml"]), &d.config); err != nil {
				t.Fatal(err)
			}
		}
	}
	return d
}

func TestManifests(t *testing.T) {
	d := readDeployed(t)
	want := []string{
		"Namespace", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "ConfigMap", "Deployment",
		"PodDisruptionBudget", "NetworkPolicy", "Service",
	}
	if diff := cmp.Diff(want, d.kinds); diff != "" {
		t.Fatalf("kinds -want +got:\n%s", diff)
	}
	if err := d.config.Complete(); err != nil {
		t.Fatal(err)
	}
	var granted []string
	for _, rule := range d.role.Rules {
		// SECURITY.md names these.
		verbs := []string{"list", "watch"}
		if rule.ResourceNames != nil {
			verbs = []string{"get"}
			if d := cmp.Diff([]string{"namespaces kube-system"}, []string{rule.Resources[0] + " " +
				strings.Join(rule.ResourceNames, ",")}); d != "" {
				t.Errorf("get -want +got:\n%s", d)
			}
		}
		if d := cmp.Diff(verbs, rule.Verbs); d != "" {
			t.Errorf("verbs of %s -want +got:\n%s", rule.Resources, d)
		}
		if rule.ResourceNames != nil {
			continue
		}
		for _, name := range rule.Resources {
			if group := rule.APIGroups[0]; group != "" {
				name += "." + group
			}
			granted = append(granted, name)
		}
	}
	slices.Sort(granted)
	selected := slices.Sorted(slices.Values(d.config.Selection.Resources))
	if d := cmp.Diff(granted, selected); d != "" {
		t.Errorf("the role grants -, and the configuration selects +:\n%s", d)
	}
	pod := d.deployment.Spec.Template
	grace := time.Duration(*pod.Spec.TerminationGracePeriodSeconds) * time.Second
	if grace <= d.config.Replica.Grace.Duration {
		t.Errorf("terminationGracePeriodSeconds is %v: must be more than replica.grace, %v", grace,
			d.config.Replica.Grace)
	}
	if d.config.Metrics.Namespaces {
		t.Error("metrics name namespaces")
	}
	if diff := cmp.Diff(pod.Labels, d.policy.Spec.PodSelector.MatchLabels); diff != "" {
		t.Errorf("the NetworkPolicy selects other Pods -want +got:\n%s", diff)
	}
	if diff := cmp.Diff([]networkingv1.PolicyType{"Ingress", "Egress"}, d.policy.Spec.PolicyTypes); diff != "" {
		t.Errorf("the NetworkPolicy's types -want +got:\n%s", diff)
	}
}

// TestVerbs: a relay with the verbs of the ClusterRole can do all that it does, and it uses each of them.
func TestVerbs(t *testing.T) {
	silenceClientGo()
	var verbs []string
	for _, rule := range readDeployed(t).role.Rules {
		if rule.ResourceNames == nil {
			verbs = rule.Verbs // of all others: see TestManifests
		}
	}
	var mu sync.Mutex
	used := map[string]bool{}
	srv, err := devserver.Start(t.Context(), &devserver.Options{Allow: func(a authorizer.Attributes) bool {
		mu.Lock()
		defer mu.Unlock()
		if a.GetAPIGroup() == robots.Group {
			used[a.GetVerb()] = true
			return slices.Contains(verbs, a.GetVerb())
		}
		return !a.IsResourceRequest() // discovery
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { srv.Stop() })
	admin, err := relay.Connect(relay.Cluster{Kubeconfig: srv.Kubeconfig()})
	if err != nil {
		t.Fatal(err)
	}
	if err := devserver.CreateCRDs(t.Context(), admin.Client, robots); err != nil {
		t.Fatal(err)
	}
	file := kubeconfig(t, srv.LimitedConfig())
	at := []string{"--dir", filepath.Join(t.TempDir(), "relay"), "--kubeconfig", file, "-r", "robots." + robots.Group}
	for range 2 { // the second one resumes where the first one was
		p := startProgram(t, append(at, "--listen", "127.0.0.1:0", "--lease", "2s")...)
		await(t, "/readyz", func() bool { status, _ := p.get("/readyz"); return status == http.StatusOK })
		if status, out, errOut := command(t, append([]string{"verify"}, at...)...); status != 0 {
			t.Errorf("verify: %d %s%s", status, out, errOut)
		}
		p.end()
	}
	mu.Lock()
	defer mu.Unlock()
	if d := cmp.Diff(verbs, slices.Sorted(maps.Keys(used))); d != "" {
		t.Errorf("the role grants -, and the relay uses +:\n%s", d)
	}
}

// kubeconfig writes a configuration to a file.
func kubeconfig(t *testing.T, cfg *rest.Config) string {
	t.Helper()
	if err := rest.LoadTLSFiles(cfg); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "kubeconfig")
	c := api.NewConfig()
	c.Clusters["main"] = &api.Cluster{
		Server: cfg.Host, CertificateAuthorityData: cfg.CAData, InsecureSkipTLSVerify: cfg.Insecure,
	}
	c.AuthInfos["user"] = &api.AuthInfo{
		Token: cfg.BearerToken, ClientCertificateData: cfg.CertData, ClientKeyData: cfg.KeyData,
		Impersonate: cfg.Impersonate.UserName, ImpersonateGroups: cfg.Impersonate.Groups,
	}
	c.Contexts["main"] = &api.Context{Cluster: "main", AuthInfo: "user"}
	c.CurrentContext = "main"
	if err := clientcmd.WriteToFile(*c, file); err != nil {
		t.Fatal(err)
	}
	return file
}
