package file

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
)

// doubt says whether more may have been delivered than the file has.
type doubt struct {
	marked    bool // by this process, which knows more than the file: no Load is Unclean for that
	inherited bool // from the process before: every checkpoint is Unclean
	missing   bool // likewise, and those checkpoints that the file had say so themselves: the others are
}

// MarkUnclean says whether objects may have been delivered that the file lacks, because commits fail. If the process is
// killed then, Load returns Unclean positions in the next one, also for a key without a checkpoint, until its first
// commit: that one marks the checkpoints that it does not replace. A Tracker calls MarkUnclean.
//
// The mark is a byte of the file that is overwritten in place, so that it can be written on a full disk, unless the
// file system is one that copies what it overwrites (see the package's documentation).
func (s *Store) MarkUnclean(_ context.Context, unclean bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.doubt.marked = unclean
	if s.lock != nil && !s.closed && s.head.unclean == s.nextHead().unclean {
		return nil
	}
	return s.failed(s.writeHead())
}

// nextHead returns what the head should be.
func (s *Store) nextHead() head { return head{s.log.size, s.doubt.marked || s.doubt.inherited} }

// writeHead overwrites the head.
func (s *Store) writeHead() error {
	f, err := s.reopen()
	if err != nil {
		return err
	}
	h := s.nextHead()
	_, err = drive.WriteAt(f, h.encode(), int64(len(firstLine)))
	if err = cmp.Or(err, drive.Sync(f)); err == nil {
		s.head = h
	}
	return errors.Join(err, f.Close())
}

// settle writes a payload with write. If the doubt is inherited, it becomes part of each checkpoint that the payload
// does not replace.
func (s *Store) settle(payload []byte, missing bool, write func(payload []byte) error) error {
	if !s.doubt.inherited {
		return write(payload)
	}
	others, err := s.uncleaned()
	if err != nil {
		return err
	}
	if err := write(append(others, payload...)); err != nil {
		return err
	}
	s.doubt.inherited, s.doubt.missing = false, missing
	_ = s.writeHead() // if it fails, the next commit's head says so, or else the next Load is Unclean without a need
	return nil
}

// uncleaned returns a section for each checkpoint, which makes it Unclean. One that is damaged has none: Load refuses
// it.
func (s *Store) uncleaned() (payload []byte, err error) {
	for _, key := range slices.Sorted(maps.Keys(s.log.keys)) {
		text, _, err := s.join(key)
		p, ok := decodeSaved(text)
		switch {
		case errors.As(err, new(damaged)), err == nil && !ok:
			continue
		case err != nil:
			return nil, err
		}
		p.Unclean = true
		if text, err = json.Marshal(p); err != nil {
			return nil, err
		}
		payload = appendSection(payload, key, text, nil)
	}
	return payload, nil
}
