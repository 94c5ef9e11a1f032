package main

// A suite is a folder of somebody's tests, and how our constructors take the place of theirs. Its shim is the folder of
// that name in testdata.
type suite struct {
	name   string
	module string   // of the tests
	folder string   // in the module
	ours   string   // what takes the place of what
	files  []string // whose tests run, and sources that these need
	// helpers are test files of which only functions are used.
	helpers []string
	// sources is set if the tests need more of their package than its exported names: its sources are copied, too. Then
	// own is the package of ours that imports it, copied with the name of the copy.
	sources bool
	own     string
	edits   []edit
	race    bool     // builds with the race detector
	env     []string // added to that of the tests
}

// An edit replaces text in the copied files whose names end with suffix. It must match at least once.
type edit struct{ suffix, old, new string }

const (
	clientGo          = "k8s.io/client-go"
	controllerRuntime = "sigs.k8s.io/controller-runtime"
	kubectl           = "k8s.io/kubectl"
	// runModule is the temporary module. Its path begins as the library's does, for the library's internal packages.
	runModule = "github.com/gvrwatch/gvrwatch/peers"
)

// detectors make client-go check that nobody changes what a cache keeps, and that a streamed list is what a second list
// says, which needs a server that answers it.
var detectors = []string{"KUBE_CACHE_MUTATION_DETECTOR=true", "KUBE_WATCHLIST_INCONSISTENCY_DETECTOR=true"}

