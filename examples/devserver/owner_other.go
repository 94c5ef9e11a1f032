//go:build !unix

package devserver

import "io/fs"

// Neither can be told from a FileInfo here.
func ownedByUser(fs.FileInfo) bool { return true }
func writableByOthers(fs.FileInfo) bool { return false }
