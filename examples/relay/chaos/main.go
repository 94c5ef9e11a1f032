// Chaos breaks what a relay needs, and judges its log: three replicas, an API server with etcd, and a NATS server, each
// a process on loopback, while objects of six resources are created, changed, deleted and replaced.
//
//	go run ./examples/relay/chaos -for 10m -seed 1
//
// A fault at a time is chosen by the seed: replicas are killed, stopped (SIGSTOP) and restarted; the servers are killed
// and restarted, the API server with a compaction of etcd; a replica is cut off from a server by a proxy that swallows
// everything; NATS is slow, or its disk is full (Linux, as root). With -embedded the replicas share a NATS server that
// one of them runs, and faults befall that one more often. A second API server, in this process, has objects which NATS
// can't take among others.
//
// In the end all is healed, the last messages of the objects must be what the API servers list, and the whole log is
// judged: see judge.go. What relay status and /readyz say meanwhile is judged, too: see honest.go. No replica may
// panic, take much memory, or not end after SIGTERM. The exit status is 1 if a promise is broken.
package main

import (
	"bytes"
	"context"
	"errors"
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
	"strings"
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

	embedded bool
}

func main() {
	var o options
	flag.Uint64Var(&o.seed, "seed", 1, "decides which faults occur")
	flag.DurationVar(&o.length, "for", time.Minute, "how long faults occur")
	flag.DurationVar(&o.lease, "lease", 2*time.Second, "the lease of the replicas")
	flag.IntVar(&o.number, "replicas", 3, "the number of replicas")
	flag.StringVar(&o.relay, "relay", "", "the relay's binary; default: built from ./examples/relay")
	flag.BoolVar(&o.strict, "strict", false, "judge how long takeovers take, too: not on a machine with other work")
	flag.BoolVar(&o.embedded, "embedded", false, "let the replicas run NATS")
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
		dir, err = os.MkdirTemp("", "relay-chaos-")
	} else {
		err = os.MkdirAll(dir, 0o700)
	}
	if err != nil {
		return err
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
	defer func() {
		s := syscall.SIGTERM
		if ctx.Err() != nil {
			s = syscall.SIGKILL // whoever has stopped this program does not wait for long
		}
		w.stop(s)
		if w.disk == nil {
			return
		}
		if err != nil { // what is on the disk ends with it
			err = errors.Join(err, os.CopyFS(filepath.Join(dir, "nats.copy"), os.DirFS(w.disk.dir)))
		}
		err = errors.Join(err, w.disk.unmount())
	}()
	if err := w.start(ctx); err != nil {
		return err
	}
	working, stopWorking := context.WithCancel(ctx)
	sampling, stopSampling := context.WithCancel(ctx)
	var writes []acked
	var writers, samplers sync.WaitGroup
	defer samplers.Wait()
	defer stopSampling()
	defer writers.Wait()
	defer stopWorking()
	writers.Go(func() { writes = writer(working, w.client, rand.New(rand.NewPCG(o.seed, 1))) })
	writers.Go(func() { tenant(working, w.hostile, rand.New(rand.NewPCG(o.seed, 3))) })
	samplers.Go(func() { w.sampler.run(sampling, o.lease/2) })
	occurred, err := w.breakThings(ctx)
	stopWorking()
	writers.Wait()
	if err != nil {
		return err
	}
	e, err := w.settled(ctx)
	if err != nil {
		return err
	}
	stopSampling()
	samplers.Wait()
	broken, err := w.judged(ctx, e, writes)
	if err != nil {
		return err
	}
	logs, err := w.logs() // with the end of each replica, another one takes NATS over
	if err != nil {
		return err
	}
	w.stop(syscall.SIGTERM)
	panics, err := w.panicked()
	if err != nil {
		return err
	}
	broken = slices.Concat(broken, w.happened.memory(), w.happened.hung, panics)
	return w.report(occurred, len(writes), e.log, logs, broken)
}

// breakThings lets faults occur, and counts them.
func (w *world) breakThings(ctx context.Context) (map[string]int, error) {
	r := rand.New(rand.NewPCG(w.options.seed, 2))
	next, occurred := plan(possible(w.options.embedded, w.disk != nil), r), map[string]int{}
	pause(ctx, 2*w.options.lease)
	for end := time.Now().Add(w.options.length); time.Now().Before(end) && ctx.Err() == nil; {
		f := next()
		fmt.Printf("%s  %s\n", time.Now().Format(time.TimeOnly), f.name)
		if err := f.run(ctx, w, r); err != nil {
			return nil, fmt.Errorf("%s: %w", f.name, err)
		}
		occurred[f.name]++
		pause(ctx, some(r, 2*w.options.lease))
	}
	return occurred, ctx.Err()
}

