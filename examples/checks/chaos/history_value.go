package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

var (
	errEncrypted = errors.New("it is encrypted")
	errNoObject  = errors.New("it is no object with a uid")
)

// protobufMagic is how an API server marks values in protobuf; encryptedMagic those that it has encrypted.
const protobufMagic, encryptedMagic = "k8s\x00", "k8s:enc:"

// stored is what a history needs of an object.
type stored struct {
	kind            schema.GroupVersionKind
	namespace, name string
	uid             types.UID
	labels          map[string]string
}

// decodeStored reads a value as API servers write it: JSON for custom resources, protobuf for others, whose first field
// is the metadata in all of them.
func decodeStored(value []byte) (*stored, error) {
	var o metav1.PartialObjectMetadata
	switch {
	case bytes.HasPrefix(value, []byte(encryptedMagic)):
		return nil, errEncrypted
	case bytes.HasPrefix(value, []byte(protobufMagic)):
		var u runtime.Unknown
		if err := u.Unmarshal(value[len(protobufMagic):]); err != nil {
			return nil, fmt.Errorf("decode protobuf: %w", err)
		}
		if err := o.Unmarshal(u.Raw); err != nil {
			return nil, fmt.Errorf("decode the metadata of a %s: %w", u.Kind, err)
		}
		o.APIVersion, o.Kind = u.APIVersion, u.Kind
	case bytes.HasPrefix(bytes.TrimSpace(value), []byte("{")):
		if err := json.Unmarshal(value, &o); err != nil {
			return nil, fmt.Errorf("decode JSON: %w", err)
		}
	}
	if o.UID == "" || o.Kind == "" {
		return nil, errNoObject
	}
	return &stored{o.GroupVersionKind(), o.Namespace, o.Name, o.UID, o.Labels}, nil
}

// resourceAt returns the resource of an object at a key. Keys of custom resources have it (/GROUP/RESOURCE/); that of
// others is guessed from the kind.
func resourceAt(key string, kind schema.GroupVersionKind) string {
	parts := strings.Split(key, "/")
	for i, part := range parts {
		if part == kind.Group && strings.Contains(part, ".") && i+2 < len(parts) {
			return schema.GroupResource{Group: part, Resource: parts[i+1]}.String()
		}
	}
	plural, _ := meta.UnsafeGuessKindToResource(kind)
	return plural.GroupResource().String()
}
