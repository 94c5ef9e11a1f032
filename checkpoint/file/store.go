package file

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gofrs/flock"

	"github.com/gvrwatch/gvrwatch/checkpoint"
)

// Store is a [checkpoint.Store] in a file. Its methods may be called from any goroutine.
type Store struct {
	path string // that was given to Open
	file string // path with links resolved
	lock *flock.Flock

	mu     sync.Mutex
	closed bool
	log    log
	// unsynced means that the file was replaced, and its folder could not be synced.
	unsynced bool
}

var fsync = (*os.File).Sync // tests replace it

// Open opens the file at path for this process only, and creates it if it does not exist. Its folder must exist, and
// the process must be able to create files there. Open reads the whole file into memory, and keeps none of it.
//
// Open returns a [*checkpoint.LockedError] at once if another process has the file open, a [*checkpoint.CorruptError]
// if the file is damaged or empty or a newer version of this library wrote it, and otherwise an error of package os,
// mostly an [*fs.PathError].
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
	b, err := s.read()
	if errors.Is(err, fs.ErrNotExist) {
		b = appendRecord([]byte(firstLine), nil, 0)
		err = create(file, b)
	}
	if err == nil {
		s.log, err = parse(b)
	}
	if err == nil {
		err = syncFolder(file) // the process that created the file may have been killed before it did this
	}
	if err != nil {
		return nil, errors.Join(s.failed(err), s.Close())
	}
	return s, nil
}

// Keys returns the keys of all checkpoints, sorted.
func (s *Store) Keys() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.log.keys))
}

// Load reads a checkpoint from the file. Its objects come in no order. Their strings share memory with the bytes that
// were read.
func (s *Store) Load(_ context.Context, key string) (*checkpoint.Checkpoint, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	text, versions, err := s.join(key)
	if err != nil || text == "" {
		return nil, s.failed(err)
	}
	var c checkpoint.Checkpoint
	if json.Unmarshal([]byte(text), &c) != nil {
		return nil, s.failed(errUnknown)
	}
	c.Position.Objects = make([]checkpoint.Object, 0, len(versions))
	for id, version := range versions {
		o, err := object(id, version)
		if err != nil {
			return nil, s.failed(err)
		}
		c.Position.Objects = append(c.Position.Objects, o)
	}
	return &c, nil
}

// join reads the sections of a checkpoint. It returns the JSON of the last one, and the objects' versions by their
// other texts, both encoded as in the file.
func (s *Store) join(key string) (text string, versions map[string]string, err error) {
	f, err := s.reopen()
	if err != nil {
		return "", nil, err
	}
	defer f.Close()
	for i, section := range s.log.keys[key] {
		if i == 0 {
			versions = make(map[string]string, section.length/64) // the first section has most of them
		}
		b := make([]byte, section.length)
		if _, err := f.ReadAt(b, section.at); err != nil {
			return "", nil, err
		} else if crc32.Checksum(b, castagnoli) != section.sum {
			return "", nil, errChanged
		}
		r := reader{s: string(b)}
		text, r.s = r.text(), r.text()
		for r.s != "" {
			object := r.s
			r.text() // namespace
			r.text() // name
			r.text() // uid
			id := object[:len(object)-len(r.s)]
			if versions[id] = r.text(); versions[id] == "" {
				delete(versions, id)
			}
		}
		if r.bad {
			return "", nil, errUnknown
		}
	}
	return text, versions, nil
}

