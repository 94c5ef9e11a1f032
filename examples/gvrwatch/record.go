package main

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"

	"github.com/spf13/pflag"

	"github.com/gvrwatch/gvrwatch/examples/internal/secrets"
	"github.com/gvrwatch/gvrwatch/internal/recording"
	"github.com/gvrwatch/gvrwatch/stream"
)

// recordFlags say what is recorded.
type recordFlags struct {
	file    string
	secrets bool
}

func (o *recordFlags) addFlags(f *pflag.FlagSet) {
	f.StringVar(&o.file, "record", "",
		"Append everything that is delivered to this file, for replay and timeline. It does not matter what is "+
			"printed. Values of Secrets are replaced.")
	f.BoolVar(&o.secrets, "record-secrets", false, "Record Secrets as they are.")
}

func (o *recordFlags) check() error {
	switch {
	case o.secrets && o.file == "":
		return errors.New("--record-secrets: applies only to --record")
	case o.file == "-":
		return errors.New("--record=-: must be a file, which can be mended and appended to")
	}
	return nil
}

// recorder records what is delivered.
type recorder struct {
	file    *recording.Writer
	secrets bool
	key     []byte // of the hashes that stand for values; random, so that nobody can try values
	lost    bool   // the error of file was returned
}

// newRecorder opens the file of --record.
func (s *session) newRecorder(ctx context.Context, want wanted) (*recorder, error) {
	o := s.opts.record
	cluster, err := s.srv.conn.Cluster(ctx)
	if err != nil {
		return nil, s.srv.explain(err)
	}
	info, _ := debug.ReadBuildInfo()
	h := recording.Header{
		Program: "gvrwatch " + versionsOf(info, released).Gvrwatch,
		Server:  withoutUser(s.srv.config.Host), Cluster: cluster.String(),
		Selection: recording.Selection{
			Types: slices.Clone(want.args), Exclude: s.opts.what.exclude, Namespaces: s.namespaces(),
			LabelSelector: s.opts.what.labelSelector, FieldSelector: s.opts.what.fieldSelector,
			MetadataOnly: s.opts.print.metadataOnly,
		},
		Start: recording.Snapshot, Secrets: "redacted",
	}
	if s.opts.what.all {
		h.Selection.Types = append(h.Selection.Types, "*")
	}
	for _, c := range s.opts.what.categories {
		h.Selection.Types = append(h.Selection.Types, categoryPrefix+c)
	}
	switch {
	case s.opts.begin.watchOnly, s.opts.begin.resourceVersion != "":
		h.Start = recording.Later
	case s.resumes:
		h.Start = recording.Resumed
	}
	r := &recorder{secrets: o.secrets, key: make([]byte, 32)}
	_, _ = rand.Read(r.key) // never fails
	if o.secrets {
		h.Secrets = "included"
	}
	if r.file, err = recording.Create(o.file, h); err != nil {
		return nil, fmt.Errorf("--record=%s: %w", o.file, err)
	}
	return r, nil
}

// withoutUser returns a URL without the user and the password that it may have.
func withoutUser(server string) string {
	u, err := url.Parse(server)
	if err != nil || u.User == nil {
		return server
	}
	u.User = nil
	return u.String()
}

// add records an event. It returns the function to call when the event is printed: ack is called when it is recorded,
// too.
func (r *recorder) add(ev stream.Event, row json.RawMessage, ack func()) (printed func(), err error) {
	if ev.HasObject() && !r.secrets && isSecret(ev) {
		if ev, err = r.redact(ev); err != nil {
			return nil, err
		}
	}
	var parts atomic.Int32
	done := func() {
		if parts.Add(1) == 2 {
			ack()
		}
	}
	return done, r.check(r.file.Add(time.Now(), ev, row, done))
}

func (r *recorder) close() error { return r.check(r.file.Close()) }

// check returns the error of the file once.
func (r *recorder) check(err error) error {
	if err == nil || r.lost {
		return nil
	}
	r.lost = true
	return fmt.Errorf("the recording has ended: %w", err)
}

func isSecret(ev stream.Event) bool {
	return ev.Resource.Group == "" && ev.Resource.Resource == "secrets"
}

// redact returns an event of a Secret in which a hash stands for each value. The hashes of equal values are equal
// within a run, so that changes show. One that can't be decoded has only its identity.
func (r *recorder) redact(ev stream.Event) (stream.Event, error) {
	o, err := ev.Decode()
	if err != nil {
		ev.Object, ev.JSON = nil, identityOf(ev)
		return ev, nil
	}
	hidden := secrets.Hide(o.Object, func(_ string, value any) any {
		b, err := json.Marshal(value)
		if err != nil { // never: it was decoded from JSON
			b = nil
		}
		sum := hmac.New(sha256.New, r.key)
		sum.Write(b)
		return "REDACTED" + hex.EncodeToString(sum.Sum(nil)[:4]) // valid base64, for clients with types
	})
	ev.Object = nil
	ev.JSON, err = json.Marshal(hidden)
	return ev, err
}
