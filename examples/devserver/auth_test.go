package devserver_test

import (
	"sync/atomic"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/gvrwatch/gvrwatch/examples/devserver"
)

func TestLimitedUser(t *testing.T) {
	t.Parallel()
	var allowed atomic.Bool
	for _, test := range []struct {
		why   string
		allow func(authorizer.Attributes) bool
		grant bool
		want  bool
	}{
		{"a nil Allow denies everything", nil, true, false},
		{"Allow denies a request", func(authorizer.Attributes) bool { return allowed.Load() }, false, false},
		{"Allow may grant a permission later", func(authorizer.Attributes) bool { return allowed.Load() }, true, true},
	} {
		s := start(t, &devserver.Options{Allow: test.allow})
		createCRD(t, dynamicClient(t, s.Config()))
		client := dynamicClient(t, s.LimitedConfig())
		allowed.Store(false)
		list := func() error {
			_, err := client.Resource(widgets).List(t.Context(), metav1.ListOptions{})
			return err
		}
		if err := list(); !apierrors.IsForbidden(err) {
			t.Errorf("%s: before the permission was granted a list got %v, want 403", test.why, err)
		}
		allowed.Store(test.grant)
		err := list()
		if (err == nil) != test.want || err != nil && !apierrors.IsForbidden(err) {
			t.Errorf("%s: a list got %v, want it permitted: %v", test.why, err, test.want)
		}
		administrator := dynamicClient(t, s.Config())
		if _, err := administrator.Resource(widgets).List(t.Context(), metav1.ListOptions{}); err != nil {
			t.Errorf("%s: a list of the administrator got %v", test.why, err)
		}
	}
}
