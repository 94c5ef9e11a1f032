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
	noObject    = "=" // no escape is that short
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

func (l *Log) positionSubject(u engine.Unit) string {
	return l.options.Prefix + "-position." + resourceSubject(u) + "." + or(escape(u.Namespace), noNamespace)
}

func (l *Log) messageSubject(m *engine.Message) string {
	return l.options.Prefix + "." + resourceSubject(m.Unit) + "." + or(escape(m.Unit.Namespace), noNamespace) + "." +
		or(escape(m.UID), noObject)
}

// parse returns the unit of a subject, and the uid of its object if it has one.
func (l *Log) parse(subject string) (u engine.Unit, uid string, err error) {
	tokens := strings.Split(subject, ".")
	switch {
	case len(tokens) == 6 && tokens[0] == l.options.Prefix:
		if tokens[5] != noObject {
			if uid, err = unescape(tokens[5]); err != nil {
				return u, "", err
			}
		}
	case len(tokens) != 5 || tokens[0] != l.options.Prefix+"-position":
		return u, "", fmt.Errorf("invalid subject %q: must be one with the prefix %q", subject, l.options.Prefix)
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
