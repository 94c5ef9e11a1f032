package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/lease"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/gvrwatch/gvrwatch/examples/devserver"
)

// storedAs returns an object as an API server stores a built-in type.
func storedAs(t *testing.T, o runtime.Object) string {
	t.Helper()
	var b bytes.Buffer
	if err := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme).Encode(o, &b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// followed runs followEtcd until each, which gets its lines, returns false. It returns what was written to stderr.
func followed(t *testing.T, o etcdOptions, each func(historyLine) (more bool)) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	in, out := io.Pipe()
	done := make(chan error, 1)
	var stderr bytes.Buffer
	go func() {
		err := followEtcd(ctx, o, out, &stderr)
		out.Close()
		done <- err
	}()
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		var one historyLine
		if err := json.Unmarshal(lines.Bytes(), &one); err != nil {
			t.Fatal(err)
		}
		if !each(one) {
			cancel()
		}
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	return stderr.String()
}

// TestHistoryOfAnEtcd: custom resources of a real API server, and built-in types as it stores them, from the beginning
// and after a compaction.
func TestHistoryOfAnEtcd(t *testing.T) {
	etcd, err := devserver.StartEtcd(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(etcd.Stop)
	server, err := devserver.Start(t.Context(), &devserver.Options{Dir: t.TempDir(), Etcd: etcd.Socket()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Stop() })
	client := dynamic.NewForConfigOrDie(server.Config())
	crd := devserver.CRD{Group: group, Kind: "Widget", Namespaced: true}
	if err := devserver.CreateCRDs(t.Context(), client, crd); err != nil {
		t.Fatal(err)
	}
	widgets := client.Resource(crd.Resource()).Namespace("ns-a")
	begin, err := widgets.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var versions []string
	object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": group + "/v1", "kind": "Widget"}}
	object.SetName("o-1")
	object.SetLabels(map[string]string{"a": "b"})
	object, err = widgets.Create(t.Context(), object, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	created := object.DeepCopy()
	versions = append(versions, object.GetResourceVersion())
	object.SetLabels(map[string]string{"a": "c"})
	if object, err = widgets.Update(t.Context(), object, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	versions = append(versions, object.GetResourceVersion())
	if err := widgets.Delete(t.Context(), "o-1", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}

	raw, err := clientv3.New(clientv3.Config{Endpoints: []string{"unix://" + etcd.Socket()}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { raw.Close() })
	put := func(key, value string) int64 {
		t.Helper()
		answer, err := raw.Put(t.Context(), key, value)
		if err != nil {
			t.Fatal(err)
		}
		return answer.Header.Revision
	}
	meta := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: "shop", Name: name, UID: "uid-" + "1", Labels: map[string]string{"x": "y"}}
	}
	pod := &corev1.Pod{ObjectMeta: meta("web"), Spec: corev1.PodSpec{NodeName: "n"}}
	pod.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
	deployment := &appsv1.Deployment{ObjectMeta: meta("web")}
	deployment.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind("Deployment"))
	put("/registry/secrets/shop/s", "k8s:enc:aescbc:v1:key1:xxxx")
	put("/registry/ranges/serviceips", storedAs(t, &corev1.RangeAllocation{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "RangeAllocation"},
	}))
	put("/registry/pods/shop/broken", protobufMagic+"\xff\xff")
	podAt := put("/registry/pods/shop/web", storedAs(t, pod))
	deploymentAt := put("/registry/deployments/shop/web", storedAs(t, deployment))

	o := etcdOptions{endpoints: []string{"unix://" + etcd.Socket()}, prefix: "/registry/", poll: etcdPoll}
	o.resources = []string{
		"widgets." + group, "pods", "deployments.apps", "customresourcedefinitions.apiextensions.k8s.io",
		"people.example.com",
	}
	var got []historyLine
	said := followed(t, o, func(one historyLine) bool {
		if one.Time = (time.Time{}); !strings.HasPrefix(one.Resource, "customresource") {
			got = append(got, one)
		}
		return one.Resource != "deployments.apps"
	})
	if len(got) != 6 {
		t.Fatalf("the history has %d lines, want 6: %+v", len(got), got)
	}
	widget := historyLine{Resource: "widgets." + group, Namespace: "ns-a", Name: "o-1", UID: created.GetUID()}
	want := []historyLine{widget, widget, widget,
		{Type: "ADDED", Resource: "pods", Namespace: "shop", Name: "web", UID: "uid-1", Labels: pod.Labels},
		{Type: "ADDED", Resource: "deployments.apps", Namespace: "shop", Name: "web", UID: "uid-1", Labels: pod.Labels},
		{Type: "END"},
	}
	want[0].Type, want[0].ResourceVersion, want[0].Labels = "ADDED", versions[0], created.GetLabels()
	want[1].Type, want[1].ResourceVersion, want[1].Labels = "MODIFIED", versions[1], object.GetLabels()
	want[2].Type, want[2].ResourceVersion, want[2].Labels = "DELETED", got[2].ResourceVersion, object.GetLabels()
	want[3].ResourceVersion, want[4].ResourceVersion = fmt.Sprint(podAt), fmt.Sprint(deploymentAt)
	want[5].ResourceVersion = got[5].ResourceVersion
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the history (-want +got):\n%s", diff)
	}
	if !(podAt-4 >= revision(got[2].ResourceVersion) && revision(got[2].ResourceVersion) > revision(versions[1])) {
		t.Errorf("the deletion is at %s, want the revision in which it happened", got[2].ResourceVersion)
	}
	if revision(got[5].ResourceVersion) < deploymentAt {
		t.Errorf("it ends at %s, before the last change at %d", got[5].ResourceVersion, deploymentAt)
	}
	for _, part := range []string{
		"1 values were left out: it is encrypted", "1 values were left out: decode pro",
		" of 4 resources up to revision ", "nothing of people.example.com",
	} {
		if !strings.Contains(said, part) {
			t.Errorf("it said %q, want %q in it", said, part)
		}
	}
	checkFrames(t, server.Config(), begin.GetResourceVersion(), got)
	testHistoryAfterCompaction(t, etcd, raw, o, podAt)
}

