package decode

import (
	"k8s.io/apimachinery/pkg/watch"

	"github.com/gvrwatch/gvrwatch/internal/objects"
)

// Event is an event of a watch.
type Event struct {
	Type    watch.EventType // ADDED, MODIFIED, DELETED or BOOKMARK
	Object  map[string]any
	Memory  int64           // about how much Object takes, without its strings
	Version objects.Version // of an Object from protobuf
}

// Event decodes the event that data begins with, and returns its length. A bookmark keeps its managedFields.
func (d *Decoder) Event(data []byte) (ev Event, i int, err error) {
	p := d.parser
	p.in.begin(data)
	if ev.Type, i = p.in.envelope(); i >= 0 {
		drop := p.drop
		if ev.Type == watch.Bookmark {
			drop = nil
		}
		ev.Object, i = p.object(i, drop, root)
	}
	if i >= 0 {
		i = p.in.endOfEvent(i)
	}
	if i >= 0 && !p.isUnstructured(ev.Object) {
		i = p.in.fail(ErrDeclined)
	}
	ev.Memory = p.in.memory
	return ev, i, p.end(i)
}

// envelope returns the type of the event, and where its object begins. It declines an event with the object first.
func (in *input) envelope() (watch.EventType, int) {
	i := in.open(in.space(0), '{')
	if i < 0 {
		return "", i
	}
	in.depth--
	if i = in.expectKey(i, `"type"`); i < 0 {
		return "", i
	}
	kind, i := in.eventType(i)
	if i < 0 {
		return "", i
	}
	i, more := in.more(i, '}')
	if i >= 0 && !more {
		i = in.fail(ErrDeclined)
	}
	if i < 0 {
		return "", i
	}
	return kind, in.expectKey(i, `"object"`)
}

// expectKey returns where the value of the key begins, which must be at i.
func (in *input) expectKey(i int, key string) int {
	if i = in.literal(i, key); i < 0 {
		return i
	}
	return in.colon(i)
}

func (in *input) eventType(i int) (watch.EventType, int) {
	for _, t := range [...]struct {
		kind  watch.EventType
		token string
	}{
		{watch.Modified, `"MODIFIED"`}, {watch.Added, `"ADDED"`},
		{watch.Deleted, `"DELETED"`}, {watch.Bookmark, `"BOOKMARK"`},
	} {
		if end := i + len(t.token); end <= len(in.data) && string(in.data[i:end]) == t.token {
			return t.kind, end
		}
	}
	if i < len(in.data) && in.data[i] == '"' {
		if end, _ := in.quoted(i + 1); end < 0 {
			return "", end
		}
	}
	return "", in.unexpected(i)
}

// endOfEvent returns where an event ends. Its object ends at i.
func (in *input) endOfEvent(i int) int {
	i, more := in.more(i, '}')
	if i >= 0 && more {
		return in.fail(ErrDeclined)
	}
	return i
}

// Frame finds the ends of frames by counting brackets. A frame is a JSON value, with white space between frames. Frame
// reads each byte once, as the bytes arrive, and is always right if they are JSON.
type Frame struct {
	depth   int
	text    bool // within a string
	escaped bool // within a string, after a backslash
	begun   bool
}

// Begun reports whether the frame has begun: whether there was anything but white space.
func (f *Frame) Begun() bool { return f.begun }

// Reset prepares for the next frame.
func (f *Frame) Reset() { *f = Frame{} }

// End returns where the frame ends in data, and prepares for the next frame. If the frame does not end in data, End
// returns a negative number, and the next data must be what follows.
func (f *Frame) End(data []byte) int {
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case f.escaped:
			f.escaped = false
		case f.text && c == '\\':
			f.escaped = true
		case f.text && c == '"':
			f.text = false
		case f.text:
			for i+1 < len(data) && data[i+1] != '"' && data[i+1] != '\\' {
				i++ // most bytes are in strings
			}
		case c == '"':
			f.text, f.begun = true, true
		case c == '{' || c == '[':
			f.depth++
			f.begun = true
		case c == '}' || c == ']':
			f.depth--
			f.begun = true
		case c > ' ':
			f.begun = true
			continue // within a literal, or a list
		case !f.begun:
			continue
		}
		if f.begun && f.depth <= 0 && !f.text {
			*f = Frame{}
			return i + 1
		}
	}
	return -1
}
