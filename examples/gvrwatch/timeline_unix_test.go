//go:build unix

package main

import (
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestWriteFileToPipe: a named pipe is written to, as /dev/null would be. It is not replaced by a file.
func TestWriteFileToPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	read := make(chan string)
	go func() {
		text, err := os.ReadFile(path)
		if err != nil {
			text = []byte(err.Error())
		}
		read <- string(text)
	}()
	err := writeFile(path, func(w io.Writer) error {
		_, err := io.WriteString(w, "page")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode()&os.ModeNamedPipe == 0 {
		t.Fatalf("the pipe is none: %v", err)
	}
	if got := <-read; got != "page" {
		t.Errorf("its reader gets %q", got)
	}
}