var suites = []suite{
	{
		name: "dynamic", module: clientGo, folder: "dynamic",
		ours:  "stream.NewClient for dynamic.NewForConfig",
		files: []string{"client_test.go", "golden_test.go", "testdata"},
		edits: []edit{{"golden_test.go", `"k8s.io/client-go/dynamic"`, `"` + runModule + `/dynamic"`}},
	},
	{
		name: "dynamicinformer", module: clientGo, folder: "dynamic/dynamicinformer",
		ours:  "factory.New for NewDynamicSharedInformerFactory, stream.NewClient for dynamic.NewForConfig",
		files: []string{"informer_test.go"},
		edits: []edit{
			{"_test.go", `"k8s.io/client-go/dynamic"`, `"` + runModule + `/dynamic"`},
			{"_test.go", `"k8s.io/client-go/dynamic/dynamicinformer"`, `"` + runModule + `/dynamicinformer"`},
		},
	},
	{
		name: "watch", module: clientGo, folder: "tools/watch",
		ours: "informer.Watch for RetryWatcher, NewSharedIndexInformer for NewIndexerInformer",
		files: []string{
			"retrywatcher_test.go", "until.go", "until_test.go", "informerwatcher.go", "informerwatcher_test.go",
		},
		edits: []edit{
			{"informerwatcher.go", "cache.NewIndexerInformer(", "newIndexerInformer("},
			// Here the source of the informer hides that its client is client-go's fake.
			{
				"informerwatcher_test.go", "informerDoneCh := NewIndexerInformerWatcher(lw,",
				"informerDoneCh := NewIndexerInformerWatcher(cache.ToListWatcherWithWatchListSemantics(lw, fake),",
			},
			// cmp.Diff panics at their objects, and so would end all other tests when one differs.
			{
				"retrywatcher_test.go", "cmp.Diff(tc.expected, got)",
				"cmp.Diff(dump.Pretty(tc.expected), dump.Pretty(got))",
			},
		},
	},
	{
		name: "cache", module: clientGo, folder: "tools/cache",
		ours:    "NewSharedIndexInformer for theirs, NewListerWatcher as the source of reflectors and controllers",
		sources: true, own: "stream/informer",
		files: []string{"shared_informer_test.go", "controller_test.go", "reflector_test.go"},
		helpers: []string{
			"main_test.go", "util_test.go", "fifo_test.go", "delta_fifo_test.go", "the_real_fifo_test.go",
		},
		edits: []edit{
			{"shared_informer_test.go", "NewSharedInformer(", "newOursInformer("},
			{"shared_informer_test.go", "*sharedIndexInformer", "*oursInformer"},
			{"controller_test.go", "= NewInformer(", "= newOurs("},
			{"controller_test.go", "= NewTransformingInformer(", "= newOursTransforming("},
			{"controller_test.go", "New(cfg)", "newOursController(cfg)"},
			// Their source begins at version 0, which no API server has.
			{"util_test.go", "fcache.NewFakeControllerSource()", "newSource()"},
			{
				"controller_test.go", "\n\t\tsource := fcache.NewFakeControllerSource()\n",
				"\n\t\tsource := newSource()\n",
			},
			{"reflector_test.go", "NewReflector(lw, &v1.Pod{}, ", "NewReflector(ours(lw, &v1.Pod{}), &v1.Pod{}, "},
		},
	},
	{
		name: "compact", module: clientGo, folder: "tools/cache",
		ours:    "NewCompact for NewSharedInformer",
		sources: true, own: "stream/informer",
		files: []string{"shared_informer_test.go", "mutation_detector_test.go"},
		helpers: []string{
			"main_test.go", "util_test.go", "controller_test.go", "reflector_test.go",
			"fifo_test.go", "delta_fifo_test.go", "the_real_fifo_test.go",
		},
		edits: []edit{
			{"_test.go", "NewSharedInformer(", "newOursInformer("},
			{"_test.go", "*sharedIndexInformer", "*oursInformer"},
		},
		race: true, env: detectors,
	},
	{
		name: "compact-dynamic", module: clientGo, folder: "dynamic/dynamicinformer",
		ours:  "NewCompact in the place of NewSharedIndexInformer",
		files: []string{"informer.go", "interface.go", "informer_test.go"},
		edits: []edit{
			{"informer.go", "cache.NewSharedIndexInformerWithOptions(", "newCompact("},
			{"_test.go", `"k8s.io/client-go/dynamic/dynamicinformer"`, `"` + runModule + `/compact-dynamic"`},
		},
		race: true, env: detectors[:1],
	},
	{
		name: "compact-metadata", module: clientGo, folder: "metadata/metadatainformer",
		ours:  "NewCompact in the place of NewSharedIndexInformer",
		files: []string{"informer.go", "interface.go", "informer_test.go"},
		edits: []edit{{"informer.go", "cache.NewSharedIndexInformer(", "newCompact("}},
		race:  true, env: detectors[:1],
	},
	{
		name: "compact-fake", module: clientGo, folder: "testing/internal",
		ours:  "NewCompact for NewSharedIndexInformer, with a fake clientset",
		files: []string{"listandwatch_test.go"},
		edits: []edit{{"_test.go", "cache.NewSharedIndexInformer(", "newCompact("}},
		race:  true, env: detectors,
	},
	{
		name: "controller-runtime", module: controllerRuntime, folder: "pkg/cache",
		ours:  "NewCompact as the default of cache.Options.NewInformer, examples/devserver for envtest",
		files: []string{"cache_test.go", "cache_suite_test.go"},
		edits: []edit{
			{"_test.go", `"sigs.k8s.io/controller-runtime/pkg/cache"`, `"` + runModule + `/controller-runtime"`},
			{"_test.go", `"sigs.k8s.io/controller-runtime/pkg/envtest"`, `"` + runModule + `/envtest"`},
		},
		race: true, env: detectors,
	},
	{
		name: "wait", module: kubectl, folder: "pkg/cmd/wait",
		ours:  "condition.Parse and condition.Wait for the conditions and the watch loop",
		files: []string{"wait.go", "wait_test.go"},
		edits: []edit{
			{"wait.go", "func conditionFuncsFor(", "func theirFuncsFor("},
			{"wait.go", "func newJSONPathParser(", "func theirParser("},
		},
	},
}
