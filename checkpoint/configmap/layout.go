package configmap

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/internal/invalid"
	"github.com/gvrwatch/gvrwatch/internal/size"
)

// Keys of data. A ConfigMap allows 253 characters. A checkpoint's key has at most 200, all of which a ConfigMap allows.
const (
	formatKey        = "format"
	ownerKey         = "owner"
	checkpointPrefix = "checkpoint."
)

// format is the version of the whole ConfigMap; no release had format 1. Unknown fields are refused, so that a new
// field needs a new format.
const format = 2

// owner is the process that claimed the ConfigMap last.
type owner struct {
	ID     string    `json:"id"`
	Holder string    `json:"holder"`
	Since  time.Time `json:"since"`
}

func readOwner(text string) (owner, error) {
	var o owner
	if json.Unmarshal([]byte(text), &o) != nil {
		return owner{}, fmt.Errorf("invalid %s %.100q: must be the JSON of an owner", ownerKey, text)
	}
	return o, nil
}

// saved is the JSON of one key.
type saved struct {
	Identity         checkpoint.Identity `json:"identity"`
	ResourceVersions map[string]string   `json:"resourceVersions"`
	Rewound          bool                `json:"rewound,omitempty"`
	Unclean          bool                `json:"unclean,omitempty"`
	Committed        time.Time           `json:"committed"`
}

// encode returns what is written for a delta.
func encode(d checkpoint.Delta) (string, error) {
	text, err := json.Marshal(saved{
		Identity: d.Identity, ResourceVersions: d.ResourceVersions, Rewound: d.Rewound, Unclean: d.Unclean,
		Committed: time.Now().UTC(),
	})
	return string(text), err
}

// decode is strict, because a person may have edited the text.
func decode(text string) (*checkpoint.Checkpoint, error) {
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	var s saved
	if err := d.Decode(&s); err != nil {
		return nil, fmt.Errorf("invalid JSON: %s", invalid.Printable(err.Error()))
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("invalid JSON: must be one value")
	}
	if s.Identity.Resource == "" || s.Committed.IsZero() {
		return nil, errors.New("the resource or the time of the commit is missing")
	}
	return &checkpoint.Checkpoint{Identity: s.Identity, Committed: s.Committed, Position: checkpoint.Position{
		ResourceVersions: s.ResourceVersions, Partial: true, Rewound: s.Rewound, Unclean: s.Unclean,
	}}, nil
}

// dataOf returns a copy of a ConfigMap's data. (The ConfigMap is unstructured, so that updates preserve unknown
// fields.)
func dataOf(o *unstructured.Unstructured) (map[string]string, error) {
	if size.Of(o.Object) > maxSize {
		return nil, fmt.Errorf("invalid ConfigMap of more than %d bytes: no server keeps one", maxSize)
	}
	data, _, err := unstructured.NestedStringMap(o.Object, "data")
	if err != nil {
		return nil, errors.New("invalid data: must be texts") // err may have all of it
	}
	if data == nil {
		data = map[string]string{}
	}
	return data, nil
}

// maxSize is how much memory a ConfigMap may take. A server keeps less: 1 MiB of data, 256 KiB of annotations, and
// other metadata.
const maxSize = 4 << 20

// check returns an error unless this version can read the ConfigMap, which may be empty.
func check(name string, o *unstructured.Unstructured, data map[string]string) error {
	corrupt := func(err error) error { return &checkpoint.CorruptError{Store: name, Err: err} }
	text, ok := data[formatKey]
	if !ok {
		if binary, _ := o.Object["binaryData"].(map[string]any); len(data) > 0 || len(binary) > 0 {
			return corrupt(errors.New("it has data of something else: use another ConfigMap"))
		}
		return nil
	}
	n, err := strconv.Atoi(text)
	switch {
	case err != nil || n < 1:
		return corrupt(fmt.Errorf("invalid format %.100q: must be a number from 1 on", text))
	case n > format:
		return &checkpoint.CorruptError{Store: name, Newer: true, Err: fmt.Errorf(
			"invalid format %d: must be %d: use the version that wrote the ConfigMap", n, format)}
	case n < format:
		return &checkpoint.CorruptError{Store: name, Older: true, Err: fmt.Errorf(
			"invalid format %d: must be %d: delete its data to start from the beginning, or use another", n, format)}
	}
	if text, ok := data[ownerKey]; ok {
		if _, err := readOwner(text); err != nil {
			return corrupt(err)
		}
	}
	return nil
}

// checkpointsIn returns the encoded checkpoints by key.
func checkpointsIn(data map[string]string) map[string]string {
	texts := map[string]string{}
	for name, text := range data {
		if key, ok := strings.CutPrefix(name, checkpointPrefix); ok {
			texts[key] = text
		}
	}
	return texts
}

// fill sets the checkpoints and the owner in a ConfigMap, and leaves all other data.
func fill(o *unstructured.Unstructured, texts map[string]string, by owner) error {
	data, err := dataOf(o)
	if err != nil {
		return err
	}
	maps.DeleteFunc(data, func(name, _ string) bool { return strings.HasPrefix(name, checkpointPrefix) })
	for key, text := range texts {
		data[checkpointPrefix+key] = text
	}
	claim, err := json.Marshal(by)
	if err != nil {
		return err
	}
	data[formatKey], data[ownerKey] = strconv.Itoa(format), string(claim)
	return unstructured.SetNestedStringMap(o.Object, data, "data")
}
