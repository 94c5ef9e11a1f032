package compact

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"testing"

	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/gvrwatch/gvrwatch/stream/informer"
)

func TestMain(m *testing.M) {
	flag.Parse()
	_ = flag.Set("test.parallel", "12") // the tests compute little, and wait often
	// client-go and controller-runtime log the faults of the tests.
	klog.SetLogger(klog.New(log.NullLogSink{}))
	ctrl.SetLogger(klog.New(log.NullLogSink{}))
	os.Exit(m.Run())
}

// row is a row of the table.
type row struct {
	why       string
	configure func(kind, *cache.Options)
	do        func(*pair)
	// only: these kinds, instead of all.
	only []string
	// long: it waits for seconds, so that one kind is enough unless the tests are long.
	long bool
	// paged: only before a server without streaming lists.
	paged bool
}

func rows() []row {
	return slices.Concat(readRows(), optionRows(), indexRows(), eventRows(), faultRows())
}

// newCompact is what is compared with the plain cache.
var newCompact hook = informer.NewCompact

// TestCompactCacheIsThePlainCache is the table.
func TestCompactCacheIsThePlainCache(t *testing.T) {
	for _, paged := range []bool{false, true} {
		for _, r := range rows() {
			for _, k := range kinds() {
				if r.paged && !paged || r.only != nil && !slices.Contains(r.only, k.name) {
					continue
				}
				if r.long && k.name != "typed JSON" && os.Getenv(longVariable) == "" {
					continue
				}
				t.Run(fmt.Sprintf("%s/%s/paged %t", r.why, k.name, paged), func(t *testing.T) {
					t.Parallel()
					s := newServer(t)
					if paged {
						// A server without streaming lists: the reflector reads pages.
						if err := s.faults.Apply("initial 1-*: 422"); err != nil {
							t.Fatal(err)
						}
					}
					p := newPair(t, s, k, newCompact, r.configure)
					p.run(r.do)
					for _, d := range p.differences {
						t.Error(d)
					}
				})
			}
		}
	}
}

// longVariable makes the tests long: all kinds in all rows.
const longVariable = "GVRWATCH_COMPACT_LONG"
