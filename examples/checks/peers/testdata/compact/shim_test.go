package cache

import (
	"reflect"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
)

// Ours is set by ours_test.go, which may import our package informer: that package imports this one.
var Ours func(ListerWatcher, runtime.Object, time.Duration) SharedIndexInformer

// oursInformer is a compact informer. What tests look at inside is client-go's informer, which it has inside, too.
type oursInformer struct {
	SharedIndexInformer // ours; its methods hide those of the other, which is deeper
	inside
}

type inside struct{ *sharedIndexInformer }

func newOursInformer(lw ListerWatcher, like runtime.Object, resync time.Duration) SharedInformer {
	ours := Ours(lw, like, resync)
	theirs := reflect.ValueOf(ours).Elem().FieldByName("SharedIndexInformer").Interface()
	return &oursInformer{ours, inside{theirs.(*sharedIndexInformer)}}
}