// checkFrames checks the frames of a watch as the server sends them, and the same without one of them, beside a history
// with three changes of widgets.
func checkFrames(t *testing.T, cfg *rest.Config, from string, lines []historyLine) {
	t.Helper()
	client, err := rest.HTTPClientFor(cfg)
	if err != nil {
		t.Fatal(err)
	}
	path := "/apis/" + group + "/v1/widgets?watch=1&timeoutSeconds=1&resourceVersion=" + from
	answer, err := client.Get(cfg.Host + path)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	frames, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	history := writeFile(t, "history.jsonl", func(w io.Writer) error {
		var errs []error
		for _, one := range lines {
			errs = append(errs, json.NewEncoder(w).Encode(one))
		}
		return errors.Join(errs...)
	})
	begin := `{"type":"SYNCED","resource":"widgets.` + group + `","resourceVersion":"` + from + "\"}\n"
	if status, out := runCheck(writeText(t, "curl.jsonl", begin+string(frames)), "-history", history); status != 0 ||
		!strings.Contains(out, "| curl   | 3 ") {
		t.Errorf("the frames of a watch: status %d, want 0 and 3 changes:\n%s\n%s", status, out, frames)
	}
	all := strings.SplitAfter(string(frames), "\n")
	status, out := runCheck(writeText(t, "curl.jsonl", begin+all[0]+all[2]), "-history", history)
	if status != foundSomething || !strings.Contains(out, "MODIFIED of widgets.chaos.example.com ns-a/o-1 at") {
		t.Errorf("frames without one: status %d, want %d and what is missing:\n%s", status, foundSomething, out)
	}
}

// TestHistoryEndsWithARestore: a history that goes back in time is none.
func TestHistoryEndsWithARestore(t *testing.T) {
	d, err := openDatabase(t.Context(), t.TempDir(), 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.close() })
	put := func(n int) {
		d.etcd.KV().Put([]byte("/registry/pods/a/"+fmt.Sprint(n)), []byte(podJSON(n)), lease.NoLease)
	}
	put(1)
	if err := d.copy(t.Context(), 0); err != nil { // raises the revision
		t.Fatal(err)
	}
	o := etcdOptions{
		endpoints: []string{"unix://" + d.relays[0].path}, prefix: "/registry/", poll: 20 * time.Millisecond,
	}
	put(2)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	in, out := io.Pipe()
	done := make(chan error, 1)
	go func() {
		done <- followEtcd(ctx, o, out, io.Discard)
		out.Close()
	}()
	lines := bufio.NewScanner(in)
	for n := range 2 {
		if !lines.Scan() {
			t.Fatalf("there are %d changes, want 2", n)
		}
	}
	if err := errors.Join(d.stop(t.Context()), d.restore(), d.start(t.Context())); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err == nil || !strings.Contains(err.Error(), "etcd's revision went back from") {
		t.Errorf("after a restore it ended with %v, want an error that says so", err)
	}
}

