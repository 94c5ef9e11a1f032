// Package message encodes events as CloudEvents 1.0 in structured JSON, decodes them, and redacts objects. It does no
// I/O.
//
// MESSAGES.md lists the attributes of an event, and the forms of its id. The id is the same after a restart.
//
// What identifies an object (its namespace, name, uid and resourceVersion) is in attributes, and is not redacted there.
package message

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/gvrwatch/gvrwatch/examples/relay/engine"
	"github.com/gvrwatch/gvrwatch/internal/client/decode"
	"github.com/gvrwatch/gvrwatch/stream"
)

// EncoderOptions say which cluster the events are from.
type EncoderOptions struct {
	Cluster string // its name, in source
	// ClusterUID identifies the cluster in the ids of events, also when its name changes.
	ClusterUID string
	// Limit returns the most bytes of Message.Data. Nil means no limit.
	Limit func() int
}

// Encoder encodes the events of a cluster. Its methods may be called from any goroutine.
type Encoder struct{ options EncoderOptions }

// NewEncoder returns an Encoder.
func NewEncoder(options EncoderOptions) *Encoder { return &Encoder{options} }

var types = map[stream.Type]engine.Type{
	stream.Added: engine.Added, stream.Modified: engine.Modified, stream.Deleted: engine.Deleted,
	stream.Gap: engine.Gap, stream.Synced: engine.Synced,
}

// Encode returns the message of an event. Of the JSON of an object only the brackets are checked: where it is invalid,
// so is the message.
//
// An object that exceeds the limit is reduced to its metadata, without managedFields and the annotation of kubectl
// apply, or if that exceeds it, too, to what identifies it; that is returned even if it is larger than the limit. An
// object that cannot be redacted is reduced to what identifies it. So is JSON that is more or less than an object: what
// a server sends after it would become attributes of the message. See [Truncation].
//
// It is an error if the event is a BOOKMARK, or is about an object without a uid.
func (e *Encoder) Encode(u engine.Unit, ev stream.Event, epoch uint64, r *Redaction) (engine.Message, error) {
	m := engine.Message{Unit: u, Type: types[ev.Type], ResourceVersion: ev.ResourceVersion}
	var err error
	switch {
	case m.Type == "":
		err = fmt.Errorf("invalid type %q: must be ADDED, MODIFIED, DELETED, GAP or SYNCED", ev.Type)
	case m.Type == engine.Gap && ev.Gap == nil:
		err = errors.New("the GAP has no details")
	case m.Type == engine.Gap || m.Type == engine.Synced:
		e.encodeMark(&m, ev, epoch)
	default:
		err = e.encodeObject(&m, ev, epoch, r)
	}
	if err != nil {
		return engine.Message{}, fmt.Errorf("encode an event of %s: %w", u, err)
	}
	return m, nil
}

// EncodeSkipped returns a message that stands for ev, which the engine can't take for a reason. It has the beginnings
// of what identifies the object.
func (e *Encoder) EncodeSkipped(u engine.Unit, ev stream.Event, epoch uint64, reason error) engine.Message {
	meta := ev.Meta()
	id := identity{meta.GetName(), meta.GetNamespace(), string(meta.GetUID()), ev.ResourceVersion}
	text, _ := json.Marshal(id) // strings never fail
	sum := sha256.Sum256(append(text, ev.Type...))
	m := engine.Message{Unit: u, Type: engine.Skipped}
	m.ID = e.prefix(u) + "-@" + hex.EncodeToString(sum[:16]) + "/" + string(m.Type)
	subject := id.Name
	if id.Namespace != "" && id.Name != "" {
		subject = id.Namespace + "/" + id.Name
	}
	a := e.attributes(&m, "", 0)
	a.integer("epoch", epoch)
	a.text("skippedtype", string(types[ev.Type]))
	a.text("skippedsubject", short(subject))
	a.text("skippeduid", short(id.UID))
	a.text("skippedreason", short(reason.Error()))
	m.Data = append(a, '}')
	return m
}

// longest is how many bytes a version in a GAP or SYNCED, and a text about what was skipped, may have. So the engine
// can take these messages, whatever a server sends.
const longest = 256

// short returns the beginning of a text that others have chosen.
func short(s string) string {
	if len(s) <= longest {
		return s
	}
	return strings.ToValidUTF8(s[:longest], "") + "..."
}

