//go:build !unix

package devserver

import "io/fs"

// Neither can be told from a FileInfo here.
func ours(fs.FileInfo) bool { return true }
func open(fs.FileInfo) bool { return false }
