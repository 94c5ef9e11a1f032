package message

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/gvrwatch/gvrwatch/examples/relay/engine"
)

// Event is a CloudEvent of the relay.
type Event struct {
	ID     string
	Source string // "/clusters/NAME/RESOURCE.GROUP", escaped as a path
	Type   engine.Type
	Time   time.Time // when the relay encoded it
	// Epoch is that of the position of the unit.
	Epoch uint64
	// ResourceVersion is that of the object, or of the snapshot for Synced. It may be empty.
	ResourceVersion string
	Namespace       string          // of a Gap or Synced that is about one namespace only
	Gap             *Gap            // set only when Type is Gap
	Skipped         *Skipped        // set only when Type is Skipped
	Object          *Object         // nil when Type is Gap, Synced or Skipped
	Data            json.RawMessage // of the object
}

// Object is what an Event says about its object.
type Object struct {
	Subject string // "namespace/name" or "name"
	UID     string
	// Inferred means that the event comes from a comparison: see stream.Event.
	Inferred bool
	// Coalesced is the number of other events of the object that this one stands for.
	Coalesced int
	Truncated *Truncation // nil if Data is all of the object
}

// Gap says what is lost. See stream.GapDetails.
type Gap struct {
	Reason, From, To string
	HistoryLost      bool
}

// Skipped says which event of which object is not in the log, because the engine can't take it: until a later event of
// the object is published, the log has an older state of it, or none.
type Skipped struct {
	Type         engine.Type
	Reason       string
	Subject, UID string // as in Object, but only the beginning of long ones
}

// Truncation says that Data has at most metadata, because the object is too large, cannot be redacted, or is no JSON:
// its brackets do not match, or something follows it.
type Truncation struct {
	// Bytes is the length of the JSON that was left out, after redaction, and SHA256 its hash in hexadecimal digits.
	// Both are empty if RedactionFailed.
	Bytes           int
	SHA256          string
	RedactionFailed bool
}

// number is an integer attribute: a number, or a string of one.
type number uint64

func (n *number) UnmarshalJSON(text []byte) error {
	if len(text) > 1 && text[0] == '"' {
		text = bytes.Trim(text, `"`)
	}
	v, err := strconv.ParseUint(string(text), 10, 63)
	*n = number(v)
	return err
}

type common struct {
	SpecVersion string    `json:"specversion"`
	ID          string    `json:"id"`
	Source      string    `json:"source"`
	Type        string    `json:"type"`
	Time        time.Time `json:"time"`
	Epoch       number    `json:"epoch"`
	Version     string    `json:"resourceversion"`
}

type aboutMark struct {
	Namespace   string `json:"namespace"`
	GapReason   string `json:"gapreason"`
	GapFrom     string `json:"gapfrom"`
	GapTo       string `json:"gapto"`
	HistoryLost bool   `json:"historylost"`
}

type aboutSkipped struct {
	SkippedType    string `json:"skippedtype"`
	SkippedSubject string `json:"skippedsubject"`
	SkippedUID     string `json:"skippeduid"`
	SkippedReason  string `json:"skippedreason"`
}

type aboutObject struct {
	Subject     string          `json:"subject"`
	UID         string          `json:"uid"`
	Inferred    bool            `json:"inferred"`
	Coalesced   number          `json:"coalesced"`
	ContentType string          `json:"datacontenttype"`
	Data        json.RawMessage `json:"data"`
}

type aboutCut struct {
	Truncated       bool   `json:"truncated"`
	ObjectBytes     number `json:"objectbytes"`
	ObjectSHA256    string `json:"objectsha256"`
	RedactionFailed bool   `json:"redactionfailed"`
}

// cloudEvent has the attributes of a CloudEvent of the relay.
type cloudEvent struct {
	common       // embedded, as the next four: JSON has their fields side by side
	aboutMark    // see common
	aboutSkipped // see common
	aboutObject  // see common
	aboutCut     // see common
}

var errNotOurs = errors.New("decode a message: invalid CloudEvent: must be JSON with the relay's attributes")

// Decode decodes Message.Data. It ignores unknown attributes.
func Decode(data []byte) (Event, error) {
	var in cloudEvent
	if json.Unmarshal(data, &in) != nil { // its error may quote the object
		return Event{}, errNotOurs
	}
	kind, ours := strings.CutPrefix(in.Type, typePrefix)
	switch {
	case in.SpecVersion != "1.0":
		return Event{}, fmt.Errorf("decode a message: invalid specversion %q: must be 1.0", in.SpecVersion)
	case in.ID == "" || in.Source == "":
		return Event{}, errors.New("decode a message: invalid id or source: must not be empty")
	case !ours:
		return Event{}, fmt.Errorf("decode a message: invalid type %q: must begin with %s", in.Type, typePrefix)
	}
	ev := Event{ID: in.ID, Source: in.Source, Type: engine.Type(kind), Time: in.Time, Epoch: uint64(in.Epoch),
		ResourceVersion: in.Version}
	switch ev.Type {
	case engine.Gap:
		ev.Gap = &Gap{in.GapReason, in.GapFrom, in.GapTo, in.HistoryLost}
		ev.Namespace = in.Namespace
	case engine.Synced:
		ev.Namespace = in.Namespace
	case engine.Skipped:
		ev.Skipped = &Skipped{engine.Type(in.SkippedType), in.SkippedReason, in.SkippedSubject, in.SkippedUID}
	case engine.Added, engine.Modified, engine.Deleted:
		if in.UID == "" || in.ContentType != contentType || len(in.Data) == 0 || in.Data[0] != '{' {
			return Event{}, errNotOurs
		}
		ev.Data = in.Data
		ev.Object = &Object{Subject: in.Subject, UID: in.UID, Inferred: in.Inferred, Coalesced: int(in.Coalesced)}
		if in.Truncated {
			ev.Object.Truncated = &Truncation{int(in.ObjectBytes), in.ObjectSHA256, in.RedactionFailed}
		}
	default:
		return Event{}, fmt.Errorf("decode a message: invalid type %q: must be one of the relay", in.Type)
	}
	return ev, nil
}
