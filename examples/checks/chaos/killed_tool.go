package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/stream"
)

// toolClient is the tool with --checkpoint, which is killed with -9 at random moments and started again.
type toolClient struct{}

func (toolClient) subject() subject {
	return subject{Name: "killed-tool", Ours: true, Checkpoint: true}
}

const toolPackage = "github.com/gvrwatch/gvrwatch/examples/gvrwatch"

func (toolClient) run(ctx context.Context, w *world, rec *recording) error {
	dir, err := os.MkdirTemp("", "gvrwatch-chaos-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	tool, kubeconfig := filepath.Join(dir, "gvrwatch"), filepath.Join(dir, "config")
	store := filepath.Join(dir, "store")
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", tool, toolPackage).CombinedOutput(); err != nil {
		return ended(ctx, fmt.Errorf("build the tool: %w: %s", err, out))
	}
	if err := writeKubeconfig(kubeconfig, newChildConfig(w.config(true))); err != nil {
		return err
	}
	run := 0
	return killAgainAndAgain(ctx, w, rec, store, func() (*exec.Cmd, func(bool) error) {
		run++
		out := filepath.Join(dir, fmt.Sprint("out-", run))
		cmd := exec.Command(tool, "watch", "*."+group, "-A", "-o", "json",
			"--checkpoint", store, "--kubeconfig", kubeconfig)
		stdout, err := os.Create(out)
		cmd.Stdout = stdout
		cmd.Stderr = io.Discard // it reports each refusal
		reader := &outputReader{path: out, rec: rec, run: run, last: -1}
		return cmd, func(bool) error {
			stdout.Close() // the process has its own
			return errors.Join(err, reader.read())
		}
	})
}

func writeKubeconfig(path string, c childConfig) error {
	k := clientcmdapi.NewConfig()
	k.Clusters["chaos"] = &clientcmdapi.Cluster{
		Server: c.Host, TLSServerName: c.ServerName, CertificateAuthority: c.CAFile, CertificateAuthorityData: c.CA,
	}
	k.AuthInfos["chaos"] = &clientcmdapi.AuthInfo{Token: c.Token, TokenFile: c.TokenFile}
	k.Contexts["chaos"] = &clientcmdapi.Context{Cluster: "chaos", AuthInfo: "chaos"}
	k.CurrentContext = "chaos"
	return clientcmd.WriteToFile(*k, path)
}

// outputReader reads what one process of the tool writes to stdout. The tool acks an event before it writes the next.
type outputReader struct {
	path   string
	rec    *recording
	run    int
	offset int64
	last   int // index of the last report, or -1
}

func (o *outputReader) read() error {
	f, err := os.Open(o.path)
	if err != nil {
		return err
	}
	defer f.Close()
	b, err := io.ReadAll(io.NewSectionReader(f, o.offset, 1<<40))
	if err != nil {
		return err
	}
	for text := range bytes.Lines(b) {
		if !bytes.HasSuffix(text, []byte("\n")) {
			return nil
		}
		o.offset += int64(len(text))
		r, err := parseOutput(text)
		if err != nil {
			return err
		}
		if r.Run = o.run; o.last >= 0 {
			o.rec.ack(o.last)
		}
		o.last = o.rec.add(r)
	}
	return nil
}

func parseOutput(text []byte) (report, error) {
	var document struct {
		Type                                 stream.Type
		Resource, Namespace, ResourceVersion string
		Inferred                             bool
		Gap                                  *struct {
			Reason      string
			From        string
			HistoryLost bool
		}
		Object *unstructured.Unstructured
	}
	if err := json.Unmarshal(text, &document); err != nil {
		return report{}, fmt.Errorf("%s: %w", text, err)
	}
	ref, err := gvr.ParseRef(document.Resource)
	if err != nil {
		return report{}, err
	}
	r := report{
		At: time.Now(), Kind: Kind(document.Type), Resource: ref.Name + "." + ref.Group,
		Namespace: document.Namespace, Worker: document.Namespace, ResourceVersion: document.ResourceVersion,
		Inferred: document.Inferred,
	}
	if o := document.Object; o != nil {
		r.Namespace, r.Name = o.GetNamespace(), o.GetName()
		r.UID, r.ResourceVersion = o.GetUID(), o.GetResourceVersion()
	}
	if g := document.Gap; g != nil {
		r.Reason, r.From, r.HistoryLost = g.Reason, g.From, g.HistoryLost
	}
	return r, nil
}
