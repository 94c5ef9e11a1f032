package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/procfs"
	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/gvrwatch/gvrwatch/discovery"
	"github.com/gvrwatch/gvrwatch/examples/devserver"
	clientdiscovery "k8s.io/client-go/discovery"
)

// BenchmarkTop measures the process of top, in a terminal of 120x50, while 200 of 20,000 objects change per second:
//
//	go test -run '^$' -bench '^BenchmarkTop$' -benchtime 1x -timeout 10m ./gvrwatch
//
// The server, which makes Tables, is this process. An object has about 3 KB. Cores is the time of the processor after
// everything that exists has been read, divided by the time that has passed.
func BenchmarkTop(b *testing.B) {
	const objects, perSecond, measured = 20_000, 200, 40 * time.Second
	drones := devserver.CRD{
		Group: "load.example.com", Kind: "Drone", Namespaced: true, Columns: []string{"battery", "job", "place"},
	}
	cfg := rest.CopyConfig(srv.Config())
	cfg.QPS = -1
	client, err := dynamic.NewForConfig(cfg)
	if err == nil {
		err = devserver.CreateCRDs(b.Context(), client, drones)
	}
	var known *clientdiscovery.DiscoveryClient
	if err == nil {
		known, err = clientdiscovery.NewDiscoveryClientForConfig(cfg)
	}
	if err == nil {
		err = awaitResource(b.Context(), discovery.NewResolver(known, 0), "drones")
	}
	if err != nil {
		b.Fatal(err)
	}
	c := client.Resource(drones.Resource()).Namespace("default")
	name := func(i int) string { return fmt.Sprintf("drone-%05d", i) }
	writers, ctx := errgroup.WithContext(b.Context())
	writers.SetLimit(16)
	for i := range objects {
		writers.Go(func() error {
			u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
				"battery": int64(100), "job": "drill", "place": "hall-7",
				"notes": strings.Repeat("what it has done; ", 130),
			}}}
			u.SetAPIVersion(drones.Resource().GroupVersion().String())
			u.SetKind(drones.Kind)
			u.SetName(name(i))
			_, err := c.Create(ctx, u, metav1.CreateOptions{})
			return err
		})
	}
	if err := writers.Wait(); err != nil {
		b.Fatal(err)
	}
	p := startInTerminal(b, 120, 50, nil, "top", "drones", "--kubeconfig", srv.Kubeconfig())
	began := time.Now()
	p.await("synced, 20000 objects")
	b.ReportMetric(time.Since(began).Seconds(), "s-to-sync")
	changing, stop := context.WithCancel(b.Context())
	defer stop()
	changed := make(chan int, 1)
	go func() {
		tick := time.NewTicker(time.Second / perSecond)
		defer tick.Stop()
		writers := errgroup.Group{}
		writers.SetLimit(32)
		for n := 0; ; n++ {
			select {
			case <-changing.Done():
				_ = writers.Wait()
				changed <- n
				return
			case <-tick.C:
			}
			writers.Go(func() error {
				patch := []byte(`{"spec":{"battery":` + strconv.Itoa(n%100) + `}}`)
				_, err := c.Patch(context.Background(), name(n*7919%objects), types.MergePatchType, patch,
					metav1.PatchOptions{})
				return err
			})
		}
	}()
	process, err := procfs.NewProc(p.pid())
	if err != nil {
		b.Fatal(err)
	}
	time.Sleep(5 * time.Second) // the first changes
	used := func() float64 {
		stat, err := process.Stat()
		if err != nil {
			b.Fatal(err)
		}
		return stat.CPUTime()
	}
	before, began := used(), time.Now()
	time.Sleep(measured)
	cores := (used() - before) / time.Since(began).Seconds()
	stat, err := process.Stat()
	if err != nil {
		b.Fatal(err)
	}
	last := p.shown()
	stop()
	b.ReportMetric(cores, "cores")
	b.ReportMetric(float64(stat.ResidentMemory())/(1<<20), "MB")
	b.ReportMetric(float64(<-changed)/(measured+5*time.Second).Seconds(), "events/s")
	b.ReportMetric(0, "ns/op")
	fmt.Fprintln(os.Stderr, strings.Join(append(last[:5:5], last[len(last)-1]), "\n"))
	p.keys("q")
	p.await("status 0")
	if cores > 0.5 {
		b.Errorf("top used %.2f cores, want less than half a core", cores)
	}
}
