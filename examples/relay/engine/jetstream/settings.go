package jetstream

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// unsuitable says why a stream can't keep the promises of an engine.Log. It is empty if it can.
func unsuitable(cfg jetstream.StreamConfig, prefix string) string {
	subjects := strings.Join(cfg.Subjects, " ")
	switch {
	case !strings.Contains(subjects, prefix+".>") || !strings.Contains(subjects, prefix+"-position.>"):
		return fmt.Sprintf("its subjects are %q: must include %[2]s.> and %[2]s-position.>", subjects, prefix)
	case cfg.MaxAge > 0:
		return fmt.Sprintf("max_age is %v, which removes the last states of objects: must be 0", cfg.MaxAge)
	case cfg.Discard != jetstream.DiscardNew && (cfg.MaxBytes > 0 || cfg.MaxMsgs > 0):
		return "it discards old messages when it is full: discard must be new"
	case cfg.Discard == jetstream.DiscardNew && cfg.DiscardNewPerSubject:
		return "it takes no more messages of a subject: discard_new_per_subject must be false"
	case cfg.Storage != jetstream.FileStorage:
		return "it loses everything when a server restarts: storage must be file"
	case cfg.NoAck:
		return "it does not acknowledge messages: no_ack must be false"
	case cfg.Retention != jetstream.LimitsPolicy:
		return fmt.Sprintf("retention is %s: must be limits", cfg.Retention)
	}
	return ""
}

// differences says in what an existing stream is not as want says.
func (want Create) differences(cfg jetstream.StreamConfig) string {
	var all []string
	for _, setting := range []struct {
		field     string
		has, want int64
	}{
		{"log.history", cfg.MaxMsgsPerSubject, int64(want.History)},
		{"log.copies", int64(cfg.Replicas), int64(want.Copies)},
		{"log.maxBytes", max(cfg.MaxBytes, 0), max(want.MaxBytes, 0)},
	} {
		if setting.has != setting.want {
			all = append(all, fmt.Sprintf("%s is %d, not %d", setting.field, setting.has, setting.want))
		}
	}
	return strings.Join(all, "; ")
}

// overlap returns err, with the stream that has the subjects already, if that is what err says.
func (l *Log) overlap(ctx context.Context, err error) error {
	if api := (jetstream.JetStreamError)(nil); !errors.As(err, &api) || api.APIError() == nil ||
		api.APIError().ErrorCode != subjectsOverlap {
		return err
	}
	for _, subject := range l.subjects.stream() {
		if other, e := l.js.StreamNameBySubject(ctx, subject); e == nil {
			return fmt.Errorf("invalid log.prefix %q: must be another (--prefix), or log.stream be %q (--stream), "+
				"which has the subjects %s already: %w", l.options.Prefix, other, subject, err)
		}
	}
	return fmt.Errorf("invalid log.prefix %q: must be another (--prefix): %w", l.options.Prefix, err)
}

// Error codes of nats-server that nats.go has no names for.
const (
	subjectsOverlap  = 10065 // JSStreamSubjectOverlapErr
	noPeers          = 10005 // JSClusterNoPeersErrF
	notClustered     = 10074 // JSStreamReplicasNotSupportedErr
	storageExceeded  = 10047 // JSStorageResourcesExceededErr
	maxBytesRequired = 10113 // JSStreamMaxBytesRequired
)

// remedied returns err, and what to do about it where it does not say so.
func remedied(err error) error {
	for cause, remedy := range map[error]string{
		nats.ErrSecureConnWanted:                   "the server has no TLS: nats.url must be nats://",
		nats.ErrPermissionViolation:                "the user must be permitted to use JetStream and the stream",
		nats.ErrAuthorization:                      "see nats.credentials, or the user and the password in nats.url",
		nats.ErrNoResponders:                       noJetStream,
		jetstream.ErrJetStreamNotEnabled:           noJetStream,
		jetstream.ErrJetStreamNotEnabledForAccount: noJetStream,
	} {
		if errors.Is(err, cause) {
			return fmt.Errorf("%w: %s", err, remedy)
		}
	}
	if unknown := (x509.UnknownAuthorityError{}); errors.As(err, &unknown) {
		return fmt.Errorf("%w: nats.ca must have its CA", err)
	}
	if op := (*net.OpError)(nil); errors.As(err, &op) && op.Op == "read" && op.Timeout() {
		return fmt.Errorf("%w: the server hangs, or nats.url must have the port for clients, 4222 by default", err)
	}
	if api := (jetstream.JetStreamError)(nil); errors.As(err, &api) && api.APIError() != nil {
		remedy, known := map[jetstream.ErrorCode]string{
			noPeers:          "log.copies must be at most the number of servers with JetStream",
			notClustered:     "log.copies must be 1 without a cluster of NATS servers",
			storageExceeded:  "log.maxBytes must be what the server has left",
			maxBytesRequired: "log.maxBytes must be set",
		}[api.APIError().ErrorCode]
		if known {
			return fmt.Errorf("%w: %s", err, remedy)
		}
	}
	return err
}

const noJetStream = "the server must have JetStream (nats-server -js), and the account, too"

// hosts returns the servers of a list of URLs, without users and passwords.
func hosts(list string) string {
	var all []string
	for text := range strings.SplitSeq(list, ",") {
		if text = strings.TrimSpace(text); !strings.Contains(text, "://") {
			text = "nats://" + text
		}
		if u, err := url.Parse(text); err == nil {
			all = append(all, u.Host)
		}
	}
	return strings.Join(all, ",")
}
