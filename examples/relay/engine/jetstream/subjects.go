package jetstream

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/gvrwatch/gvrwatch/examples/relay/engine"
)

const (
	coreGroup   = "core"
	noNamespace = "-"
	// No escape is one of these.
	noObject = "="
	skipped  = "=skipped"
)

// escape makes a token of a subject.
func escape(s string) string {
	var b strings.Builder
	for _, c := range []byte(s) {
		switch {
		case c == '.':
			b.WriteByte('_')
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-':
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "=%02X", c)
		}
	}
	return b.String()
}

func unescape(token string) (string, error) {
	var b strings.Builder
	for i := 0; i < len(token); i++ {
		switch token[i] {
		case '_':
			b.WriteByte('.')
		case '=':
			if i+2 >= len(token) {
				return "", fmt.Errorf("invalid token %q: must have two digits after =", token)
			}
			c, err := strconv.ParseUint(token[i+1:i+3], 16, 8)
			if err != nil {
				return "", fmt.Errorf("invalid token %q: must have two digits after =", token)
			}
			b.WriteByte(byte(c))
			i += 2
		default:
			b.WriteByte(token[i])
		}
	}
	return b.String(), nil
}

// or returns s, or what stands for an empty s.
func or(s, empty string) string {
	if s == "" {
		return empty
	}
	return s
}

// resourceSubject returns the tokens of a unit's resource.
func resourceSubject(u engine.Unit) string {
	return escape(u.Cluster) + "." + or(escape(u.Group), coreGroup) + "." + escape(u.Resource)
}

// subjects are those of the messages and positions in a stream.
type subjects struct{ prefix string }

func (s subjects) position(u engine.Unit) string {
	return s.prefix + "-position." + resourceSubject(u) + "." + or(escape(u.Namespace), noNamespace)
}

func (s subjects) message(m *engine.Message) string {
	object := or(escape(m.UID), noObject)
	if m.Type == engine.Skipped {
		object = skipped // of which there may be many: they must not drive out GAP and SYNCED
	}
	return s.prefix + "." + resourceSubject(m.Unit) + "." + or(escape(m.Unit.Namespace), noNamespace) + "." + object
}

// positions matches the positions of a resource's units, or all if it is zero.
func (s subjects) positions(r engine.Unit) string {
	if r.Resource == "" {
		return s.prefix + "-position.*.*.*.*"
	}
	return s.prefix + "-position." + resourceSubject(r) + ".*"
}

// messages matches all messages.
func (s subjects) messages() string { return s.prefix + ".*.*.*.*.*" }

// stream are the subjects of the stream. Others may publish to those that neither messages nor positions matches.
func (s subjects) stream() []string { return []string{s.prefix + ".>", s.prefix + "-position.>"} }

// messagesOf matches the messages of a unit, of all namespaces if it has none.
func (s subjects) messagesOf(u engine.Unit) string {
	return s.prefix + "." + resourceSubject(u) + "." + or(escape(u.Namespace), "*") + ".*"
}

// parse returns the unit of a subject, and the uid of its object if it has one.
func (s subjects) parse(subject string) (u engine.Unit, uid string, err error) {
	tokens := strings.Split(subject, ".")
	switch {
	case len(tokens) == 6 && tokens[0] == s.prefix:
		if tokens[5] != noObject && tokens[5] != skipped {
			if uid, err = unescape(tokens[5]); err != nil {
				return u, "", err
			}
		}
	case len(tokens) != 5 || tokens[0] != s.prefix+"-position":
		return u, "", fmt.Errorf("invalid subject %q: must be one with the prefix %q", subject, s.prefix)
	}
	for i, field := range []*string{&u.Cluster, &u.Group, &u.Resource, &u.Namespace} {
		if *field, err = unescape(tokens[i+1]); err != nil {
			return u, "", err
		}
	}
	if tokens[2] == coreGroup {
		u.Group = ""
	}
	if tokens[4] == noNamespace {
		u.Namespace = ""
	}
	return u, uid, nil
}
