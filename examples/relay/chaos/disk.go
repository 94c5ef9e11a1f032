package main

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// disk is a file system in memory, whose size can change.
type disk struct{ dir string }

const wholeDisk = 2 << 30 // bytes; memory is taken by what is written only

// mountDisk mounts a disk, which as a rule only root may.
func mountDisk(dir string) (*disk, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	d := &disk{dir}
	return d, d.mount(0, wholeDisk)
}

func (d *disk) mount(flags uintptr, size int64) error {
	return syscall.Mount("tmpfs", d.dir, "tmpfs", flags, fmt.Sprintf("size=%d,mode=700", size))
}

// fill leaves no space: the disk becomes as small as what is on it.
func (d *disk) fill() (err error) {
	for range 100 { // a file may grow meanwhile
		var s syscall.Statfs_t
		if err := syscall.Statfs(d.dir, &s); err != nil {
			return err
		}
		if err = d.mount(syscall.MS_REMOUNT, int64(s.Blocks-s.Bfree)*s.Bsize); !errors.Is(err, syscall.EINVAL) {
			return err
		}
	}
	return err
}

func (d *disk) free() error { return d.mount(syscall.MS_REMOUNT, wholeDisk) }

func (d *disk) unmount() error { return syscall.Unmount(d.dir, syscall.MNT_DETACH) }