// encodeMark encodes a GAP or SYNCED. A version that no API server of Kubernetes has, because it is too long, is cut in
// a GAP, and left out of a SYNCED.
func (e *Encoder) encodeMark(m *engine.Message, ev stream.Event, epoch uint64) {
	namespace := m.Unit.Namespace
	if namespace == "" {
		namespace = ev.Namespace // of a unit that watches several
	}
	if len(m.ResourceVersion) > longest {
		m.ResourceVersion = ""
	}
	about := url.PathEscape(m.ResourceVersion)
	if g := ev.Gap; g != nil {
		about = url.PathEscape(short(g.From)) + ".." + url.PathEscape(short(g.To))
	}
	m.ID = e.prefix(m.Unit)
	if namespace != "" {
		m.ID += url.PathEscape(namespace) + "/"
	}
	m.ID += "-@" + about + "/" + string(m.Type)
	a := e.attributes(m, "", 0)
	a.text("namespace", namespace)
	a.text("resourceversion", m.ResourceVersion)
	a.integer("epoch", epoch)
	if g := ev.Gap; g != nil {
		a.text("gapreason", string(g.Reason))
		a.text("gapfrom", short(g.From))
		a.text("gapto", short(g.To))
		a.flag("historylost", g.HistoryLost)
	}
	m.Data = append(a, '}')
}

func (e *Encoder) encodeObject(m *engine.Message, ev stream.Event, epoch uint64, r *Redaction) (err error) {
	meta := ev.Meta()
	id := identity{meta.GetName(), meta.GetNamespace(), string(meta.GetUID()), m.ResourceVersion}
	if id.UID == "" {
		return errors.New("the object has no uid")
	}
	object := []byte(ev.JSON)
	if ev.Object != nil {
		if object, err = json.Marshal(ev.Object.Object); err != nil {
			return errors.New("the object cannot be encoded") // the error might quote it
		}
	}
	var cut *Truncation
	if object, err = r.apply(object); err != nil {
		object, cut = id.object(ev), &Truncation{RedactionFailed: true}
	}
	m.Unit.Namespace, m.Name, m.UID = id.Namespace, id.Name, id.UID
	m.ID = e.prefix(m.Unit) + url.PathEscape(m.UID) + "@" + url.PathEscape(m.ResourceVersion) + "/" + string(m.Type)
	subject := m.Name
	if id.Namespace != "" && m.Name != "" {
		subject = id.Namespace + "/" + m.Name
	}
	a := e.attributes(m, subject, len(object))
	a.text("datacontenttype", contentType)
	a.text("uid", m.UID)
	a.text("resourceversion", m.ResourceVersion)
	a.flag("inferred", ev.Inferred)
	if n := ev.Coalesced(); n > 0 {
		a.integer("coalesced", uint64(n))
	}
	a.integer("epoch", epoch)
	if m.Data = a.withData(cut, object); cut != nil || e.fits(m.Data) && decode.IsWhole(object) {
		return nil
	}
	sum := sha256.Sum256(object)
	cut = &Truncation{Bytes: len(object), SHA256: hex.EncodeToString(sum[:])}
	a = append(attributes(nil), a...) // not the memory of the whole object
	if small, err := metadataOf(object); err == nil {
		if m.Data = a.withData(cut, small); e.fits(m.Data) {
			return nil
		}
	}
	m.Data = a.withData(cut, id.object(ev))
	return nil
}

func (e *Encoder) fits(data []byte) bool {
	return e.options.Limit == nil || len(data) <= e.options.Limit()
}

// prefix returns the part of an id that is that of the resource. It and what follows are escaped so that an id can be
// in a header.
func (e *Encoder) prefix(u engine.Unit) string {
	return url.PathEscape(e.options.ClusterUID) + "/" + url.PathEscape(resourceOf(u)) + "/"
}

func resourceOf(u engine.Unit) string {
	if u.Group == "" {
		return u.Resource
	}
	return u.Resource + "." + u.Group
}

const (
	contentType = "application/json"
	typePrefix  = "io.gvrwatch."
)

// attributes is the JSON of an event up to its last attribute.
type attributes []byte

// attributes returns those that all events have. It has room for data.
func (e *Encoder) attributes(m *engine.Message, subject string, data int) attributes {
	a := make(attributes, 0, 512+len(m.ID)+len(subject)+data)
	a = append(a, `{"specversion":"1.0"`...)
	a.text("id", m.ID)
	a.text("source", "/clusters/"+url.PathEscape(e.options.Cluster)+"/"+url.PathEscape(resourceOf(m.Unit)))
	a.text("type", typePrefix+string(m.Type))
	a.text("subject", subject)
	a = append(a, `,"time":"`...)
	a = time.Now().UTC().AppendFormat(a, time.RFC3339Nano)
	return append(a, '"')
}

// withData returns the event.
func (a attributes) withData(cut *Truncation, data []byte) []byte {
	if cut != nil {
		a.flag("truncated", true)
		if cut.Bytes > 0 {
			a.integer("objectbytes", uint64(cut.Bytes))
		}
		a.text("objectsha256", cut.SHA256)
		a.flag("redactionfailed", cut.RedactionFailed)
	}
	a = append(a, `,"data":`...)
	return append(append(a, data...), '}')
}