// end is what there is at the end of a run: the log, and what exists in the clusters, by uid.
type end struct {
	log         []record
	exist, good map[string]string
}

// settled waits until the log is what the API servers list, at most a minute, and returns both.
func (w *world) settled(ctx context.Context) (e end, err error) {
	for end := time.Now().Add(time.Minute); ; {
		if e.good, err = good(ctx, w.hostile); err == nil {
			e.exist, err = existing(ctx, w.client)
		}
		if err == nil {
			e.log, err = w.readLog(ctx)
		}
		all := err == nil && maps.Equal(e.exist, fold(of(e.log, w.cluster))) && maps.Equal(e.good, fold(goodOf(e.log)))
		if all || time.Now().After(end) || ctx.Err() != nil {
			return e, err
		}
		pause(ctx, 500*time.Millisecond)
	}
}

// judged returns the promises that are broken while everything still runs, and nothing is broken any more.
func (w *world) judged(ctx context.Context, e end, writes []acked) ([]string, error) {
	real, tolerance := of(e.log, w.cluster), 2*w.options.lease+time.Second
	plain := make([]write, len(writes))
	for i, one := range writes {
		plain[i] = one.state
	}
	broken := slices.Concat(judge(real, plain, e.exist), judgeHostile(e.log, e.good),
		untrue(real, publications(real, writes), w.sampler.samples, w.happened.silent, w.happened.excused, tolerance))
	var all strings.Builder
	for _, s := range w.sampler.samples {
		fmt.Fprintln(&all, s)
	}
	if err := os.WriteFile(filepath.Join(w.dir, "samples.log"), []byte(all.String()), 0o600); err != nil {
		return nil, err
	}
	wrong, judged := denied(w.sampler.samples, w.happened.outages, tolerance)
	fmt.Printf("%4d  samples: %s; %d in outages\n", len(w.sampler.samples), counts(w.sampler.samples), judged)
	broken = append(broken, wrong...)
	view, err := w.view(ctx)
	if err != nil {
		return nil, err
	}
	if !maps.Equal(view, e.exist) {
		broken = append(broken, fmt.Sprintf("the view has %d objects, or others: want %d", len(view), len(e.exist)))
	}
	if err := w.wellAgain(ctx); err != nil {
		broken = append(broken, "not all is well in the end: "+err.Error())
	}
	if err := w.verify(ctx); err != nil {
		broken = append(broken, "verify: "+err.Error())
	}
	return broken, nil
}

// wellAgain waits until status and all replicas say that all is well, at most a minute.
func (w *world) wellAgain(ctx context.Context) (err error) {
	for end := time.Now().Add(time.Minute); ; {
		if err = w.sampler.wellNow(ctx); err == nil || time.Now().After(end) || ctx.Err() != nil {
			return err
		}
		pause(ctx, 500*time.Millisecond)
	}
}

// mostMemory is what a replica may take, in bytes.
const mostMemory = 400 << 20

func (h happened) memory() []string {
	if h.peak > mostMemory {
		return []string{fmt.Sprintf("%s has taken %d MB of memory, want %d at most", h.greatest, h.peak>>20,
			mostMemory>>20)}
	}
	return nil
}

func counts(samples []sample) string {
	all, well := map[bool]int{}, map[bool]int{}
	for _, s := range samples {
		all[s.replica == ""]++
		if s.well {
			well[s.replica == ""]++
		}
	}
	return fmt.Sprintf("status says %d of %d times that all is well, readyz %d of %d", well[true], all[true],
		well[false], all[false])
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

func (w *world) report(occurred map[string]int, written int, log []record, logs [][]byte, broken []string) error {
	types, names, total := map[engine.Type]int{}, map[string]int{}, 0
	for _, r := range log {
		if r.message != nil {
			types[r.message.Type]++
			total++
			names[r.message.Name]++
		}
	}
	for _, name := range slices.Sorted(maps.Keys(occurred)) {
		fmt.Printf("%4d  %s\n", occurred[name], name)
	}
	fmt.Printf("%4d  writes\n%4d  messages: %v\n", written, total, types)
	fmt.Printf("%4d  of these are of deep objects, %d of large ones, %d of ones with a long name\n", names["deep"],
		names["large"], names[longest])
	fmt.Printf("      most memory of a replica: %d MB\n", w.happened.peak>>20)
	if w.options.embedded {
		fmt.Printf("%4d  faults of the replica that ran NATS; another one has taken it over %d times\n",
			w.happened.toHost, bytes.Count(bytes.Join(logs, nil), []byte("this process runs NATS now")))
	}
	var longest time.Duration
	for _, k := range w.happened.kills {
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
