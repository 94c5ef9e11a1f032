package stream_test

import (
	"context"
	"errors"
	"fmt"
	"iter"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	fakediscovery "k8s.io/client-go/discovery/fake"
	"k8s.io/client-go/dynamic"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	"github.com/gvrwatch/gvrwatch/discovery"
	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/internal/testing/bubbles"
	"github.com/gvrwatch/gvrwatch/mux"
	"github.com/gvrwatch/gvrwatch/mux/follow"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/condition"
	"github.com/gvrwatch/gvrwatch/stream/controller"
	"github.com/gvrwatch/gvrwatch/stream/informer"
	"github.com/gvrwatch/gvrwatch/stream/store"
)

// observe notes an event, after reading all that it has.
func (s *seen) observe(ev stream.Event) error {
	defer ev.Ack()
	if !ev.HasObject() {
		s.note(string(ev.Type), "")
		return nil
	}
	o, err := ev.Decode()
	if err == nil && o.GetName() != ev.Meta().GetName() {
		err = fmt.Errorf("Decode has the name %q, Meta %q", o.GetName(), ev.Meta().GetName())
	}
	if err == nil {
		s.note(string(ev.Type), o.GetName())
	}
	return err
}

// eventSource is a *stream.Sequence, a *mux.Mux or a *follow.Mux.
type eventSource interface {
	Events(context.Context) iter.Seq2[stream.Event, error]
}

