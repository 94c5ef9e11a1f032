package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	crclient "sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// contentsTime is how long a cache and its handlers may take to have what the server answered.
	contentsTime = 5 * time.Second
	// truthTime is how long it may take until a cache has what etcd has, when nothing is broken any more.
	truthTime = 15 * time.Second
)

// compare compares everything that can be read with what the server's answers lead to, and reports what the cache
// contains. While the answers change it begins again.
func (v *cacheView) compare(ctx context.Context) {
	ctx = context.WithoutCancel(ctx)
	for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		want := v.tape.now()
		has, err := v.look(ctx, want.objects)
		if v.tape.now().step != want.step && time.Since(began) < 2*contentsTime {
			continue
		}
		switch {
		case err == nil:
			v.report(has, "", want.unversioned)
			return
		case time.Since(began) > contentsTime || !err.passes:
			v.report(has, err.text, want.unversioned)
			return
		}
	}
}

// compareLast compares with etcd what the last cache contains.
func (v *cacheView) compareLast() {
	t := v.life.world.database.truth
	h := t.history()
	truth := h.view(scope{Resources: []string{v.info.resource()}})
	newest := len(h.epochs) - 1
	want := map[types.UID]string{}
	for _, k := range truth.cells(v.info.resource()) {
		for uid, f := range truth.state(k, newest, truth.end(k, newest)) {
			want[uid] = fmt.Sprint(f.Revision)
		}
	}
	for began := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		has, err := v.look(context.Background(), v.tape.now().objects)
		if err == nil && maps.Equal(has, want) {
			v.report(has, "", false)
			return
		}
		if time.Since(began) > truthTime {
			v.report(has, fmt.Sprintf("%s; at the end it has %v, and etcd %v", err, has, want), false)
			return
		}
	}
}

// difference says what is wrong with what was read.
type difference struct {
	text   string
	passes bool // if the cache has only not received yet what the server answered
}

func (d *difference) String() string {
	if d == nil {
		return "nothing else is wrong"
	}
	return d.text
}

// look reads the cache in all ways, compares that with what there should be, and then changes what it read. It returns
// the versions by uid.
func (v *cacheView) look(ctx context.Context, want map[string]crclient.Object) (map[types.UID]string, *difference) {
	reads := v.reads(ctx, want)
	var spoiled []crclient.Object
	defer func() {
		for _, o := range spoiled {
			spoil(o)
		}
	}()
	has := map[types.UID]string{}
	var first *difference
	for i, r := range reads {
		objects, err := r.read()
		if err != nil {
			return has, &difference{text: fmt.Sprintf("%s: %v", r.how, err)}
		}
		var lines []string
		got := map[string]bool{}
		for _, o := range objects {
			if !v.tape.isSent(o) {
				text := fmt.Sprintf("%s: %s is not what the server sent: %.300v", r.how, nameOf(o), o)
				return has, &difference{text: text}
			}
			if i == 0 {
				has[o.GetUID()] = o.GetResourceVersion()
			}
			switch expected := want[keyOf(o)]; {
			case got[keyOf(o)]:
				lines = append(lines, nameOf(o)+" is there twice")
			case expected == nil || !r.selects(expected):
				lines = append(lines, nameOf(o)+" should not be there")
			case versionOf(expected) != versionOf(o):
				lines = append(lines, nameOf(o)+" should be at "+expected.GetResourceVersion())
			}
			got[keyOf(o)] = true
		}
		for key, o := range want {
			if r.selects(o) && !got[key] {
				lines = append(lines, nameOf(o)+" is missing")
			}
		}
		if first == nil && len(lines) > 0 {
			slices.Sort(lines)
			first = &difference{text: r.how + ": " + strings.Join(lines[:min(3, len(lines))], "; "), passes: true}
		}
		if r.owned {
			spoiled = append(spoiled, objects...)
		}
	}
	if first == nil {
		first = v.lookAtHandler(want)
	}
	return has, first
}

// lookAtHandler compares what the first handler knows.
func (v *cacheView) lookAtHandler(want map[string]crclient.Object) *difference {
	versions := map[string]string{}
	for key, o := range want {
		versions[key] = versionOf(o)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if maps.Equal(versions, v.versions) {
		return nil
	}
	return &difference{text: fmt.Sprintf("the handler knows %v, and there is %v", v.versions, versions), passes: true}
}

// cacheRead is a way to read objects.
type cacheRead struct {
	how     string
	selects func(crclient.Object) bool
	owned   bool // whether the reader may change what it read
	read    func() ([]crclient.Object, error)
}

// reads returns all ways. The first one reads all objects.
func (v *cacheView) reads(ctx context.Context, want map[string]crclient.Object) []cacheRead {
	every := func(crclient.Object) bool { return true }
	var all []cacheRead
	list := func(how string, selects func(crclient.Object) bool, opts ...crclient.ListOption) {
		all = append(all, cacheRead{how, selects, true, func() ([]crclient.Object, error) {
			l := v.list()
			if err := v.reader.List(ctx, l, opts...); err != nil {
				return nil, err
			}
			items, err := meta.ExtractList(l)
			return objectsOf(items), err
		}})
	}
	list("List", every)
	in := func(c crclient.Object) bool { return selects(c.GetLabels()) }
	list("List by a label", in, crclient.MatchingLabels{selected: selectedValue})
	values := []string{"0", "1", "2", "3"}
	if v.as == metadataOnly {
		values = []string{selectedValue, "out"}
	}
	for _, value := range values {
		has := func(o crclient.Object) bool { return slices.Contains(indexed(o), value) }
		list("List by the index "+value, has, crclient.MatchingFields{earlyIndex: value})
		list("List by the late index "+value, has, crclient.MatchingFields{lateIndex: value})
	}
	if v.life.compact {
		list("List without a copy", every, crclient.UnsafeDisableDeepCopy)
	}
	if v.info.Namespaced {
		for _, namespace := range namespaces {
			inside := func(o crclient.Object) bool { return o.GetNamespace() == namespace }
			both := func(o crclient.Object) bool { return inside(o) && indexed(o)[0] == values[0] }
			list("List in "+namespace, inside, crclient.InNamespace(namespace))
			list("List by the index in "+namespace, both, crclient.InNamespace(namespace),
				crclient.MatchingFields{earlyIndex: values[0]})
			byIndex := func() ([]crclient.Object, error) {
				items, err := v.informer.GetIndexer().ByIndex(toolscache.NamespaceIndex, namespace)
				return objectsOf(items), err
			}
			all = append(all, cacheRead{"ByIndex of " + namespace, inside, v.life.compact, byIndex})
		}
	}
	get := func(opts ...crclient.GetOption) func() ([]crclient.Object, error) {
		return func() (objects []crclient.Object, err error) {
			for _, o := range want {
				got := v.object()
				err := v.reader.Get(ctx, crclient.ObjectKeyFromObject(o), got, opts...)
				if err == nil {
					objects = append(objects, got)
				} else if !apierrors.IsNotFound(err) {
					return nil, err
				}
			}
			return objects, nil
		}
	}
	all = append(all, cacheRead{"Get", every, true, get()})
	if v.life.compact {
		all = append(all, cacheRead{"Get without a copy", every, true, get(crclient.UnsafeDisableDeepCopy)})
	}
	return append(all, cacheRead{"the store's List", every, v.life.compact, func() ([]crclient.Object, error) {
		return objectsOf(v.informer.GetStore().List()), nil
	}})
}

func objectsOf[T any](items []T) []crclient.Object {
	objects := make([]crclient.Object, len(items))
	for i, o := range items {
		objects[i] = any(o).(crclient.Object)
	}
	return objects
}
