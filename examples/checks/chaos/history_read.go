package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

const historyHelp = `chaos history writes what happens in an etcd to its standard output, as it happens, for chaos
check. It begins with the oldest revision that is not compacted, and ends with Ctrl-C or after -for.

	chaos history -etcd https://127.0.0.1:2379 -ca ca.crt -cert client.crt -key client.key > history.jsonl

`

// readEtcd is the command history. It returns the exit status.
func readEtcd(args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("chaos history", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {
		fmt.Fprint(stderr, historyHelp)
		flags.PrintDefaults()
	}
	o := etcdOptions{poll: etcdPoll}
	endpoints := flags.String("etcd", "", "addresses of etcd, separated by commas")
	resources := flags.String("resources", "", "resources such as pods,deployments.apps; empty means all")
	flags.StringVar(&o.ca, "ca", "", "file with the certificate that etcd's is signed with")
	flags.StringVar(&o.cert, "cert", "", "file with a client's certificate")
	flags.StringVar(&o.key, "key", "", "file with the key of -cert")
	flags.StringVar(&o.prefix, "prefix", "/registry/", "of the keys of the API server")
	lasts := flags.Duration("for", 0, "how long to read; 0 means until Ctrl-C")
	others, err := parseMixed(flags, args)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil { // the flag set has printed it
		return cannotJudge
	}
	o.endpoints = split(*endpoints)
	for _, one := range split(*resources) {
		name, problem := resourceNamed(one)
		o.resources, err = append(o.resources, name), errors.Join(err, problem)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if *lasts > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, *lasts)
		defer cancel()
	}
	switch {
	case err != nil:
		err = fmt.Errorf("-resources: %w", err)
	case len(others) > 0 || len(o.endpoints) == 0 || o.prefix == "":
		err = errors.New("invalid arguments: must be flags, and -etcd one of them; -prefix must not be empty")
	case *lasts < 0:
		err = fmt.Errorf("invalid -for %v: must not be negative", *lasts)
	default:
		err = followEtcd(ctx, o, stdout, stderr)
	}
	if err != nil {
		fmt.Fprintln(stderr, "chaos history:", err)
		return cannotJudge
	}
	return 0
}

// etcdOptions say what is read of which etcd.
type etcdOptions struct {
	endpoints     []string
	ca, cert, key string // files
	prefix        string
	resources     []string
	poll          time.Duration // how often the revision is asked for
}

