package protocol

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
	"unsafe"
)

// TestKeyHasEveryField: two States that differ in a field have different keys, but for the fields that don't matter for
// what follows. So whoever adds a field has to decide.
func TestKeyHasEveryField(t *testing.T) {
	without := map[string]string{
		"Waiting.Attempt":                       "only the length of the wait depends on it",
		"Waiting.Cause":                         "it is for people, and for GaveUp",
		"Stopped.GaveUp.After":                  "only whether it gave up matters",
		"Listing.Memory.server.evidence":        "it is for people",
		"Connecting.Memory.server.evidence":     "it is for people",
		"ReadingInitial.Memory.server.evidence": "it is for people",
		"Streaming.Memory.server.evidence":      "it is for people",
		"Probing.Memory.server.evidence":        "it is for people",
	}
	key := func(s State) string {
		same := func(to []byte, text string) []byte { return append(append(to, text...), ';') }
		return string(AppendKey(nil, s, same))
	}
	left := len(without)
	for _, s := range []State{Listing{}, Connecting{}, ReadingInitial{}, Streaming{}, Probing{},
		Waiting{next: Listing{}}, Stopped{}} {
		of := reflect.New(reflect.TypeOf(s)).Elem()
		of.Set(reflect.ValueOf(s))
		name := of.Type().Name()
		eachField(of, name, func(field string, v reflect.Value) {
			for path := field; path != name; path = path[:strings.LastIndexByte(path, '.')] {
				if without[path] != "" {
					left--
					return
				}
			}
			before := key(of.Interface().(State))
			old := reflect.New(v.Type()).Elem()
			old.Set(v)
			set(v)
			if key(of.Interface().(State)) == before {
				t.Errorf("%s does not change the key: add it to AppendKey, or say here why it does not matter", field)
			}
			v.Set(old)
		})
	}
	if left > 0 {
		t.Errorf("%d of the fields that don't matter do not exist", left)
	}
}

// eachField calls f with each field that is no struct.
func eachField(v reflect.Value, name string, f func(string, reflect.Value)) {
	for i := range v.NumField() {
		field := v.Field(i)
		field = reflect.NewAt(field.Type(), unsafe.Pointer(field.UnsafeAddr())).Elem() // it may be unexported
		path := name + "." + v.Type().Field(i).Name
		if field.Kind() == reflect.Struct {
			eachField(field, path, f)
		} else {
			f(path, field)
		}
	}
}

// set gives a field another value than zero.
func set(v reflect.Value) {
	switch v.Interface().(type) {
	case State:
		v.Set(reflect.ValueOf(State(Connecting{})))
		return
	case []string:
		v.Set(reflect.ValueOf([]string{"token"}))
		return
	case time.Duration:
		v.SetInt(int64(time.Minute))
		return
	}
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int:
		v.SetInt(1)
	case reflect.String:
		v.SetString("7")
	case reflect.Interface:
		v.Set(reflect.ValueOf(fmt.Errorf("an error")))
	default:
		panic("a field of a kind that the test does not know: " + v.Kind().String())
	}
}
