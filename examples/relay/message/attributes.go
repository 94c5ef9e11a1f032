package message

import (
	"encoding/json"
	"math"
	"strconv"

	"github.com/gvrwatch/gvrwatch/stream"
)

func (a *attributes) name(name string) {
	*a = append(append(append(*a, `,"`...), name...), `":`...)
}

// text appends an attribute unless it is empty.
func (a *attributes) text(name, value string) {
	if value == "" {
		return
	}
	a.name(name)
	for i := range len(value) {
		if c := value[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			quoted, _ := json.Marshal(value) // never fails; replaces invalid UTF-8
			*a = append(*a, quoted...)
			return
		}
	}
	*a = append(append(append(*a, '"'), value...), '"')
}

// flag appends an attribute if it is true.
func (a *attributes) flag(name string, value bool) {
	if value {
		a.name(name)
		*a = append(*a, "true"...)
	}
}

// integer appends a number or, as CloudEvents has only 32 bits, a string of it.
func (a *attributes) integer(name string, value uint64) {
	if value > math.MaxInt32 {
		a.text(name, strconv.FormatUint(value, 10))
		return
	}
	a.name(name)
	*a = strconv.AppendUint(*a, value, 10)
}

// identity is what identifies an object and its state.
type identity struct {
	Name            string `json:"name"`
	Namespace       string `json:"namespace,omitempty"`
	UID             string `json:"uid"`
	ResourceVersion string `json:"resourceVersion,omitempty"`
}

// object returns an object with nothing else.
func (id identity) object(ev stream.Event) []byte {
	version, kind := ev.Resource.GroupVersionKind().ToAPIVersionAndKind()
	object, _ := json.Marshal(struct { // strings never fail
		APIVersion string   `json:"apiVersion,omitempty"`
		Kind       string   `json:"kind,omitempty"`
		Metadata   identity `json:"metadata"`
	}{version, kind, id})
	return object
}

const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// metadataOf returns an object with apiVersion, kind and those parts of its metadata that are small as a rule.
func metadataOf(object []byte) ([]byte, error) {
	var whole, metadata, annotations map[string]json.RawMessage
	if err := json.Unmarshal(object, &whole); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(whole["metadata"], &metadata); err != nil {
		return nil, err
	}
	delete(metadata, "managedFields")
	if json.Unmarshal(metadata["annotations"], &annotations) == nil && annotations[lastApplied] != nil {
		delete(annotations, lastApplied)
		metadata["annotations"], _ = json.Marshal(annotations)
	}
	small := map[string]any{"metadata": metadata}
	for _, key := range []string{"apiVersion", "kind"} {
		if value, ok := whole[key]; ok {
			small[key] = value
		}
	}
	return json.Marshal(small)
}