func (s *seen) observeAll(ctx context.Context, from eventSource, err error) error {
	if err != nil {
		return err
	}
	for ev, err := range from.Events(ctx) {
		if err == nil {
			err = s.observe(ev)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func sequenceOf(c dynamic.Interface, s setup) (*stream.Sequence, error) {
	of, err := stream.New(c, widgets(), &s.Options)
	if err != nil {
		return nil, err
	}
	return of.With(s.Run), nil
}

func readStream(ctx context.Context, c dynamic.Interface, s setup, seen *seen) error {
	q, err := sequenceOf(c, s)
	return seen.observeAll(ctx, q, err)
}

func muxOf(c dynamic.Interface, s setup, o *mux.Options) (*mux.Mux, error) {
	q, err := sequenceOf(c, s)
	if err != nil {
		return nil, err
	}
	return mux.New(o, q)
}

func readMux(ctx context.Context, c dynamic.Interface, s setup, seen *seen) error {
	m, err := muxOf(c, s, nil)
	return seen.observeAll(ctx, m, err)
}

func readLatest(ctx context.Context, c dynamic.Interface, s setup, seen *seen) error {
	m, err := muxOf(c, s, &mux.Options{Overflow: mux.Latest})
	return seen.observeAll(ctx, m, err)
}

func readFollow(ctx context.Context, c dynamic.Interface, s setup, seen *seen) error {
	served := &fakediscovery.FakeDiscovery{Fake: &clienttesting.Fake{Resources: []*metav1.APIResourceList{{
		GroupVersion: "example.com/v1",
		APIResources: []metav1.APIResource{{
			Name: "widgets", SingularName: "widget", Kind: "Widget", Namespaced: true, Verbs: []string{"list", "watch"},
		}},
	}}}}
	selection := follow.Selection{Resources: []string{"widgets.example.com"}, Namespaces: s.Namespaces}
	s.Namespaces = nil
	m, err := follow.New(discovery.NewResolver(served, 0), c, selection, &follow.Options{
		Source: func(gvr.Resource) (stream.Options, stream.Run) { return s.Options, s.Run },
	})
	return seen.observeAll(ctx, m, err)
}

// followRefuses: see follow.Options.Source.
func followRefuses(s setup) string {
	switch {
	case s.Until != "":
		return "Source.Until"
	case s.Key != "":
		return "Source.Key"
	case !isZeroOrNow(s.Start):
		return "Source.Start"
	}
	return ""
}

func isZeroOrNow(s stream.Start) bool { return s == stream.Start{} || s == stream.Now() }

func readStore(ctx context.Context, c dynamic.Interface, s setup, seen *seen) error {
	return readStoreWith(ctx, c, s, seen, false)
}

func readPackedStore(ctx context.Context, c dynamic.Interface, s setup, seen *seen) error {
	return readStoreWith(ctx, c, s, seen, true)
}

func readStoreWith(ctx context.Context, c dynamic.Interface, s setup, seen *seen, compress bool) error {
	of, err := stream.New(c, widgets(), &s.Options)
	if err != nil {
		return err
	}
	colour := func(ev stream.Event) []string { return []string{ev.Meta().GetLabels()["colour"]} }
	objects, err := store.New(of, &store.Options{
		Compress: compress, Indexes: map[string]func(stream.Event) []string{"colour": colour},
	})
	if err != nil {
		return err
	}
	err = objects.Run(ctx)
	all, listErr := objects.List(store.Query{})
	if listErr != nil {
		return listErr
	}
	for o := range all {
		decoded, err := o.Decode()
		if err != nil {
			return err
		}
		seen.set(decoded.GetName(), true)
	}
	return err
}

func readController(ctx context.Context, c dynamic.Interface, s setup, seen *seen) error {
	q, err := sequenceOf(c, s)
	if err != nil {
		return err
	}
	return controller.Run(ctx, q.Events(ctx),
		func(_ context.Context, _ controller.Key, ev stream.Event) (controller.Result, error) {
			return controller.Result{}, seen.observe(ev)
		}, &controller.Options{Workers: 1})
}

func readSource(ctx context.Context, c dynamic.Interface, s setup, seen *seen) error {
	q, err := sequenceOf(c, s)
	if err != nil {
		return err
	}
	src, err := controller.NewSource(q, func(ev stream.Event) []controller.Key {
		_ = seen.observe(ev)
		return []controller.Key{controller.KeyOf(ev)}
	}, nil)
	if err != nil {
		return err
	}
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[controller.Key]())
	defer queue.ShutDown()
	if err := src.Start(ctx, queue); err != nil {
		return err
	}
	if err := src.WaitForSync(ctx); err != nil {
		return err
	}
	return src.Wait(context.WithoutCancel(ctx))
}

func checkpointRefused(s setup) string {
	if s.Checkpoint != nil {
		return "Checkpoint"
	}
	return ""
}

// readCondition waits for what never is, and so reads all there is.
func readCondition(ctx context.Context, c dynamic.Interface, s setup, seen *seen) error {
	q, err := sequenceOf(c, s)
	if err != nil {
		return err
	}
	err = condition.Wait(ctx, q, condition.Target{For: condition.MustParse("jsonpath={.metadata.name}=none")})
	var unmet *condition.UnmetError
	ok := errors.As(err, &unmet)
	if !ok {
		return err
	}
	for target := range unmet.Unmet {
		if target.Name != "" { // else it says that there are no objects
			seen.set(target.Name, true)
		}
	}
	return nil
}

func conditionRefuses(s setup) string {
	if s.Checkpoint != nil || s.Start != (stream.Start{}) {
		return "source"
	}
	return ""
}

func readWatch(ctx context.Context, c dynamic.Interface, s setup, seen *seen) error {
	q, err := sequenceOf(c, s)
	if err != nil {
		return err
	}
	return seen.observeWatch(informer.Watch(ctx, q))
}

func (s *seen) observeWatch(w apiwatch.Interface) error {
	for ev := range w.ResultChan() {
		switch o := ev.Object.(type) {
		case *unstructured.Unstructured:
			if ev.Type != apiwatch.Bookmark {
				s.note(string(ev.Type), o.GetName())
			}
		default:
			return apierrors.FromObject(o)
		}
	}
	return nil
}

func readListerWatcher(ctx context.Context, c dynamic.Interface, s setup, seen *seen) error {
	of, err := stream.New(c, widgets(), &s.Options)
	if err != nil {
		return err
	}
	l := informer.NewListerWatcher(of)
	listed, err := l.ListWithContext(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	list := listed.(*unstructured.UnstructuredList)
	for _, o := range list.Items {
		seen.set(o.GetName(), true)
	}
	w, err := l.WatchWithContext(ctx, metav1.ListOptions{ResourceVersion: list.GetResourceVersion()})
	if err != nil {
		return err
	}
	return seen.observeWatch(w)
}

func readInformer(ctx context.Context, c dynamic.Interface, s setup, seen *seen) error {
	of, err := stream.New(c, widgets(), &s.Options)
	if err != nil {
		return err
	}
	i, err := informer.NewSharedIndexInformer(of, cache.SharedIndexInformerOptions{
		ResyncPeriod: bubbles.NoResync,
	})
	if err != nil {
		return err
	}
	i.RunWithContext(ctx)
	for _, o := range i.GetStore().List() {
		seen.set(o.(*unstructured.Unstructured).GetName(), true)
	}
	return nil
}
