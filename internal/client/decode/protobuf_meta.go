package decode

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/gvrwatch/gvrwatch/internal/objects"
	"github.com/gvrwatch/gvrwatch/internal/size"
)

// The fields of an ObjectMeta.
const (
	metaName          = 1<<3 | 2
	metaGenerateName  = 2<<3 | 2
	metaNamespace     = 3<<3 | 2
	metaSelfLink      = 4<<3 | 2
	metaUID           = 5<<3 | 2
	metaVersion       = 6<<3 | 2
	metaGeneration    = 7 << 3
	metaCreated       = 8<<3 | 2
	metaDeleted       = 9<<3 | 2
	metaGracePeriod   = 10 << 3
	metaLabels        = 11<<3 | 2
	metaAnnotations   = 12<<3 | 2
	metaOwners        = 13<<3 | 2
	metaFinalizers    = 14<<3 | 2
	metaManagedFields = 17<<3 | 2
)

// metaTexts are the names of the fields 1 to 5.
var metaTexts = [...]string{1: "name", "generateName", "namespace", "selfLink", "uid"}

// objectMeta has the fields of an ObjectMeta that are present. Those that are lists or maps are not decoded.
type objectMeta struct {
	bytes             [10][]byte // of the fields 1 to 9, empty ones too
	generation, grace int64
	repeated          [4]repeated // labels, annotations, owners and finalizers: the fields from 11 on
	present           uint32      // a bit for each field but managedFields
	keys              int         // of the map
}

// repeated are the fields of one number in a message.
type repeated struct{ first, count int }

// read returns false if the message is unusual.
func (m *objectMeta) read(b []byte) bool {
	for i := 0; i < len(b); {
		tag, value, content, end := nextField(b, i)
		if end < 0 {
			return false
		}
		bit := uint32(1) << (tag >> 3)
		again, key := m.present&bit != 0, false
		switch tag {
		case metaName, metaGenerateName, metaNamespace, metaSelfLink, metaUID, metaVersion, metaCreated:
			m.bytes[tag>>3], key = content, len(content) > 0
		case metaDeleted:
			m.bytes[tag>>3], key = content, true
		case metaGeneration:
			m.generation, key = int64(value), value != 0
		case metaGracePeriod:
			m.grace, key = int64(value), true
		case metaLabels, metaAnnotations, metaOwners, metaFinalizers:
			r := &m.repeated[tag>>3-metaLabels>>3]
			if !again {
				r.first, key = i, true
			}
			r.count++
			again = false
		case metaManagedFields:
			i = end
			continue
		default:
			return false
		}
		if again || tag == metaDeleted && len(content) == 0 { // the latter is null in JSON
			return false
		}
		if m.present |= bit; key {
			m.keys++
		}
		i = end
	}
	return true
}

// metadataParser decodes objects with an ObjectMeta.
type metadataParser struct{ parser *parser }

// metadata returns the map of an ObjectMeta, or nil if that is declined, and the identity.
func (p metadataParser) metadata(b []byte) (map[string]any, objects.Version) {
	var m objectMeta
	if !m.read(b) || p.parser.in.take(size.Map(m.keys), 0) < 0 {
		return nil, objects.Version{}
	}
	out := newMap(m.keys)
	var texts [metaVersion >> 3]string
	for i := 1; i < metaVersion>>3; i++ {
		if text := m.bytes[i]; len(text) > 0 {
			v := p.boxed(text)
			out[metaTexts[i]] = v
			texts[i] = v.(string)
		}
	}
	uid := types.UID(texts[metaUID>>3])
	id := objects.Version{ID: objects.ID{Namespace: texts[metaNamespace>>3], Name: texts[metaName>>3], UID: uid}}
	if version := m.bytes[metaVersion>>3]; len(version) > 0 {
		id.ResourceVersion = p.parser.own.copy(version) // never twice
		out["resourceVersion"] = id.ResourceVersion
	}
	if m.generation != 0 {
		out["generation"] = m.generation
	}
	if created := m.bytes[metaCreated>>3]; len(created) > 0 {
		out["creationTimestamp"] = p.time(created)
	}
	if deleted := m.bytes[metaDeleted>>3]; len(deleted) > 0 {
		out["deletionTimestamp"] = p.time(deleted)
	}
	if m.present&(1<<(metaGracePeriod>>3)) != 0 {
		out["deletionGracePeriodSeconds"] = m.grace
	}
	if r := m.repeated[0]; r.count > 0 {
		out["labels"] = p.texts(b, r, metaLabels)
	}
	if r := m.repeated[1]; r.count > 0 {
		out["annotations"] = p.texts(b, r, metaAnnotations)
	}
	if r := m.repeated[2]; r.count > 0 {
		out["ownerReferences"] = p.owners(b, r)
	}
	if r := m.repeated[3]; r.count > 0 {
		out["finalizers"] = p.finalizers(b, r)
	}
	if p.parser.in.err != nil {
		return nil, objects.Version{}
	}
	return out, id
}

