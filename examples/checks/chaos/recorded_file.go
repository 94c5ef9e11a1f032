package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// linesOf calls read with each line of a file and its number, from 1, and refused with each line that is longer than
// maxLine, cut there. It decompresses a file that begins like gzip. One that ends within gzip is what a killed writer
// leaves, and so is a last line without an end that is no JSON: it is left out.
func linesOf(path string, read func(int, []byte) error, refused func(int, []byte, error)) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	in := bufio.NewReaderSize(f, 256<<10)
	if begin, _ := in.Peek(2); bytes.Equal(begin, []byte{0x1f, 0x8b}) {
		z, err := gzip.NewReader(in)
		if err != nil {
			return fmt.Errorf("read %s: damaged gzip: %w", path, err)
		}
		in = bufio.NewReaderSize(z, 256<<10)
	}
	for number := 1; ; number++ {
		text, long, err := nextLine(in)
		torn := err != nil && !json.Valid(text)
		switch {
		case len(bytes.TrimSpace(text)) == 0, torn && !long:
		case long:
			refused(number, text, fmt.Errorf("it has more than %d MiB, the limit", maxLine>>20))
		default:
			if err := read(number, text); err != nil {
				return fmt.Errorf("read %s: %w", path, err)
			}
		}
		switch {
		case err == io.EOF, errors.Is(err, io.ErrUnexpectedEOF):
			return nil
		case err != nil:
			return fmt.Errorf("read %s: line %d: %w", path, number, err)
		}
	}
}

// nextLine returns a line, or what it has up to maxLine.
func nextLine(in *bufio.Reader) (text []byte, long bool, err error) {
	for {
		part, err := in.ReadSlice('\n')
		room := maxLine - len(text)
		text = append(text, part[:min(len(part), room)]...)
		long = long || len(part) > room
		if err != bufio.ErrBufferFull {
			return text, long, err
		}
	}
}

// readRecord reads what one client reported.
func readRecord(path string) (*recordFile, error) {
	base := filepath.Base(path)
	r := newRecordReader(strings.TrimSuffix(base, filepath.Ext(base)))
	if err := linesOf(path, r.read, r.refuse); err != nil {
		return nil, err
	}
	one, err := r.finish()
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return one, nil
}

// readHistory reads a history of etcd.
func readHistory(path string) (*history, *historyReader, error) {
	r := newHistoryReader()
	if err := linesOf(path, r.read, r.refuse); err != nil {
		return nil, nil, err
	}
	h, err := r.finish()
	if err != nil {
		return nil, nil, fmt.Errorf("read %s: %w", path, err)
	}
	return h, r, nil
}

// writeRecord writes what a client reported in a run that has waited for it until a time: all of it is due. It leaves
// out what a cache contains.
func writeRecord(w io.Writer, s subject, version string, reports []report, until time.Time) error {
	out := json.NewEncoder(w)
	errs := []error{out.Encode(introduction(s, version))}
	for _, r := range reports {
		if r.Kind != contents {
			errs = append(errs, out.Encode(reportLine(r)))
		}
	}
	end := fileLine{clientLine: clientLine{Type: lineEnd}, Time: timeText(until)}
	return errors.Join(append(errs, out.Encode(end))...)
}

// introduction returns the CLIENT of a subject.
func introduction(s subject, version string) fileLine {
	r := &fileRules{
		Namespaces: s.Scope.Namespaces, Coalesces: s.Coalesces, Chained: s.Chained, ByObject: &s.ByObject,
		Limited: s.Limited,
	}
	if s.Scope.Selects != nil {
		r.LabelSelector = s.Scope.Selects.String()
	}
	return fileLine{Rules: r, clientLine: clientLine{
		Type: lineClient, Name: s.Name, Version: version, Resources: s.Scope.Resources, Resumes: s.Checkpoint,
		Strict: s.Ours,
	}}
}

// reportLine returns the line of a report.
func reportLine(r report) fileLine {
	l := fileLine{Time: timeText(r.At), Run: json.RawMessage(fmt.Sprint(r.Run)), clientLine: clientLine{
		Type: string(r.Kind), Resource: r.Resource, Namespace: r.Namespace, ResourceVersion: r.ResourceVersion,
		Inferred: r.Inferred,
	}}
	if !r.Acked {
		l.Acked = &r.Acked
	}
	switch {
	case r.Kind == committed:
		l.Type = linePosition
	case r.Kind == gap:
		l.Gap = &lineGap{r.Reason, r.From, r.HistoryLost}
	case r.Kind != synced:
		l.Namespace, l.ResourceVersion, l.Object = r.Worker, "", &lineObject{}
		m := &l.Object.Metadata
		m.Namespace, m.Name, m.UID, m.ResourceVersion = r.Namespace, r.Name, r.UID, r.ResourceVersion
	}
	return l
}

// timeText returns a time as files have it.
func timeText(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return at.Format(time.RFC3339Nano)
}

// writeRun writes the history of a run and what each client reported to a folder, for check.
func writeRun(folder string, h *history, faults []fault, watchers []*watcher) error {
	if err := os.MkdirAll(folder, 0o777); err != nil {
		return err
	}
	err := writeNew(folder, "history", func(w io.Writer) error { return writeHistory(w, h, faults) })
	for _, one := range watchers {
		s := one.subject()
		err = errors.Join(err, writeNew(folder, s.Name, func(w io.Writer) error {
			return writeRecord(w, s, one.version(), one.rec.all(), time.Now())
		}))
	}
	return err
}

// fileOf returns the name of the file of a client.
func fileOf(name string) string { return notInFiles.ReplaceAllString(name, "-") + ".jsonl" }

var notInFiles = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

// writeNew writes a file that must not exist.
func writeNew(folder, name string, write func(io.Writer) error) error {
	path := filepath.Join(folder, fileOf(name))
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	w := bufio.NewWriter(f)
	return errors.Join(write(w), w.Flush(), f.Close())
}
