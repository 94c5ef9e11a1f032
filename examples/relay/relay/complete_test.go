package relay_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gvrwatch/gvrwatch/examples/relay/relay"
)

func TestCompleteDefaults(t *testing.T) {
	t.Setenv("HOME", "/home/somebody")
	t.Setenv("XDG_CACHE_HOME", "/cache")
	for _, test := range []struct {
		why   string
		given relay.Config
		want  func(*relay.Config) // changes the defaults
	}{
		{"nothing is given", relay.Config{}, func(*relay.Config) {}},
		{
			"a category selects something already",
			relay.Config{Selection: relay.Selection{Categories: []string{"all"}}},
			func(c *relay.Config) { c.Selection = relay.Selection{Categories: []string{"all"}} },
		},
		{
			"a server that is given needs no folder", relay.Config{NATS: relay.NATS{URL: "nats://h:4222"}},
			func(c *relay.Config) { c.NATS = relay.NATS{URL: "nats://h:4222"} },
		},
		{
			"what is given stays", relay.Config{Log: relay.Log{Stream: "A", Prefix: "a", History: 1, Copies: 3}},
			func(c *relay.Config) {
				c.Log.Stream, c.Log.Prefix, c.Log.History, c.Log.Copies = "A", "a", 1, 3
			},
		},
	} {
		t.Run(test.why, func(t *testing.T) {
			want := relay.Config{
				Selection: relay.Selection{Resources: []string{"*"}},
				NATS:      relay.NATS{Dir: "/cache/gvrwatch-relay"},
				Log: relay.Log{
					Stream: "K8S", Prefix: "k8s", History: 16, Copies: 1,
					KeepDeleted: metav1.Duration{Duration: 24 * time.Hour},
				},
				Replica: relay.Replica{
					ID: "r", Lease: metav1.Duration{Duration: 15 * time.Second},
					Grace: metav1.Duration{Duration: 25 * time.Second},
				},
				Queue: relay.Queue{Overflow: "block", Bytes: 64 << 20}, LogLevel: "info",
			}
			test.want(&want)
			test.given.Replica.ID = "r"
			if err := test.given.Complete(); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(want, test.given); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
		})
	}
}

