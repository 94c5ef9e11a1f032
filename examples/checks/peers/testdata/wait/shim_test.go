package wait

import (
	"context"
	"errors"
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/cli-runtime/pkg/resource"

	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/condition"
)

func IsDeleted(ctx context.Context, info *resource.Info, o *WaitOptions) (runtime.Object, bool, error) {
	return waitFor(ctx, info, o, "delete")
}

func IsCreated(ctx context.Context, info *resource.Info, o *WaitOptions) (runtime.Object, bool, error) {
	return waitFor(ctx, info, o, "create")
}

// ConditionalWait is condition=NAME=STATUS.
type ConditionalWait struct {
	conditionName, conditionStatus string
	errOut                         io.Writer
}

func (w ConditionalWait) text() string {
	return "condition=" + w.conditionName + "=" + w.conditionStatus
}

func (w ConditionalWait) IsConditionMet(ctx context.Context, info *resource.Info, o *WaitOptions) (
	runtime.Object, bool, error) {
	return waitFor(ctx, info, o, w.text())
}

func (w ConditionalWait) checkCondition(o *unstructured.Unstructured) (bool, error) {
	println("peers: ours")
	c, err := condition.Parse(w.text())
	if err != nil {
		return false, err
	}
	return c.Met(o)
}

// JSONPathWait is jsonpath={PATH}, with =VALUE unless any will do.
type JSONPathWait struct {
	matchAnyValue  bool
	jsonPathValue  string
	jsonPathParser string
	errOut         io.Writer
}

func newJSONPathParser(expression string) (string, error) { return expression, nil }

func (j JSONPathWait) IsJSONPathConditionMet(ctx context.Context, info *resource.Info, o *WaitOptions) (
	runtime.Object, bool, error) {
	text := "jsonpath=" + j.jsonPathParser
	if !j.matchAnyValue {
		text += "=" + j.jsonPathValue
	}
	return waitFor(ctx, info, o, text)
}

// conditionFuncsFor is what reads --for.
func conditionFuncsFor(texts []string, _ io.Writer) ([]ConditionFunc, error) {
	println("peers: ours")
	var all []ConditionFunc
	for _, text := range texts {
		if _, err := condition.Parse(text); err != nil {
			return nil, err
		}
		all = append(all, func(ctx context.Context, info *resource.Info, o *WaitOptions) (runtime.Object, bool, error) {
			return waitFor(ctx, info, o, text)
		})
	}
	return all, nil
}

// waitFor is kubectl's watch loop, with its errors. client-go's fake panics when it is asked to list what it does not
// know: that is an error here, so that the other tests run.
func waitFor(ctx context.Context, info *resource.Info, o *WaitOptions, text string) (
	_ runtime.Object, met bool, err error) {
	println("peers: ours")
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	if info.Name == "" {
		return nil, false, errors.New("resource name must be provided")
	}
	c, err := condition.Parse(text)
	if err != nil {
		return nil, false, err
	}
	options := &stream.Options{Name: info.Name}
	if info.Namespace != "" {
		options.Namespaces = []string{info.Namespace}
	}
	of := ResourceLocation{info.Mapping.Resource.GroupResource(), info.Namespace, info.Name}
	if uid, ok := o.UIDMap[of]; ok {
		options.Select = func(m stream.Meta) bool { return m.GetUID() == uid }
	}
	s, err := stream.New(o.DynamicClient, gvr.Resource{
		GroupVersionResource: info.Mapping.Resource, Namespaced: info.Namespace != "",
	}, options)
	if err != nil {
		return nil, false, err
	}
	var run stream.Run
	if o.Timeout == 0 {
		run.Until = stream.UntilSynced
	}
	err = condition.Wait(ctx, s.With(run), condition.Target{For: c, Namespace: info.Namespace, Name: info.Name})
	switch {
	case err == nil:
		return &unstructured.Unstructured{}, true, nil
	case errors.Is(err, stream.ErrUnmet):
		err = fmt.Errorf("condition not met for %s: %w", info.ObjectName(), err)
	case ctx.Err() != nil:
		err = fmt.Errorf("%w on %s/%s: %w", wait.ErrorInterrupted(nil), of.GroupResource.Resource, info.Name, err)
	}
	return nil, false, err
}
