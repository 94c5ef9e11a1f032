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
		{"without Allow nothing is allowed", nil, true, false},
		{"Allow says no", func(authorizer.Attributes) bool { return allowed.Load() }, false, false},
		{"Allow says yes, later", func(authorizer.Attributes) bool { return allowed.Load() }, true, true},
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
			t.Errorf("%s: before it was granted a list got %v, want 403", test.why, err)
		}
		allowed.Store(test.grant)
		err := list()
		if (err == nil) != test.want || err != nil && !apierrors.IsForbidden(err) {
			t.Errorf("%s: a list got %v, want it allowed: %v", test.why, err, test.want)
		}
		if _, err := dynamicClient(t, s.Config()).Resource(widgets).List(t.Context(), metav1.ListOptions{}); err != nil {
			t.Errorf("%s: the administrator got %v", test.why, err)
		}
	}
}
