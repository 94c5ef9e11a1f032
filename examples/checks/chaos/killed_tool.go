package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
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
	run, lines := 0, newLineReader(w.definitions.resources())
	return killAgainAndAgain(ctx, w, rec, store, func() (*exec.Cmd, func(bool) error) {
		run++
		out := filepath.Join(dir, fmt.Sprint("out-", run))
		cmd := exec.Command(tool, "watch", "*."+group, "-A", "-o", "json",
			"--checkpoint", store, "--kubeconfig", kubeconfig)
		stdout, err := os.Create(out)
		cmd.Stdout = stdout
		cmd.Stderr = io.Discard // it reports each refusal
		lines.run = run
		reader := &outputReader{path: out, rec: rec, lines: lines, last: -1}
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
	lines  *lineReader
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
		reports, err := o.lines.read(text, time.Now())
		if err == nil && len(reports) != 1 {
			err = fmt.Errorf("the tool wrote %d events: %.300q", len(reports), text)
		}
		if err != nil {
			return err
		}
		if o.last >= 0 {
			o.rec.ack(o.last)
		}
		reports[0].Acked = false
		o.last = o.rec.add(reports[0])
	}
	return nil
}
