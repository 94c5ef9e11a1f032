package file

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/gvrwatch/gvrwatch/checkpoint"
)

// Store is a [checkpoint.Store] in a file. Its methods may be called from any goroutine.
type Store struct {
	path string // that was given to Open
	file string // path with links resolved
	lock *lock

	mu     sync.Mutex
	closed bool
	log    log
	head   head // as it is in the file
	// unsynced means that the file was replaced, and its folder could not be synced.
	unsynced bool
	wrote    bool // since Open
	doubt    doubt
}

// Open opens the file at path for this process only, and creates it if it does not exist. Its folder must exist, and
// the process must be able to create files there. Open reads the whole file, and keeps the places of the commits in
// memory.
//
// Open returns a [*checkpoint.LockedError] at once if another process has the file open, a [*checkpoint.CorruptError]
// if the file is damaged, empty, larger than 8 GiB, or of an older or newer format, and otherwise an error of package
// os, mostly an [*fs.PathError]. Such an error wraps [fs.ErrPermission] also if another user owns the file or may write
// to it.
func Open(path string) (*Store, error) {
	file, err := resolve(path)
	if err != nil {
		return nil, err
	}
	lock, err := acquire(path, file)
	if err != nil {
		return nil, err
	}
	s := &Store{path: path, file: file, lock: lock}
	err = s.read()
	if errors.Is(err, fs.ErrNotExist) {
		s.log, _, err = create(file, false, func(io.Writer) error { return nil })
		s.head.synced = s.log.size
	}
	if err == nil {
		err = syncFolder(file) // the process that created the file may have been killed before it did this
	}
	if err != nil {
		return nil, errors.Join(s.failed(err), s.Close())
	}
	return s, nil
}

// read reads the file, if it is writable and its first line is valid.
func (s *Store) read() error {
	f, err := openOwn(s.file, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	b, found := make([]byte, 2*recordsAt), 0
	if _, err := f.ReadAt(b, 0); err != nil && err != io.EOF {
		return err
	}
	_, _ = fmt.Sscanf(string(b), "gvrwatch checkpoint format %d", &found)
	switch {
	case found > format:
		return &checkpoint.CorruptError{Store: s.path, Newer: true, Err: fmt.Errorf(
			"invalid format %d: must be %d: use the version that wrote the file", found, format)}
	case found > 0 && found < format:
		return &checkpoint.CorruptError{Store: s.path, Older: true, Err: fmt.Errorf(
			"invalid format %d: must be %d: delete the file to start from the beginning, or use another",
			found, format)}
	case !bytes.HasPrefix(b, []byte(firstLine)):
		return damaged{what: "invalid first line: must be that of a gvrwatch checkpoint file"}
	case info.Size() > maxFile:
		return damaged{what: fmt.Sprintf("invalid size of %d bytes: must be at most %d", info.Size(), maxFile)}
	}
	var ok bool
	if s.head, ok = decodeHead(b[len(firstLine):]); !ok {
		return damaged{what: "invalid head: must fit its checksum"}
	}
	if s.log, err = parse(f, info.Size()); err == nil && s.log.size < s.head.synced {
		err = damaged{what: fmt.Sprintf("invalid size: the records end at byte %d, and %d bytes were on disk",
			s.log.size, s.head.synced)}
	}
	if err == nil {
		err = drive.Sync(f) // the next head says that all of this is on disk
	}
	s.doubt.inherited = s.head.unclean
	return err
}

// Keys returns the keys of all checkpoints, sorted.
func (s *Store) Keys() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.log.keys))
}

// Load reads a checkpoint from the file. Its objects come in no order. The position is Unclean also if the process that
// had the file open before was killed while its commits failed (see MarkUnclean).
func (s *Store) Load(_ context.Context, key string) (*checkpoint.Checkpoint, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	text, versions, err := s.join(key)
	if err == nil && text == nil && (s.doubt.inherited || s.doubt.missing) {
		return &checkpoint.Checkpoint{Position: checkpoint.Position{Unclean: true}}, nil
	}
	if err != nil || text == nil {
		return nil, s.failed(err)
	}
	p, ok := decodeSaved(text)
	if !ok {
		return nil, s.failed(damaged{unknown, key})
	}
	c := &checkpoint.Checkpoint{Identity: p.Identity, Committed: p.Committed, Position: checkpoint.Position{
		ResourceVersions: p.ResourceVersions, Partial: p.Partial, Rewound: p.Rewound,
		Unclean: p.Unclean || s.doubt.inherited, Objects: make([]checkpoint.Object, 0, len(versions)),
	}}
	for id, version := range versions {
		c.Position.Objects = append(c.Position.Objects, decode(id, version))
	}
	return c, nil
}

