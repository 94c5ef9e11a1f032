// Package friend has what the public packages of this module need in signatures that only its packages can use. It
// imports no other package of this module.
package friend

import "context"

// Access is a parameter of exported methods that only packages of this module may call: others cannot import its type,
// nor write a literal that is assignable to it.
type Access struct{ _ struct{} }

// Engine commits acks. Package internal/acks implements it, and a checkpoint.Tracker calls it.
type Engine interface {
	Flush(ctx context.Context) error
	Close() error
}
