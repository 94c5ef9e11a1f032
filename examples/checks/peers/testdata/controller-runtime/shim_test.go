package cache_test

import (
	"fmt"
	"strings"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/ginkgo/v2/types"

	cache "github.com/gvrwatch/gvrwatch/peers/controller-runtime"
)

// Each spec counts as a subtest, if it has made an informer of ours, or failed.
var (
	made int64 // before the spec
	_    = ginkgo.ReportAfterEach(func(r ginkgo.SpecReport) {
		before := made
		made = cache.Made.Load()
		result := "FAIL"
		switch {
		case r.State == types.SpecStateSkipped || r.State == types.SpecStatePassed && made == before:
			return
		case r.State == types.SpecStatePassed:
			result = "PASS"
		}
		name := "TestSource/" + strings.NewReplacer(" ", "_", "/", "-").Replace(strings.TrimSpace(r.FullText()))
		// What package testing prints for test2json.
		fmt.Printf("\n\x16=== RUN   %s\n%s\n\x16--- %s: %s (%.2fs)\n\x16=== NAME  TestSource\n",
			name, r.Failure.Message, result, name, r.RunTime.Seconds())
	})
)
