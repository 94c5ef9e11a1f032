package relay

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gvrwatch/gvrwatch/mux"
)

// Config says what a relay publishes, and where. The file and the flags of the program set its fields.
type Config struct {
	// Clusters are those to watch. None means the current context of the kubeconfig or, within a Pod, its cluster.
	Clusters  []Cluster `json:"clusters,omitempty"`
	Selection Selection `json:"selection"`
	// Rules are for single resources.
	Rules   []Rule  `json:"rules,omitempty"`
	NATS    NATS    `json:"nats"`
	Log     Log     `json:"log"`
	Replica Replica `json:"replica"`
	Queue   Queue   `json:"queue"`
	Metrics Metrics `json:"metrics"`
	// Listen is the address of /metrics, /readyz and /healthz. Empty means none.
	Listen string `json:"listen,omitempty"`
	// LogLevel is debug, info, warn or error. Empty means info.
	LogLevel string `json:"logLevel,omitempty"`
}

// Cluster is an API server.
type Cluster struct {
	// Name is the cluster's in subjects and messages. Empty means the name of the context, or "cluster" within a Pod.
	Name       string `json:"name,omitempty"`
	Kubeconfig string `json:"kubeconfig,omitempty"` // a file; empty means as kubectl does
	Context    string `json:"context,omitempty"`    // empty means the current one
}

// Selection says which resources are published: see follow.Selection. Secrets are published only if Resources names
// them: patterns and categories do not select them.
type Selection struct {
	Resources  []string `json:"resources,omitempty"`
	Categories []string `json:"categories,omitempty"`
	Exclude    []string `json:"exclude,omitempty"`
	// Namespaces to watch. None means all.
	Namespaces []string `json:"namespaces,omitempty"`
	// LabelSelector applies to the resources that have none in their Rule.
	LabelSelector string `json:"labelSelector,omitempty"`
}

// Rule is for one resource.
type Rule struct {
	// Resource is a name or a pattern, as in Selection. The first rule that matches a resource is its rule. A rule
	// that matches nothing, or only what earlier rules match, is a problem in the status.
	Resource      string `json:"resource"`
	LabelSelector string `json:"labelSelector,omitempty"`
	FieldSelector string `json:"fieldSelector,omitempty"`
	// Redact are JSONPaths of values to replace by "REDACTED", such as "$.spec.containers[*].env[*].value":
	// see message.ParseRedaction. If there are any, managedFields are left out, because they may repeat values, and
	// annotations are replaced in which kubectl apply, kapp, Rancher or Banzai Cloud keep a copy of the object, or that
	// have an object or a list in JSON, gzip or zip. Other annotations may repeat values, too, and are published.
	Redact []string `json:"redact,omitempty"`
	// Unredacted publishes the data of Secrets, which are redacted without it.
	Unredacted bool `json:"unredacted,omitempty"`
	// Split makes each namespace a unit of its own, so that several replicas share the resource.
	Split bool `json:"split,omitempty"`
}

// NATS says how to connect.
type NATS struct {
	// URL is that of a server or, separated by commas, of several. Empty means an embedded server.
	URL         string `json:"url,omitempty"`
	Credentials string `json:"credentials,omitempty"` // a .creds file
	CA          string `json:"ca,omitempty"`          // PEM files
	Certificate string `json:"certificate,omitempty"`
	Key         string `json:"key,omitempty"`
	// Dir is the folder of the embedded server. Empty means "gvrwatch-relay" in the user's cache folder.
	Dir string `json:"dir,omitempty"`
}

// Log configures the stream. History, Copies and MaxBytes apply when the relay creates it.
type Log struct {
	// Stream is its name. Empty means K8S. Relays with other Streams and Prefixes may share a server.
	Stream string `json:"stream,omitempty"`
	// Prefix is the first token of its subjects. Empty means k8s.
	Prefix string `json:"prefix,omitempty"`
	// History is how many messages of each object are kept. 0 means 16.
	History int `json:"history,omitempty"`
	// KeepDeleted is how long the messages of a deleted object are kept at least. A relay removes them in rounds: each
	// quarter of that time, or each hour if that is less. 0 means 24 h.
	KeepDeleted metav1.Duration `json:"keepDeleted,omitempty"`
	// Copies is the number of servers that keep the stream: 1, 3 or 5. 0 means 1.
	Copies int `json:"copies,omitempty"`
	// MaxBytes is the size at which the stream is full and takes no more messages. 0 means no limit.
	MaxBytes int64 `json:"maxBytes,omitempty"`
}

// Replica configures this process among those that share the work.
type Replica struct {
	// ID distinguishes it. It has at most 253 bytes. Empty means the host's name and a random part.
	ID string `json:"id,omitempty"`
	// Lease is how long a replica that does not answer keeps its units: 1 s to 24 h. 0 means 15 s.
	Lease metav1.Duration `json:"lease,omitempty"`
	// Grace is how long the relay may take to end after SIGTERM. 0 means 25 s.
	Grace metav1.Duration `json:"grace,omitempty"`
}

// Queue configures what happens while the engine is slow or down.
type Queue struct {
	// Overflow is "block", which stops reading, or "latest", which goes on and keeps the newest event of each object.
	// Empty means block.
	Overflow string `json:"overflow,omitempty"`
	// Bytes is roughly the memory that the events that wait may take. 0 means 64 MiB.
	Bytes int64 `json:"bytes,omitempty"`
}

// Metrics configures what /metrics shows.
type Metrics struct {
	// Namespaces shows the units of a resource with split one by one, with the label "namespace". Without it they are
	// added up, and no metric names a namespace.
	Namespaces bool `json:"namespaces,omitempty"`
}

// shared identifies what the replicas of a relay must have in common.
func (c *Config) shared() string {
	return hash(c.Clusters, c.Selection, c.Rules, c.Log.Stream, c.Log.Prefix)
}

func hash(parts ...any) string {
	text, err := json.Marshal(parts)
	if err != nil {
		panic(err) // only strings, numbers and structs of them
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

// OverflowBlock and OverflowLatest are the values of Queue.Overflow.
const (
	OverflowBlock  = string(mux.Block)
	OverflowLatest = string(mux.Latest)
)
