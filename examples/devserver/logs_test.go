package devserver_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"

	"github.com/gvrwatch/gvrwatch/examples/devserver"
)

// childEnv is an environment variable that makes the test binary run a server. Its value is "exercise", or a data
// folder to serve until interrupted, to try a server by hand with kubectl.
const childEnv = "DEVSERVER_TEST_CHILD"

func TestMain(m *testing.M) {
	switch task := os.Getenv(childEnv); task {
	case "":
		flag.Set("test.parallel", "8") // unless -parallel is given: the tests mostly wait
		os.Exit(m.Run())
	case "exercise":
		if err := exercise(); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
	default:
		if err := serve(task); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
	}
}

func serve(dir string) error {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	began := time.Now()
	s, err := devserver.Start(ctx, &devserver.Options{Dir: dir})
	if err != nil {
		return err
	}
	status, _ := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(status)) {
		if strings.HasPrefix(line, "VmRSS") {
			fmt.Print(line)
		}
	}
	fmt.Println("started in", time.Since(began), s.URL(), s.Kubeconfig())
	<-ctx.Done()
	began = time.Now()
	err = s.Stop()
	fmt.Println("stopped in", time.Since(began))
	return err
}

// exercise makes the server and client-go log: its child process must print nothing.
func exercise() error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	dir, err := os.MkdirTemp("", "devserver-test-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	opts := &devserver.Options{Dir: dir, DisableWatchCache: true}
	s, err := devserver.Start(ctx, opts)
	if err != nil {
		return err
	}
	client, err := dynamic.NewForConfig(s.Config())
	if err != nil {
		return err
	}
	if err := devserver.CreateCRDs(ctx, client, widgetCRD); err != nil {
		return err
	}
	// The etcd client warns of each request that is cancelled in flight.
	var wg sync.WaitGroup
	for i := range 400 {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, time.Duration(i%100)*30*time.Microsecond)
			defer cancel()
			patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"n":"%d"}}}`, i)
			client.Resource(crds).Patch(
				ctx, "widgets.test.example.com", types.MergePatchType, patch, metav1.PatchOptions{})
		})
	}
	wg.Wait()
	// An informer warns when its server stops.
	informers := dynamicinformer.NewDynamicSharedInformerFactory(client, 0)
	informers.ForResource(widgets).Informer()
	informers.Start(ctx.Done())
	informers.WaitForCacheSync(ctx.Done())
	if err := s.Stop(); err != nil {
		return err
	}
	client.Resource(widgets).List(ctx, metav1.ListOptions{}) // fails, and gives the informer time to notice
	opts.Port = s.Port()
	if s, err = devserver.Start(ctx, opts); err != nil {
		return err
	}
	return s.Stop()
}

func TestSilence(t *testing.T) {
	t.Parallel()
	child := exec.CommandContext(t.Context(), os.Args[0])
	child.Env = append(os.Environ(), childEnv+"=exercise")
	output, err := child.CombinedOutput()
	if err != nil || len(output) > 0 {
		t.Errorf("without LogTo a server must print nothing: %v, output:\n%s", err, output)
	}
}

func TestLogTo(t *testing.T) {
	t.Parallel()
	var logs syncBuffer
	s := start(t, &devserver.Options{LogTo: &logs})
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	text := logs.String()
	if !strings.Contains(text, "apiextensions") {
		t.Errorf("the log has no line of the API server:\n%s", text)
	}
}

type syncBuffer struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.String()
}
