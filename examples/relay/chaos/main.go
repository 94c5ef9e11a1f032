// Chaos breaks what a relay needs, and judges its log: three replicas, an API server with etcd, and a NATS server, each
// a process on loopback, while objects of six resources are created, changed, deleted and replaced.
//
//	go run ./examples/relay/chaos -for 10m -seed 1
//
// A fault at a time is chosen by the seed: replicas are killed, stopped (SIGSTOP) and restarted; the servers are killed
// and restarted, the API server with a compaction of etcd; a replica is cut off from a server by a proxy that swallows
// everything. In the end all is healed, the last messages of the objects must be what the API server lists, and the
// whole log is judged: see judge.go. No replica may panic, or not end after SIGTERM. The exit status is 1 if a promise
// is broken.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/gvrwatch/gvrwatch/examples/relay/engine"
	"k8s.io/klog/v2"
)

// options are the flags.
type options struct {
	seed   uint64
	length time.Duration
	lease  time.Duration
	number int // of replicas
	relay  string
	strict bool
}

func main() {
	var o options
	flag.Uint64Var(&o.seed, "seed", 1, "decides which faults occur")
	flag.DurationVar(&o.length, "for", time.Minute, "how long faults occur")
	flag.DurationVar(&o.lease, "lease", 2*time.Second, "the lease of the replicas")
	flag.IntVar(&o.number, "replicas", 3, "the number of replicas")
	flag.StringVar(&o.relay, "relay", "", "the relay's binary; default: built from ./examples/relay")
	flag.BoolVar(&o.strict, "strict", false, "judge how long takeovers take, too: not on a machine with other work")
	dir := flag.String("dir", "", "the folder of data and logs; default: a temporary one, removed if all is well")
	child := flag.String("child", "", "for this program's children: be a server instead")
	port := flag.Int("port", 0, "for this program's children")
	compact := flag.Bool("compact", false, "for this program's children")
	flag.Parse()
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	if *child != "" {
		if err := runChild(*child, *dir, *port, *compact); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o, *dir); err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options, dir string) (err error) {
	temporary := dir == ""
	if temporary {
		if dir, err = os.MkdirTemp("", "relay-chaos-"); err != nil {
			return err
		}
	}
	defer func() {
		if err == nil && temporary {
			_ = os.RemoveAll(dir)
		} else if err != nil {
			err = fmt.Errorf("%w\nseed %d; logs and data: %s", err, o.seed, dir)
		}
	}()
	if o.relay == "" {
		o.relay = filepath.Join(dir, "relay")
		build := exec.CommandContext(ctx, "go", "build", "-o", o.relay, "github.com/gvrwatch/gvrwatch/examples/relay")
		if out, err := build.CombinedOutput(); err != nil {
			return fmt.Errorf("build the relay: %w: %s", err, out)
		}
	}
	w := &world{options: o, dir: dir, replicas: map[string]*replica{}}
	defer w.stop()
	if err := w.start(ctx); err != nil {
		return err
	}
	writing, stopWriting := context.WithCancel(ctx)
	defer stopWriting()
	var writes []write
	var written sync.WaitGroup
	written.Go(func() { writes = writer(writing, w.client, rand.New(rand.NewPCG(o.seed, 1))) })
	occurred, err := w.breakThings(ctx)
	stopWriting()
	written.Wait()
	if err != nil {
		return err
	}
	log, exist, err := w.settled(ctx)
	if err != nil {
		return err
	}
	broken := judge(log, writes, exist)
	view, err := w.view(ctx)
	if err != nil {
		return err
	}
	if !maps.Equal(view, exist) {
		broken = append(broken, fmt.Sprintf("the view has %d objects, or others: want %d", len(view), len(exist)))
	}
	w.stop()
	panicked, err := w.panicked()
	if err != nil {
		return err
	}
	return w.report(occurred, len(writes), log, slices.Concat(broken, w.hung, panicked))
}

// breakThings lets faults occur, and counts them.
func (w *world) breakThings(ctx context.Context) (map[string]int, error) {
	r := rand.New(rand.NewPCG(w.options.seed, 2))
	occurred := map[string]int{}
	pause(ctx, 2*w.options.lease)
	for end := time.Now().Add(w.options.length); time.Now().Before(end) && ctx.Err() == nil; {
		f := choose(r)
		fmt.Printf("%s  %s\n", time.Now().Format(time.TimeOnly), f.name)
		if err := f.run(ctx, w, r); err != nil {
			return nil, fmt.Errorf("%s: %w", f.name, err)
		}
		occurred[f.name]++
		pause(ctx, some(r, 2*w.options.lease))
	}
	return occurred, ctx.Err()
}

// settled waits until the log is what the API server lists, at most a minute, and returns both.
func (w *world) settled(ctx context.Context) (log []record, exist map[string]string, err error) {
	for end := time.Now().Add(time.Minute); ; {
		if exist, err = existing(ctx, w.client); err == nil {
			log, err = w.readLog(ctx)
		}
		if err == nil && maps.Equal(exist, fold(log)) || time.Now().After(end) {
			return log, exist, err
		}
		pause(ctx, 500*time.Millisecond)
	}
}

// fold returns what exists according to the log, as a consumer would.
func fold(log []record) map[string]string {
	all := map[string]string{}
	for _, r := range log {
		switch m := r.message; {
		case m == nil || m.UID == "":
		case m.Type == engine.Deleted:
			delete(all, m.UID)
		default:
			all[m.UID] = m.ResourceVersion
		}
	}
	return all
}

func (w *world) report(occurred map[string]int, written int, log []record, broken []string) error {
	types, total := map[engine.Type]int{}, 0
	for _, r := range log {
		if r.message != nil {
			types[r.message.Type]++
			total++
		}
	}
	for _, name := range slices.Sorted(maps.Keys(occurred)) {
		fmt.Printf("%4d  %s\n", occurred[name], name)
	}
	fmt.Printf("%4d  writes\n%4d  messages: %v\n", written, total, types)
	var longest time.Duration
	for _, k := range w.kills {
		longest = max(longest, takeover(log, k.replica, k.at))
	}
	fmt.Printf("      longest takeover after a kill: %v (lease %v)\n", longest.Round(time.Millisecond), w.options.lease)
	if w.options.strict && longest > 2*w.options.lease {
		broken = append(broken, fmt.Sprintf("late takeover: %v, want at most two leases", longest))
	}
	for _, b := range broken[:min(len(broken), 20)] {
		fmt.Println("BROKEN", b)
	}
	fmt.Printf("%4d  broken promises\n", len(broken))
	if len(broken) > 0 {
		return fmt.Errorf("%d promises are broken", len(broken))
	}
	return nil
}
