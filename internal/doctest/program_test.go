package doctest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/gvrwatch/gvrwatch/discovery"
	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

// TestReadmeProgramRuns: the function in the README is the one below, which prints what exists and what changes.
func TestReadmeProgramRuns(t *testing.T) {
	const begin = "\nfunc watchDeployments("
	function := func(file string) string {
		_, text, _ := strings.Cut(read(t, file), begin)
		text, _, ok := strings.Cut(text, "\n}\n")
		if !ok {
			t.Fatalf("%s has no watchDeployments", file)
		}
		return text
	}
	if diff := cmp.Diff(function("program_test.go"), function(filepath.Join(root, "README.md"))); diff != "" {
		t.Errorf("the README has another program than this test (-test +README):\n%s", diff)
	}

	deployments := gvr.Resource{
		GroupVersionResource: schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"},
		Kind:                 "Deployment", Namespaced: true,
		ShortNames: []string{"deploy"}, Verbs: []string{"list", "watch"},
	}
	srv := streamtest.NewServer(deployments)
	defer srv.Close()
	srv.Put(deployments, "default", "web")
	srv.Put(deployments, "other", "hidden")
	errTimeUp := errors.New("time is up")
	limit, stop := context.WithTimeout(t.Context(), 20*time.Second)
	defer stop()
	ctx, cancel := context.WithCancelCause(limit)
	got := output(t, func(line string) {
		switch kind, _, _ := strings.Cut(line, " "); kind {
		case "SYNCED":
			if _, err := srv.Delete(deployments, "default", "web"); err != nil {
				t.Error(err)
			}
		case "DELETED":
			cancel(errTimeUp)
		}
	}, func() {
		if err := watchDeployments(ctx, srv.Config()); err != errTimeUp {
			t.Errorf("the program ended with %v", err)
			cancel(err)
		}
	})
	if diff := cmp.Diff("ADDED default/web@2\nSYNCED @3 in default\nDELETED default/web@4\n", got); diff != "" {
		t.Errorf("the program prints (-want +got):\n%s", diff)
	}
}

// output returns what a program prints, and calls each for each line.
func output(t *testing.T, each func(line string), program func()) string {
	t.Helper()
	in, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout := os.Stdout
	os.Stdout = out
	defer func() { os.Stdout = stdout }()
	go func() {
		defer out.Close()
		program()
	}()
	all := ""
	b := make([]byte, 1000)
	for {
		n, err := in.Read(b)
		for line := range strings.Lines(string(b[:n])) { // each is one write
			all += line
			each(line)
		}
		if err == io.EOF {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

func watchDeployments(ctx context.Context, cfg *rest.Config) error {
	discoveryClient, err := discovery.NewClient(cfg)
	if err != nil {
		return err
	}
	ref, err := gvr.ParseRef("deploy") // or Deployment, deployments.apps, apps/v1/Deployment ...
	if err != nil {
		return err
	}
	resource, err := discovery.NewResolver(discoveryClient, nil).Resolve(ctx, ref)
	if err != nil {
		return err
	}
	client, err := stream.NewClient(cfg, nil)
	if err != nil {
		return err
	}
	s, err := stream.New(client, resource, &stream.Options{Namespaces: []string{"default"}})
	if err != nil {
		return err
	}
	for ev, err := range s.Events(ctx) {
		if err != nil {
			return err
		}
		fmt.Println(ev)
	}
	return nil
}
