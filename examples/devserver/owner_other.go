//go:build !unix

package devserver

import "io/fs"

// A FileInfo has neither the owner nor the permissions on these systems.

func ownedByUser(fs.FileInfo) bool      { return true }
func writableByOthers(fs.FileInfo) bool { return false }