// join reads the sections of a checkpoint. It returns the JSON of the last one, and the objects' encoded versions by
// their other texts.
func (s *Store) join(key string) (text []byte, versions map[string]string, err error) {
	f, err := s.reopen()
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	versions = map[string]string{}
	var b []byte
	in := bufio.NewReaderSize(nil, chunkSize)
	for _, at := range s.log.keys[key] {
		in.Reset(io.NewSectionReader(f, at.at, at.length))
		r := reader{in: in, left: at.length, sum: at.before}
		text = bytes.Clone(r.text(maxText))
		r.length() // of all objects
		for r.left > 0 && !r.bad {
			var n int
			if b, n = r.object(b); len(b) == n {
				delete(versions, string(b))
			} else if !r.bad {
				object := string(b)
				versions[object[:n]] = object[n:]
			}
		}
		r.skip(r.left)
		switch {
		case r.err != nil:
			return nil, nil, r.err
		case r.sum != at.after:
			return nil, nil, damaged{rotten, key}
		case r.bad:
			return nil, nil, damaged{unknown, key}
		}
	}
	return text, versions, nil
}

// Commit appends the deltas to the file, and returns when they are on disk. If it fails, it cuts off what it has
// written, or else the next commit does.
func (s *Store) Commit(_ context.Context, deltas []checkpoint.Delta) error {
	now := time.Now().UTC()
	var payload []byte
	for _, d := range deltas {
		if d.Key == "" || len(d.Key) > maxKey {
			return fmt.Errorf("commit to %s: invalid key of %d bytes: must have 1 to %d", s.path, len(d.Key), maxKey)
		}
		if d.Reset {
			payload = appendSection(payload, d.Key, nil, nil)
		}
		text, err := json.Marshal(saved{Identity: d.Identity, ResourceVersions: d.ResourceVersions,
			Partial: d.Partial, Rewound: d.Rewound, Unclean: d.Unclean, Committed: now})
		if err != nil {
			return err
		}
		longest := len(text)
		var objects []byte
		for _, o := range d.Put {
			objects = appendText(appendID(objects, o), "\x00"+o.ResourceVersion)
			longest = max(longest, len(o.Namespace), len(o.Name), len(o.UID)+1, len(o.ResourceVersion)+1)
		}
		for _, o := range d.Removed {
			objects = appendText(appendID(objects, o), "")
			longest = max(longest, len(o.Namespace), len(o.Name), len(o.UID)+1)
		}
		if longest > maxText {
			return fmt.Errorf("commit %q to %s: a position or an object has a text of %d bytes: must be at most %d",
				d.Key, s.path, longest, maxText)
		}
		payload = appendSection(payload, d.Key, text, objects)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failed(s.settle(payload, true, s.write))
}

// Delete appends a record which says that there is no checkpoint under a key. The next snapshot leaves the checkpoint
// out. Delete does not read the checkpoint, so that a damaged one can be deleted.
func (s *Store) Delete(_ context.Context, key string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.log.keys[key] == nil && !s.doubt.inherited && !s.closed && s.lock != nil {
		s.doubt.missing = false
		return nil
	}
	return s.failed(s.settle(appendSection(nil, key, nil, nil), false, s.append))
}

// write appends a record, after a snapshot if one is due.
func (s *Store) write(payload []byte) error {
	if s.log.size > s.log.limit || s.log.size+int64(len(payload)) > maxFile-slack {
		if err := s.rewrite(); err != nil {
			return err
		}
	}
	return s.append(payload)
}

// append appends a record.
func (s *Store) append(payload []byte) error {
	f, err := s.reopen()
	if err != nil {
		return err
	}
	defer f.Close()
	sum := crc32.Update(s.log.sum, castagnoli, payload)
	b := append(appendHeader(nil, int64(len(payload)), sum), payload...)
	if size := s.log.size + int64(len(b)); size > maxFile {
		return fmt.Errorf("commit to %s: it would have %d bytes: must have at most %d: use several files",
			s.path, size, maxFile)
	}
	if s.log.torn {
		if err := s.undo(f); err != nil {
			return err
		}
	}
	if s.unsynced {
		if err := syncFolder(s.file); err != nil {
			return err
		}
		s.unsynced = false
	}
	h := s.nextHead() // what it says is on disk already, whatever becomes of the record
	_, err = drive.WriteAt(f, h.encode(), int64(len(firstLine)))
	if err == nil {
		_, err = drive.WriteAt(f, b, s.log.size)
	}
	if err = cmp.Or(err, drive.Sync(f)); err != nil {
		return errors.Join(err, s.undo(f))
	}
	s.head, s.wrote = h, true
	_, err = s.log.add(bufio.NewReader(bytes.NewReader(payload)), int64(len(payload)), sum)
	return err
}

// undo cuts off an incomplete record.
func (s *Store) undo(f *os.File) error {
	err := cmp.Or(drive.Truncate(f, s.log.size), drive.Sync(f))
	s.log.torn = err != nil
	return err
}

// rewrite replaces the file by a snapshot of it.
func (s *Store) rewrite() error {
	f, err := s.reopen()
	if err != nil {
		return err
	}
	f.Close() // Windows does not replace an open file
	unclean := s.nextHead().unclean
	l, replaced, err := create(s.file, unclean, s.writeSnapshot)
	if replaced {
		s.log, s.head, s.unsynced = l, head{l.size, unclean}, err != nil
	}
	return err
}

// writeSnapshot writes a section for each checkpoint. It copies those of a damaged checkpoint, so that it can be
// deleted later, and commits to others go on.
func (s *Store) writeSnapshot(w io.Writer) error {
	for _, key := range slices.Sorted(maps.Keys(s.log.keys)) {
		text, versions, err := s.join(key)
		if errors.As(err, new(damaged)) {
			if err = s.copySections(w, key); err == nil {
				continue
			}
		}
		if err != nil {
			return err
		}
		length := 0
		for id, version := range versions {
			length += len(id) + len(version)
		}
		b := appendText(appendText(nil, key), text)
		_, _ = w.Write(binary.AppendUvarint(b, uint64(length)))
		for id, version := range versions {
			_, _ = w.Write(append(append(b[:0], id...), version...))
		}
	}
	return nil
}

// copySections writes the sections of a checkpoint as they are, if their checksums are right: those of the new file
// would be right in any case.
func (s *Store) copySections(w io.Writer, key string) error {
	f, err := s.reopen()
	if err != nil {
		return err
	}
	defer f.Close()
	for _, at := range s.log.keys[key] {
		_, _ = w.Write(appendText(nil, key))
		p := payload{to: w, sum: at.before}
		if _, err := io.Copy(&p, io.NewSectionReader(f, at.at, at.length)); err != nil {
			return err
		} else if p.sum != at.after {
			return damaged{rotten, key}
		}
	}
	return nil
}

// reopen opens the file, and checks that it still ends with the last record.
func (s *Store) reopen() (*os.File, error) {
	if s.lock == nil {
		return nil, errors.New("invalid file.Store: must come from file.Open")
	} else if s.closed {
		return nil, &fs.PathError{Op: "open", Path: s.path, Err: os.ErrClosed}
	}
	f, err := openOwn(s.file, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &checkpoint.FencedError{Store: s.path}
	} else if err != nil {
		return nil, err
	}
	b := make([]byte, headerSize)
	size, err := f.Seek(0, io.SeekEnd)
	if err == nil {
		_, err = f.ReadAt(b, s.log.last)
	}
	_, sum, ok := header(b)
	if err == nil && (!ok || sum != s.log.sum || size < s.log.size || size > s.log.size && !s.log.torn) {
		err = errChanged
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// failed adds the file to errors that lack it.
func (s *Store) failed(err error) error {
	if errors.Is(err, io.EOF) {
		err = errChanged // the file is shorter than what was written
	}
	if wrong := (damaged{}); errors.As(err, &wrong) {
		return &checkpoint.CorruptError{Store: s.path, Err: wrong}
	}
	return err
}