func (o etcdOptions) tls() (*tls.Config, error) {
	if o.ca == "" && o.cert == "" && o.key == "" {
		return nil, nil
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if o.ca != "" {
		pem, err := os.ReadFile(o.ca)
		if err != nil {
			return nil, err
		}
		if c.RootCAs = x509.NewCertPool(); !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("invalid -ca %s: must have certificates in PEM", o.ca)
		}
	}
	if o.cert != "" || o.key != "" {
		pair, err := tls.LoadX509KeyPair(o.cert, o.key)
		if err != nil {
			return nil, fmt.Errorf("invalid -cert %s and -key %s: %w", o.cert, o.key, err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

const (
	etcdAnswer = 10 * time.Second // for a request
	etcdPoll   = 5 * time.Second  // see etcdOptions
	etcdPage   = 500              // keys in a list
)

// followEtcd writes the history of an etcd until ctx ends.
func followEtcd(ctx context.Context, o etcdOptions, stdout, stderr io.Writer) error {
	secure, err := o.tls()
	if err != nil {
		return err
	}
	client, err := clientv3.New(clientv3.Config{
		Endpoints: o.endpoints, TLS: secure, DialTimeout: etcdAnswer, DialKeepAliveTime: etcdAnswer,
		DialKeepAliveTimeout: etcdAnswer, Logger: zap.NewNop(),
	})
	if err != nil {
		return err
	}
	defer client.Close()
	r := &etcdReader{
		options: o, client: client, out: json.NewEncoder(stdout), last: map[string]change{}, left: map[string]int{},
		wrote: map[string]int{},
	}
	for begun := false; !begun; {
		if begun, err = r.begin(ctx); err != nil {
			return err
		}
	}
	fmt.Fprintf(stderr, "chaos history: from revision %d on\n", r.from)
	err = r.follow(ctx)
	fmt.Fprintf(stderr, "chaos history: %d changes of %d resources up to revision %d\n",
		total(r.wrote), len(r.wrote), r.seen)
	for _, one := range o.resources {
		if r.wrote[one] == 0 {
			fmt.Fprintf(stderr, "chaos history: nothing of %s\n", one)
		}
	}
	for _, why := range slices.Sorted(maps.Keys(r.left)) {
		fmt.Fprintf(stderr, "chaos history: %d values were left out: %s\n", r.left[why], why)
	}
	return err
}

// etcdReader reads the history of an etcd.
type etcdReader struct {
	options etcdOptions
	client  *clientv3.Client
	out     *json.Encoder
	last    map[string]change // the last change of each key
	left    map[string]int    // values that are not in the history, by reason
	wrote   map[string]int    // changes by resource

	from, seen int64 // revisions
	past       int64 // changes up to this revision happened before they were read
}

func (r *etcdReader) get(ctx context.Context, key string, o ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, etcdAnswer)
	defer cancel()
	return r.client.Get(ctx, key, o...)
}

// begin writes what existed at the oldest revision that is not compacted. It reports false if that was compacted
// meanwhile.
func (r *etcdReader) begin(ctx context.Context) (bool, error) {
	now, err := r.get(ctx, r.options.prefix, clientv3.WithCountOnly(), clientv3.WithPrefix())
	if err != nil {
		return false, fmt.Errorf("read etcd's revision: %w", err)
	}
	r.past, r.from, r.seen = now.Header.Revision, 0, 0
	_, err = r.get(ctx, r.options.prefix, clientv3.WithRev(1), clientv3.WithLimit(1))
	if err == nil {
		return true, nil
	}
	if !errors.Is(err, rpctypes.ErrCompacted) {
		return false, fmt.Errorf("read etcd: %w", err)
	}
	watchCtx, cancel := context.WithTimeout(ctx, etcdAnswer)
	defer cancel()
	oldest := int64(0)
	for answer := range r.client.Watch(watchCtx, r.options.prefix, clientv3.WithRev(1)) {
		oldest = max(oldest, answer.CompactRevision)
	}
	if oldest == 0 {
		return false, fmt.Errorf("find etcd's oldest revision: %w", cmp.Or(watchCtx.Err(),
			errors.New("a watch from revision 1 has ended without it")))
	}
	objects, err := r.list(ctx, oldest)
	if err != nil || objects == nil {
		return false, err
	}
	r.from, r.seen = oldest, oldest
	err = r.out.Encode(historyLine{Type: lineHistory, ResourceVersion: fmt.Sprint(oldest)})
	for _, one := range objects {
		err = errors.Join(err, r.write(&clientv3.Event{Type: mvccpb.Event_PUT, Kv: one}))
	}
	return true, err
}

// list returns what existed at a revision, by revision, or nil if it is compacted.
func (r *etcdReader) list(ctx context.Context, revision int64) ([]*mvccpb.KeyValue, error) {
	objects := []*mvccpb.KeyValue{}
	from, end := r.options.prefix, clientv3.GetPrefixRangeEnd(r.options.prefix)
	for {
		page, err := r.get(ctx, from, clientv3.WithRange(end), clientv3.WithRev(revision), clientv3.WithLimit(etcdPage))
		if errors.Is(err, rpctypes.ErrCompacted) {
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("list etcd: %w", err)
		}
		objects = append(objects, page.Kvs...)
		if !page.More {
			break
		}
		from = string(page.Kvs[len(page.Kvs)-1].Key) + "\x00"
	}
	slices.SortStableFunc(objects, func(a, b *mvccpb.KeyValue) int { return int(a.ModRevision - b.ModRevision) })
	return objects, nil
}

// follow writes each change after what was read, until ctx ends, and then what happened before that.
func (r *etcdReader) follow(ctx context.Context) error {
	watchCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	answers := r.client.Watch(watchCtx, r.options.prefix, clientv3.WithPrefix(), clientv3.WithRev(r.seen+1),
		clientv3.WithProgressNotify(), clientv3.WithFragment())
	poll := time.NewTicker(r.options.poll)
	defer poll.Stop()
	done := ctx.Done()
	var end <-chan time.Time
	for {
		select {
		case answer, more := <-answers:
			if err := answer.Err(); err != nil || !more {
				return fmt.Errorf("watch etcd: the history ends at revision %d: %w", r.seen,
					cmp.Or(err, errors.New("its watch was closed")))
			}
			for _, ev := range answer.Events {
				if err := r.write(ev); err != nil {
					return err
				}
				r.seen = max(r.seen, ev.Kv.ModRevision)
			}
			if answer.IsProgressNotify() {
				if r.seen = max(r.seen, answer.Header.Revision); done == nil {
					return r.end()
				}
			}
		case <-poll.C:
			now, err := r.get(watchCtx, r.options.prefix, clientv3.WithCountOnly())
			if err == nil && now.Header.Revision < r.seen {
				return fmt.Errorf("etcd's revision went back from %d to %d: it was restored from a copy, and the "+
					"history ends there", r.seen, now.Header.Revision)
			}
		case <-done:
			done, end = nil, time.After(etcdAnswer)
			askCtx, stop := context.WithTimeout(watchCtx, r.options.poll) // it waits while etcd is down
			err := r.client.RequestProgress(askCtx)
			if stop(); err != nil {
				return r.end()
			}
		case <-end:
			return r.end()
		}
	}
}

func (r *etcdReader) end() error {
	return r.out.Encode(historyLine{Type: lineEnd, Time: time.Now(), ResourceVersion: fmt.Sprint(r.seen)})
}

// write writes the line of a change, unless it is of no object, or of one that is not wanted.
func (r *etcdReader) write(ev *clientv3.Event) error {
	key := string(ev.Kv.Key)
	c := change{Kind: deleted}
	if ev.Type == mvccpb.Event_DELETE {
		before, found := r.last[key]
		if !found {
			return nil
		}
		c = before
		c.Kind = deleted
		delete(r.last, key)
	} else {
		o, err := decodeStored(ev.Kv.Value)
		if errors.Is(err, errNoObject) {
			return nil
		}
		if err != nil {
			r.left[err.Error()]++
			return nil
		}
		c.Resource = resourceAt(key, o.kind)
		if len(r.options.resources) > 0 && !slices.Contains(r.options.resources, c.Resource) {
			return nil
		}
		c.Namespace, c.Name, c.UID, c.Labels = o.namespace, o.name, o.uid, o.labels
		if c.Kind = modified; ev.Kv.Version == 1 || r.last[key].UID == "" {
			c.Kind = added
		}
		r.last[key] = c
	}
	c.Revision = ev.Kv.ModRevision
	if c.Revision > r.past {
		c.At = time.Now()
	}
	r.wrote[c.Resource]++
	return r.out.Encode(changeLine(c))
}
