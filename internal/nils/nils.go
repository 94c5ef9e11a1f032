// Package nils recognizes arguments that hold nothing.
package nils

import "reflect"

// Is reports whether v is nil or a nil pointer.
func Is(v any) bool {
	r := reflect.ValueOf(v)
	return !r.IsValid() || r.Kind() == reflect.Pointer && r.IsNil()
}
