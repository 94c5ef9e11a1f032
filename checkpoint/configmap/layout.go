package configmap

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/gvrwatch/gvrwatch/checkpoint"
)

// The keys of data and binaryData. The prefixes keep those of one checkpoint from
// being another's, or one of the first two: checkpoint keys have no more than 200
// of the characters that are allowed here, and 253 of them are.
const (
	formatKey        = "format"
	ownerKey         = "owner"
	checkpointPrefix = "checkpoint."
	indexPrefix      = "index."
)

// format is that of the whole ConfigMap.
const format = 1

// owner is who claimed the ConfigMap last.
type owner struct {
	ID     string    `json:"id"`
	Holder string    `json:"holder"`
	Since  time.Time `json:"since"`
}

func (o owner) text() string {
	text, err := json.Marshal(o)
	if err != nil {
		panic(err) // only a time after the year 9999
	}
	return string(text)
}

func (o owner) name() string {
	if o.Holder != "" {
		return o.Holder
	}
	return "an unknown owner"
}

func readOwner(text string) (owner, error) {
	var o owner
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return owner{}, fmt.Errorf("%s is not JSON as it should be: %w", ownerKey, err)
	}
	return o, nil
}

// checkFormat says whether what is in a ConfigMap can be read by this version. An
// empty one can.
func checkFormat(store string, c content) error {
	text, ok := c.data[formatKey]
	if !ok {
		if len(c.data) == 0 && len(c.binary) == 0 {
			return nil
		}
		return &checkpoint.CorruptError{Store: store, Err: errors.New("it holds something else, and has no format")}
	}
	n, err := strconv.Atoi(text)
	switch {
	case err != nil || n < 1:
		return &checkpoint.CorruptError{Store: store, Err: fmt.Errorf("its format is %q, not a number from 1 on", text)}
	case n > format:
		return &checkpoint.FormatError{Store: store, Format: n, Known: format}
	}
	return nil
}

// saved is the JSON of a key, in which the bytes of Checkpoint are under Sum, and
// with them the index and the key.
type saved struct {
	Sum        string          `json:"sum"`
	Checkpoint json.RawMessage `json:"checkpoint"`
}

type savedCheckpoint struct {
	Identity         checkpoint.Identity `json:"identity"`
	ResourceVersions map[string]string   `json:"resourceVersions"`
	Partial          bool                `json:"partial,omitempty"`
	Rewound          bool                `json:"rewound,omitempty"`
	Unclean          bool                `json:"unclean,omitempty"`
	Committed        time.Time           `json:"committed"`
	Objects          int                 `json:"objects"`
	LeftOut          bool                `json:"leftOut,omitempty"` // the index
}

func sum(key string, text, index []byte) string {
	h := sha256.New()
	fmt.Fprintf(h, "%s\n%d\n", key, len(text))
	h.Write(text)
	h.Write(index)
	return hex.EncodeToString(h.Sum(nil))
}

// write returns what is kept under checkpoint.KEY.
func (c savedCheckpoint) write(key string, index []byte) (string, error) {
	text, err := json.Marshal(c)
	if err != nil {
		return "", err
	}
	whole, err := json.Marshal(saved{Sum: sum(key, text, index), Checkpoint: text})
	return string(whole), err
}

// readEntry reads what is kept under a key. Without text there must be no index.
func readEntry(key, text string, index []byte) (*entry, error) {
	if text == "" {
		return nil, fmt.Errorf("%s%s is missing, or empty", checkpointPrefix, key)
	}
	var s saved
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return nil, fmt.Errorf("%s%s is not JSON as it should be: %w", checkpointPrefix, key, err)
	}
	if sum(key, s.Checkpoint, index) != s.Sum {
		return nil, fmt.Errorf("%s%s and %s%s don't have their checksum", checkpointPrefix, key, indexPrefix, key)
	}
	var c savedCheckpoint
	if err := json.Unmarshal(s.Checkpoint, &c); err != nil {
		return nil, fmt.Errorf("%s%s is not JSON as it should be: %w", checkpointPrefix, key, err)
	}
	e := &entry{
		identity: c.Identity, versions: c.ResourceVersions, partial: c.Partial, rewound: c.Rewound, unclean: c.Unclean, committed: c.Committed,
	}
	if c.LeftOut {
		e.partial = true
		return e, nil
	}
	objects, err := unpack(index, c.Objects)
	if err != nil {
		return nil, fmt.Errorf("%s%s: %w", indexPrefix, key, err)
	}
	e.objects, e.index = objects, index
	return e, nil
}