// boxed returns a text as an interface value. In the table of a Protobuf all texts are plain: it decodes no JSON.
func (p metadataParser) boxed(text []byte) any {
	if found := p.parser.table.plain(text, nothing); found != nothing {
		return p.parser.table.entries[found].boxed
	}
	return p.parser.own.copy(text)
}

func (p metadataParser) text(text []byte) string {
	if found := p.parser.table.plain(text, nothing); found != nothing {
		return p.parser.table.entries[found].text
	}
	return p.parser.own.copy(text)
}

// maxSeconds is the last second of the year 9999.
const maxSeconds = 253402300799

// time returns what JSON has for a Time. The table has those that recur, under their bytes.
func (p metadataParser) time(b []byte) any {
	t := &p.parser.table
	found, place := t.find(b, numberText, nothing)
	if found != nothing {
		return t.entries[found].boxed
	}
	tag, seconds, _, end := nextField(b, 0)
	if end >= 0 && end < len(b) { // nanoseconds, which apimachinery ignores
		if tag, _, _, nanos := nextField(b, end); tag != 2<<3 {
			end = -1
		} else {
			end = nanos
		}
	}
	if tag != 1<<3 || end != len(b) || seconds > maxSeconds {
		p.parser.in.fail(ErrDeclined)
		return nil
	}
	const day = 24 * 60 * 60
	at := time.Date(1970, 1, 1+int(seconds/day), 0, 0, int(seconds%day), 0, time.UTC)
	var text [len(time.RFC3339)]byte
	v := any(string(at.AppendFormat(text[:0], time.RFC3339)))
	if place != nil {
		t.set(place, string(b), numberText, v)
	}
	return v
}

// texts returns the map of labels or annotations.
func (p metadataParser) texts(b []byte, r repeated, tag uint64) map[string]any {
	if p.parser.in.take(size.Map(r.count), 0) < 0 {
		return nil
	}
	m := newMap(r.count)
	for i := r.first; r.count > 0; {
		t, _, content, end := nextField(b, i)
		if i = end; t != tag {
			continue
		}
		r.count--
		key, value, ok := pair(content, 1<<3|2, 2<<3|2)
		if !ok {
			p.parser.in.fail(ErrDeclined)
			return nil
		}
		m[p.text(key)] = p.boxed(value)
	}
	return m
}

func (p metadataParser) finalizers(b []byte, r repeated) []any {
	if p.parser.in.take(size.List(r.count), 0) < 0 {
		return nil
	}
	l := make([]any, 0, r.count)
	for i := r.first; len(l) < r.count; {
		tag, _, content, end := nextField(b, i)
		if i = end; tag == metaFinalizers {
			l = append(l, p.boxed(content))
		}
	}
	return l
}

func (p metadataParser) owners(b []byte, r repeated) []any {
	if p.parser.in.take(size.List(r.count)+int64(r.count)*size.Map(6), 0) < 0 {
		return nil
	}
	l := make([]any, 0, r.count)
	for i := r.first; len(l) < r.count; {
		tag, _, content, end := nextField(b, i)
		if i = end; tag != metaOwners {
			continue
		}
		m := p.owner(content)
		if m == nil {
			p.parser.in.fail(ErrDeclined)
			return nil
		}
		l = append(l, m)
	}
	return l
}

// ownerTexts are the names of the fields that are texts.
var ownerTexts = [...]string{1: "kind", 3: "name", 4: "uid", 5: "apiVersion"}

// owner returns an owner reference, or nil if it is unusual.
func (p metadataParser) owner(b []byte) map[string]any {
	m, n := map[string]any{}, 0
	for i := 0; i < len(b); n++ {
		tag, value, content, end := nextField(b, i)
		switch i = end; {
		case end < 0:
			return nil
		case tag == 6<<3:
			m["controller"] = value != 0
		case tag == 7<<3:
			m["blockOwnerDeletion"] = value != 0
		case tag&7 == 2 && tag>>3 < uint64(len(ownerTexts)) && ownerTexts[tag>>3] != "":
			m[ownerTexts[tag>>3]] = p.boxed(content)
		default:
			return nil
		}
	}
	if len(m) < n || m["kind"] == nil || m["name"] == nil || m["uid"] == nil || m["apiVersion"] == nil {
		return nil // a field is missing, or there is another one of its number
	}
	return m
}
