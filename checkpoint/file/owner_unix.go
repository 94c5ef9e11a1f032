//go:build unix

package file

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// noFollow does not open a link that has replaced a file since it was examined.
const noFollow = syscall.O_NOFOLLOW

// checkOwner returns an error if a file belongs to another user than uid or root, if others can write to it, or if it
// has another name.
func checkOwner(path string, info fs.FileInfo, uid int) error {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return nil
	}
	mode := info.Mode().Perm()
	var problem string
	switch {
	case stat.Uid != 0 && int(stat.Uid) != uid:
		problem = fmt.Sprintf("invalid owner %d: must be %d, the user of this process: chown it, or use another file",
			stat.Uid, uid)
	case mode&0o002 != 0 || mode&0o020 != 0 && !groupMayReplace(path, stat.Gid):
		problem = fmt.Sprintf("invalid mode %v: only its owner may write to it: chmod go-w, "+
			"or use a volume whose files have modes", mode)
	case stat.Nlink > 1:
		problem = fmt.Sprintf("invalid number of hard links, %d: must be 1: use a copy", stat.Nlink)
	default:
		return nil
	}
	return &fs.PathError{Op: "open", Path: path, Err: fmt.Errorf("%w: %s", fs.ErrPermission, problem)}
}

// groupMayReplace reports whether a group may write to the folder of a file, and so replace the file anyway. That is so
// in a volume of Kubernetes with an fsGroup: the kubelet lets the group write to all files when it mounts the volume.
func groupMayReplace(path string, gid uint32) bool {
	info, err := os.Stat(filepath.Dir(path))
	if err != nil || info.Mode()&fs.ModeSticky != 0 || info.Mode()&0o020 == 0 {
		return false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && stat.Gid == gid
}
