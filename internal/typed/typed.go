// Package typed decodes objects into Go types, for stream.As and store.As. It knows neither events nor Stores, and
// describes no errors: who calls it knows which object it was.
package typed

import (
	"bytes"
	"encoding/json"
	"errors"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

var errNull = errors.New("it is null") // json would make a nil pointer of it, and report nothing

// Decode decodes the JSON of an object. Names of fields are case-sensitive. The value shares no memory with the JSON.
// An error may quote the object.
func Decode[T any](object []byte) (T, error) {
	var value, none T
	if bytes.Equal(bytes.TrimSpace(object), []byte("null")) {
		return none, errNull
	}
	if err := utiljson.Unmarshal(object, &value); err != nil {
		return none, err
	}
	return value, nil
}

// Convert does the same with a decoded object. It goes through JSON, because apimachinery's
// runtime.DefaultUnstructuredConverter cuts numbers that do not fit, where JSON is an error, and shares maps.
func Convert[T any](object *unstructured.Unstructured) (T, error) {
	text, err := json.Marshal(object.Object)
	if err != nil {
		var none T
		return none, err
	}
	return Decode[T](text)
}