func TestCompleteRefuses(t *testing.T) {
	second := metav1.Duration{Duration: time.Second - 1}
	const urls = "invalid nats.url: must be URLs such as nats://host:4222, separated by commas, with special " +
		"characters of passwords as %XX"
	for _, test := range []struct {
		why  string
		make func(*relay.Config)
		want string
	}{
		{
			"the embedded server has a folder, others none",
			func(c *relay.Config) { c.NATS.URL, c.NATS.Dir = "nats://h", "/d" },
			`invalid nats.dir "/d": must be empty if nats.url is set: the folder is that of the embedded server`},
		{"a certificate without its key", func(c *relay.Config) { c.NATS.Certificate = "c" },
			`invalid nats.certificate "c": must be set together with nats.key`},
		{"a key without its certificate", func(c *relay.Config) { c.NATS.Key = "k" },
			`invalid nats.certificate "": must be set together with nats.key`},
		{"a dot separates tokens", func(c *relay.Config) { c.Log.Stream = "a.b" },
			`invalid log.stream "a.b": must be letters, digits, - and _`},
		{"a wildcard", func(c *relay.Config) { c.Log.Prefix = "*" },
			`invalid log.prefix "*": must be letters, digits, - and _`},
		{"the view needs the last message", func(c *relay.Config) { c.Log.History = -1 },
			`invalid log.history "-1": must be at least 1`},
		{"an even number has no majority", func(c *relay.Config) { c.Log.Copies = 2 },
			`invalid log.copies "2": must be 1, 3 or 5`},
		{"too short to be meant", func(c *relay.Config) { c.Log.KeepDeleted = second },
			`invalid log.keepDeleted "999.999999ms": must be at least 1s`},
		{"less than nothing", func(c *relay.Config) { c.Log.MaxBytes = -1 },
			`invalid log.maxBytes "-1": must be 0, for no limit, or at least 1048576`},
		{"a stream that is full at once", func(c *relay.Config) { c.Log.MaxBytes = 1000 },
			`invalid log.maxBytes "1000": must be 0, for no limit, or at least 1048576`},
		{"the scheme of the monitoring port", func(c *relay.Config) { c.NATS.URL = "http://h:8222" }, urls},
		{"a server without a name", func(c *relay.Config) { c.NATS.URL = "nats://h,nats://:4222" }, urls},
		{"a short lease", func(c *relay.Config) { c.Replica.Lease = second },
			`invalid replica.lease "999.999999ms": must be at least 1s and at most 24h`},
		{"units that nobody takes over", func(c *relay.Config) { c.Replica.Lease.Duration = 1e6 * time.Hour },
			`invalid replica.lease "1000000h0m0s": must be at least 1s and at most 24h`},
		{"an ID that ends the connection to NATS", func(c *relay.Config) { c.Replica.ID = strings.Repeat("r", 5000) },
			`invalid replica.id "rrrrrrrrrrrrrrrrrrrr...": must be of at most 253 bytes`},
		{
			"a name that no subject can have",
			func(c *relay.Config) { c.Clusters = []relay.Cluster{{Name: strings.Repeat("c", 5000)}} },
			`invalid clusters[0].name "cccccccccccccccccccc...": must be of at most 253 bytes`},
		{"a short grace period", func(c *relay.Config) { c.Replica.Grace = second },
			`invalid replica.grace "999.999999ms": must be at least 1s`},
		{"an unknown policy", func(c *relay.Config) { c.Queue.Overflow = "drop" },
			`invalid queue.overflow "drop": must be block or latest`},
		{"too small to be meant", func(c *relay.Config) { c.Queue.Bytes = 1 },
			`invalid queue.bytes "1": must be at least 1024`},
		{"an unknown level", func(c *relay.Config) { c.LogLevel = "loud" },
			`invalid logLevel "loud": must be debug, info, warn or error`},
		{
			"subjects of two clusters would be the same",
			func(c *relay.Config) { c.Clusters = []relay.Cluster{{Name: "a"}, {Name: "a"}} },
			`invalid clusters[1].name "a": must be unique`},
		{
			"a password with a slash, which is not printed",
			func(c *relay.Config) { c.NATS.URL = "nats://h,u:pass/word@h" },
			urls},
		{"a rule for nothing", func(c *relay.Config) { c.Rules = []relay.Rule{{}} },
			`invalid rules[0].resource "": must be the name or pattern of a resource`},
	} {
		t.Run(test.why, func(t *testing.T) {
			var c relay.Config
			test.make(&c)
			got := ""
			if err := c.Complete(); err != nil {
				got = err.Error()
			}
			if d := cmp.Diff(test.want, got); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
		})
	}
}

// Of these the sentence after the field is that of another package.
func TestCompleteNamesTheField(t *testing.T) {
	for _, test := range []struct {
		field string
		make  func(*relay.Config)
	}{
		{"invalid selection.labelSelector: ", func(c *relay.Config) { c.Selection.LabelSelector = "a in" }},
		{"invalid selection.resources: ", func(c *relay.Config) { c.Selection.Resources = []string{"a/b/c/d"} }},
		{"invalid selection: ", func(c *relay.Config) { c.Selection.Resources = []string{"*["} }},
		{"invalid rules[0].labelSelector: ", func(c *relay.Config) {
			c.Rules = []relay.Rule{{Resource: "pods", LabelSelector: "a in"}}
		}},
		{"invalid rules[0].fieldSelector: ", func(c *relay.Config) {
			c.Rules = []relay.Rule{{Resource: "pods", FieldSelector: "a"}}
		}},
		{"invalid rules[0]: ", func(c *relay.Config) {
			c.Rules = []relay.Rule{{Resource: "pods", Redact: []string{"$["}}}
		}},
	} {
		t.Run(test.field, func(t *testing.T) {
			var c relay.Config
			test.make(&c)
			err := c.Complete()
			if err == nil || len(err.Error()) <= len(test.field) || err.Error()[:len(test.field)] != test.field {
				t.Errorf("error %v, want %q and the reason", err, test.field)
			}
		})
	}
}
