//go:build unix

package screen

import (
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// inForeground reports whether the program owns the terminal w. If not, a shell prompts there.
func inForeground(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return true
	}
	group, err := unix.IoctlGetInt(int(f.Fd()), unix.TIOCGPGRP)
	return err != nil || group == unix.Getpgrp() // an error: no shell controls jobs there
}
