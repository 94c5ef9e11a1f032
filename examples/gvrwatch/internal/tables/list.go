package tables

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

var (
	errNoRows   = errors.New("invalid Table: it must have rows, a list")
	errRowsOnce = errors.New("invalid Table: it must have rows once")
)

// list converts a list. It decodes one row at a time.
type list struct {
	source     *source
	objects    objects
	separator  string // before the next member, or the next item
	kind       string // of the answer
	apiVersion string
	hasRows    bool
	inRows     bool
}

// step converts the next part of the answer. Up to its kind and apiVersion, which come first, that is one part. If it
// is no Table, or that does not show before its rows, all of it passes unchanged. So does the rest from a row that is
// too large: the client refuses it, and says why.
func (l *list) step(out *bytes.Buffer) (rest io.Reader, err error) {
	if l.source.keep {
		if !l.begin(out) {
			out.Reset()
			return l.source.whole(), nil
		}
		l.source.keep, l.source.kept = false, nil
	}
	switch {
	case l.inRows && l.source.More():
		return l.row(out)
	case l.inRows:
		l.inRows, l.separator = false, ","
		err = l.bracket(out)
	case l.source.More():
		err = l.member(out)
	default:
		switch err = l.bracket(out); {
		case err == nil && !l.hasRows:
			err = errNoRows // an empty list would mean that nothing exists
		case err == nil:
			return l.source.rest(), nil
		}
	}
	return nil, complete(err)
}

// begin converts the members up to kind and apiVersion. It returns false if the answer is no Table.
func (l *list) begin(out *bytes.Buffer) bool {
	if bracket, _ := l.source.Token(); bracket != json.Delim('{') {
		return false
	}
	for l.kind == "" || l.apiVersion == "" {
		if !l.source.More() || l.member(out) != nil {
			return false
		}
	}
	return isTable(l.kind, l.apiVersion) && !l.hasRows
}

// member converts a member of the list, but of the rows only the bracket.
func (l *list) member(out *bytes.Buffer) error {
	token, err := l.source.Token()
	if err != nil {
		return err
	}
	name, _ := token.(string)
	if name == "rows" {
		return l.beginRows(out)
	}
	var value json.RawMessage
	if err := l.source.Decode(&value); err != nil {
		return err
	}
	switch name {
	case "kind":
		err = json.Unmarshal(value, &l.kind)
		value = json.RawMessage(`"PartialObjectMetadataList"`)
	case "apiVersion":
		err = json.Unmarshal(value, &l.apiVersion)
	case "metadata": // as it is
	case "columnDefinitions":
		l.objects.define(value)
		return nil
	default:
		return nil
	}
	l.separate(out)
	out.WriteString(`"` + name + `":`)
	out.Write(value)
	return err
}

func (l *list) beginRows(out *bytes.Buffer) error {
	if l.hasRows {
		return errRowsOnce
	}
	l.hasRows = true
	l.separate(out)
	switch bracket, err := l.source.Token(); {
	case err != nil:
		return err
	case bracket == json.Delim('['):
		out.WriteString(`"items":[`)
		l.inRows, l.separator = true, ""
	case bracket == nil:
		out.WriteString(`"items":[]`)
	default:
		return errNoRows
	}
	return nil
}

func (l *list) row(out *bytes.Buffer) (rest io.Reader, err error) {
	var text json.RawMessage
	switch err := l.source.Decode(&text); {
	case err == errValueTooLarge:
		l.separate(out)
		return l.source.rest(), nil
	case err != nil:
		return nil, complete(err)
	}
	l.separate(out)
	l.objects.write(out, l.objects.object(text, nil))
	return nil, nil
}

func (l *list) separate(out *bytes.Buffer) {
	out.WriteString(l.separator)
	l.separator = ","
}

// bracket reads a closing bracket and appends it.
func (l *list) bracket(out *bytes.Buffer) error {
	bracket, err := l.source.Token()
	if err == nil {
		fmt.Fprint(out, bracket)
	}
	return err
}

// complete returns the error of an answer that is not complete.
func complete(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}
