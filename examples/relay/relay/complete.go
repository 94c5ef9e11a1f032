package relay

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
)

// Complete sets the defaults of empty fields, and checks all fields. Only Replica.ID has a random default.
func (c *Config) Complete() error {
	if len(c.Selection.Resources)+len(c.Selection.Categories) == 0 {
		c.Selection.Resources = []string{"*"}
	}
	c.Log.Stream, c.Log.Prefix = cmp.Or(c.Log.Stream, "K8S"), cmp.Or(c.Log.Prefix, "k8s")
	c.Log.History, c.Log.Copies = cmp.Or(c.Log.History, 16), cmp.Or(c.Log.Copies, 1)
	c.Log.KeepDeleted = orDuration(c.Log.KeepDeleted, 24*time.Hour)
	c.Replica.Lease = orDuration(c.Replica.Lease, 15*time.Second)
	c.Replica.Grace = orDuration(c.Replica.Grace, 25*time.Second)
	c.Queue.Overflow, c.Queue.Bytes = cmp.Or(c.Queue.Overflow, OverflowBlock), cmp.Or(c.Queue.Bytes, 64<<20)
	c.LogLevel = cmp.Or(c.LogLevel, "info")
	if c.NATS.URL == "" && c.NATS.Dir == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			return fmt.Errorf("nats.dir has no default: %w", err)
		}
		c.NATS.Dir = filepath.Join(cache, "gvrwatch-relay")
	}
	if c.Replica.ID == "" {
		host, err := os.Hostname()
		if err != nil {
			host = "relay"
		}
		c.Replica.ID = host + "-" + rand.Text()[:6]
	}
	if err := c.check(); err != nil {
		return err
	}
	_, err := newSelector(c)
	return err
}

func orDuration(d metav1.Duration, other time.Duration) metav1.Duration {
	return metav1.Duration{Duration: cmp.Or(d.Duration, other)}
}

var (
	streamName = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)
	prefixName = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)
)

// validURLs reports whether nats.go can use all URLs of a list.
func validURLs(list string) bool {
	for text := range strings.SplitSeq(list, ",") {
		if text = strings.TrimSpace(text); !strings.Contains(text, "://") {
			text = "nats://" + text
		}
		u, err := url.Parse(text)
		if err != nil || u.Hostname() == "" || !slices.Contains([]string{"nats", "tls", "ws", "wss"}, u.Scheme) {
			return false
		}
	}
	return true
}

const longestName = 253 // bytes: subjects of NATS have it, and may have three bytes for each

const minLogBytes = 1 << 20 // about one message, as NATS limits them

func (c *Config) check() error {
	invalid := func(field string, value any, must string) error {
		return fmt.Errorf("invalid %s %q: must be %s", field, fmt.Sprint(value), must)
	}
	var level slog.Level
	switch {
	case c.NATS.URL != "" && c.NATS.Dir != "":
		return invalid("nats.dir", c.NATS.Dir, "empty if nats.url is set: the folder is that of the embedded server")
	case c.NATS.URL != "" && !validURLs(c.NATS.URL):
		// It is not printed, since it may have a password.
		return errors.New("invalid nats.url: must be URLs such as nats://host:4222, separated by commas, " +
			"with special characters of passwords as %XX")
	case (c.NATS.Certificate == "") != (c.NATS.Key == ""):
		return invalid("nats.certificate", c.NATS.Certificate, "set together with nats.key")
	case !streamName.MatchString(c.Log.Stream):
		return invalid("log.stream", c.Log.Stream, "letters, digits, - and _")
	case !prefixName.MatchString(c.Log.Prefix):
		return invalid("log.prefix", c.Log.Prefix, "letters, digits, - and _")
	case c.Log.History < 1:
		return invalid("log.history", c.Log.History, "at least 1")
	case c.Log.Copies != 1 && c.Log.Copies != 3 && c.Log.Copies != 5:
		return invalid("log.copies", c.Log.Copies, "1, 3 or 5")
	case c.Log.KeepDeleted.Duration < time.Second:
		return invalid("log.keepDeleted", c.Log.KeepDeleted.Duration, "at least 1s")
	case c.Log.MaxBytes < 0, c.Log.MaxBytes > 0 && c.Log.MaxBytes < minLogBytes:
		return invalid("log.maxBytes", c.Log.MaxBytes, fmt.Sprintf("0, for no limit, or at least %d", minLogBytes))
	case len(c.Replica.ID) > longestName:
		return invalid("replica.id", c.Replica.ID[:20]+"...", fmt.Sprintf("of at most %d bytes", longestName))
	case c.Replica.Lease.Duration < time.Second || c.Replica.Lease.Duration > 24*time.Hour:
		return invalid("replica.lease", c.Replica.Lease.Duration, "at least 1s and at most 24h")
	case c.Replica.Grace.Duration < time.Second:
		return invalid("replica.grace", c.Replica.Grace.Duration, "at least 1s")
	case c.Queue.Overflow != OverflowBlock && c.Queue.Overflow != OverflowLatest:
		return invalid("queue.overflow", c.Queue.Overflow, "block or latest")
	case c.Queue.Bytes < 1<<10:
		return invalid("queue.bytes", c.Queue.Bytes, "at least 1024")
	case level.UnmarshalText([]byte(c.LogLevel)) != nil:
		return invalid("logLevel", c.LogLevel, "debug, info, warn or error")
	}
	if _, err := labels.Parse(c.Selection.LabelSelector); err != nil {
		return fmt.Errorf("invalid selection.labelSelector: %w", err)
	}
	names := map[string]bool{}
	for i, cluster := range c.Clusters {
		if cluster.Name != "" && names[cluster.Name] {
			return invalid(fmt.Sprintf("clusters[%d].name", i), cluster.Name, "unique")
		}
		if len(cluster.Name) > longestName {
			return invalid(fmt.Sprintf("clusters[%d].name", i), cluster.Name[:20]+"...",
				fmt.Sprintf("of at most %d bytes", longestName))
		}
		names[cluster.Name] = true
	}
	for i, r := range c.Rules {
		field := fmt.Sprintf("rules[%d]", i)
		if r.Resource == "" {
			return invalid(field+".resource", "", "the name or pattern of a resource")
		}
		if _, err := labels.Parse(r.LabelSelector); err != nil {
			return fmt.Errorf("invalid %s.labelSelector: %w", field, err)
		}
		if _, err := fields.ParseSelector(r.FieldSelector); err != nil {
			return fmt.Errorf("invalid %s.fieldSelector: %w", field, err)
		}
	}
	return nil
}