// TestHistoryEndsWhileEtcdIsDown: Ctrl-C ends it then, too, with what was read.
func TestHistoryEndsWhileEtcdIsDown(t *testing.T) {
	d, err := openDatabase(t.Context(), t.TempDir(), 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.close() })
	d.etcd.KV().Put([]byte("/registry/pods/a/1"), []byte(podJSON(1)), lease.NoLease)
	o := etcdOptions{
		endpoints: []string{"unix://" + d.relays[0].path}, prefix: "/registry/", poll: 20 * time.Millisecond,
	}
	var last historyLine
	followed(t, o, func(one historyLine) bool {
		if last = one; one.Type == "ADDED" {
			if err := d.stop(t.Context()); err != nil {
				t.Error(err)
			}
			return false
		}
		return true
	})
	if last.Type != "END" || last.ResourceVersion == "" {
		t.Errorf("the last line is %+v, want an END with the revision", last)
	}
}

func podJSON(n int) string {
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"a","name":"%d","uid":"%d"}}`, n, n)
}

// testHistoryAfterCompaction: what exists at the oldest revision comes first, and then what happens.
func testHistoryAfterCompaction(
	t *testing.T, etcd *devserver.Etcd, raw *clientv3.Client, o etcdOptions, podAt int64,
) {
	if err := etcd.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	o.resources = []string{"pods"}
	began := time.Now()
	var got []historyLine
	var gone int64
	followed(t, o, func(one historyLine) bool {
		if got = append(got, one); len(got) == 2 {
			answer, err := raw.Delete(t.Context(), "/registry/pods/shop/web")
			if err != nil {
				t.Error(err)
				return false
			}
			gone = answer.Header.Revision
		}
		return one.Type != "DELETED"
	})
	if len(got) != 4 {
		t.Fatalf("the history has %d lines, want 4: %+v", len(got), got)
	}
	if at := got[2].Time; at.Before(began) {
		t.Errorf("what has happened meanwhile has the time %v, want one after %v", at, began)
	}
	pod := historyLine{
		Resource: "pods", Namespace: "shop", Name: "web", UID: "uid-1", Labels: map[string]string{"x": "y"},
	}
	want := []historyLine{
		{Type: "HISTORY", ResourceVersion: got[0].ResourceVersion}, pod, pod,
		{Type: "END", ResourceVersion: fmt.Sprint(gone), Time: got[3].Time},
	}
	want[1].Type, want[1].ResourceVersion = "ADDED", fmt.Sprint(podAt)
	want[2].Type, want[2].ResourceVersion, want[2].Time = "DELETED", fmt.Sprint(gone), got[2].Time
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the history after a compaction (-want +got):\n%s", diff)
	}
	if revision(got[0].ResourceVersion) < podAt {
		t.Errorf("it begins at %s, before the compaction", got[0].ResourceVersion)
	}
}

// TestHistoryRefusesArguments: what would give a history of nothing, or none that ends, is refused.
func TestHistoryRefusesArguments(t *testing.T) {
	for _, test := range []struct{ args, has string }{
		{"", "-etcd one of them"}, {"-etcd x y", "must be flags"}, {"-etcd x -prefix=", "-prefix must not be empty"},
		{"-etcd x -for -1s", "invalid -for -1s"}, {"-etcd x -resources pods,a/b/c/d", "-resources: "},
		{"-etcd x -cert nowhere", "invalid -cert nowhere and -key : "},
	} {
		var out bytes.Buffer
		if status := readEtcd(strings.Fields(test.args), &out, &out); status != cannotJudge ||
			!strings.Contains(out.String(), test.has) {
			t.Errorf("%q: status %d, want %d with %q:\n%s", test.args, status, cannotJudge, test.has, out.String())
		}
	}
}

// TestResourceAt: keys of custom resources have the resource, and the kinds of others do.
func TestResourceAt(t *testing.T) {
	for _, test := range []struct{ key, apiVersion, kind, want string }{
		{"/registry/pods/shop/web", "v1", "Pod", "pods"},
		{"/registry/services/specs/shop/web", "v1", "Service", "services"},
		{"/registry/services/endpoints/shop/web", "v1", "Endpoints", "endpoints"},
		{"/registry/minions/n-1", "v1", "Node", "nodes"},
		{"/registry/ingress/shop/web", "networking.k8s.io/v1", "Ingress", "ingresses.networking.k8s.io"},
		{"/registry/deployments/apps/web", "apps/v1", "Deployment", "deployments.apps"},
		{"/registry/example.com/people/shop/ann", "example.com/v1", "Person", "people.example.com"},
		{"/registry/example.com/people/ann", "example.com/v1", "Person", "people.example.com"},
		{"/other/apiregistration.k8s.io/apiservices/v1.apps", "apiregistration.k8s.io/v1", "APIService",
			"apiservices.apiregistration.k8s.io"},
	} {
		if got := resourceAt(test.key, schema.FromAPIVersionAndKind(test.apiVersion, test.kind)); got != test.want {
			t.Errorf("resourceAt(%q, %s %s) = %q, want %q", test.key, test.apiVersion, test.kind, got, test.want)
		}
	}
}