// Commit appends the deltas to the file, and returns when they are on disk. If it fails, it cuts off what it has
// written, or else the next commit does.
func (s *Store) Commit(_ context.Context, deltas []checkpoint.Delta) error {
	now := time.Now()
	var payload []byte
	for _, d := range deltas {
		if d.Reset {
			payload = appendSection(payload, d.Key, "", nil)
		}
		c := checkpoint.Checkpoint{Identity: d.Identity, Committed: now, Position: checkpoint.Position{
			ResourceVersions: d.ResourceVersions, Partial: d.Partial, Rewound: d.Rewound, Unclean: d.Unclean}}
		text, err := json.Marshal(c)
		if err != nil {
			return err
		}
		var objects []byte
		for _, o := range d.Put {
			objects = appendText(appendID(objects, o), "\x00"+o.ResourceVersion)
		}
		for _, o := range d.Removed {
			objects = appendText(appendID(objects, o), "")
		}
		payload = appendSection(payload, d.Key, string(text), objects)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failed(s.write(payload))
}

// Delete appends a record which says that there is no checkpoint under a key. The next snapshot leaves the checkpoint
// out.
func (s *Store) Delete(_ context.Context, key string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.log.keys[key] == nil && !s.closed {
		return nil
	}
	return s.failed(s.write(appendSection(nil, key, "", nil)))
}

// write appends a record.
func (s *Store) write(payload []byte) error {
	f, err := s.reopen()
	if err != nil {
		return err
	}
	defer f.Close()
	if s.log.size > s.log.limit {
		f.Close() // Windows does not replace an open file
		if err := s.rewrite(); err != nil {
			return err
		}
		return s.write(payload)
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
	_, err = f.WriteAt(appendRecord(nil, payload, s.log.sum), s.log.size)
	if err = cmp.Or(err, fsync(f)); err != nil {
		return errors.Join(err, s.undo(f))
	}
	return s.log.add(payload)
}

// undo cuts off an incomplete record.
func (s *Store) undo(f *os.File) error {
	err := cmp.Or(f.Truncate(s.log.size), fsync(f))
	s.log.torn = err != nil
	return err
}

// rewrite replaces the file by a snapshot of it.
func (s *Store) rewrite() error {
	var payload []byte
	for _, key := range slices.Sorted(maps.Keys(s.log.keys)) {
		text, versions, err := s.join(key)
		if err != nil {
			return err
		}
		var objects []byte
		for id, version := range versions {
			objects = appendText(append(objects, id...), version)
		}
		payload = appendSection(payload, key, text, objects)
	}
	b := appendRecord([]byte(firstLine), payload, 0)
	if err := create(s.file, b); err != nil {
		if now, readErr := s.read(); readErr == nil && bytes.Equal(now, b) {
			s.log, _ = parse(b) // it was renamed, but the name may not be on disk
			s.unsynced = true
		}
		return err
	}
	log, err := parse(b)
	s.log = log
	return err
}

// reopen opens the file, and checks that it still ends with the last record.
func (s *Store) reopen() (*os.File, error) {
	if s.closed {
		return nil, &fs.PathError{Op: "open", Path: s.path, Err: os.ErrClosed}
	}
	f, err := os.OpenFile(s.file, os.O_RDWR, 0)
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

// Close releases the file and its lock. It waits for a call that is under way.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return s.lock.Close()
}

// failed adds the file to errors that lack it.
func (s *Store) failed(err error) error {
	if errors.Is(err, io.EOF) {
		err = errChanged // the file is shorter than what was written
	}
	if wrong := damaged(""); errors.As(err, &wrong) {
		return &checkpoint.CorruptError{Store: s.path, Err: fmt.Errorf(
			"%w: restore a copy of the file, or move it away to start from the beginning", wrong)}
	}
	return err
}

// resolve follows links, so that a file has one lock, whatever its names.
func resolve(path string) (string, error) {
	_, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		var folder string
		folder, err = filepath.EvalSymlinks(filepath.Dir(path))
		path = filepath.Join(folder, filepath.Base(path))
	} else if err == nil { // no file is created behind a dangling link: its volume may not be mounted
		path, err = filepath.EvalSymlinks(path)
	}
	if err != nil {
		return "", err
	}
	return path, checkRegular(path)
}

// checkRegular returns an error if path exists and is not a regular file: opening a pipe would block, and a link in the
// place of the lock file could lead to a file that must not be overwritten.
func checkRegular(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: path, Err: fmt.Errorf("%w: must be a regular file", fs.ErrInvalid)}
	}
	return err
}

// acquire locks a file for this process. The lock is on a file of its own, because it is needed before the file exists,
// and after the file is replaced. The lock file names the process that holds it.
func acquire(path, file string) (*flock.Flock, error) {
	name := file + ".gvrwatch-lock"
	if err := checkRegular(name); err != nil {
		return nil, err
	}
	lock := flock.New(name, flock.SetPermissions(0o600))
	ok, err := lock.TryLock()
	if err != nil {
		return nil, errors.Join(&fs.PathError{Op: "lock", Path: name, Err: err}, lock.Close())
	} else if !ok {
		holder, _ := os.ReadFile(name) // it may still be empty, and some systems don't read a locked file
		locked := &checkpoint.LockedError{Store: path, Holder: strings.TrimSpace(string(holder))}
		return nil, errors.Join(locked, lock.Close())
	}
	host, _ := os.Hostname()
	self := fmt.Sprintf("process %d on %s since %s\n", os.Getpid(), cmp.Or(host, "an unknown host"),
		time.Now().UTC().Format(time.RFC3339))
	_ = os.WriteFile(name, []byte(self), 0o600) // the lock works without the name, too
	return lock, nil
}

// read returns the contents of the file, if it is writable and its first line is valid.
func (s *Store) read() ([]byte, error) {
	f, err := os.OpenFile(s.file, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, found := make([]byte, 2*len(firstLine)), 0
	if _, err := f.Read(b); err != nil && err != io.EOF {
		return nil, err
	}
	if fmt.Sscanf(string(b), "gvrwatch checkpoint format %d", &found); found > format {
		return nil, &checkpoint.CorruptError{Store: s.path, Newer: true, Err: fmt.Errorf(
			"format %d, and this version reads up to %d: use the version that wrote it", found, format)}
	} else if !bytes.HasPrefix(b, []byte(firstLine)) {
		return nil, damaged("invalid first line: must be that of a gvrwatch checkpoint file")
	}
	return os.ReadFile(s.file)
}

// create creates or replaces the file at path atomically. So an empty or short file is a damaged one.
func create(path string, content []byte) error {
	unfinished := path + ".gvrwatch-new"
	_ = os.Remove(unfinished) // that a killed process may have left
	f, err := os.OpenFile(unfinished, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err = cmp.Or(err, fsync(f), f.Close()); err == nil {
		err = os.Rename(unfinished, path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(unfinished))
	}
	return syncFolder(path)
}

// syncFolder syncs the folder of a file, so that the file's name is on disk.
func syncFolder(path string) error {
	if runtime.GOOS == "windows" {
		return nil // Windows can't sync folders
	}
	d, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(fsync(d), d.Close())
}
