package guard_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"unicode/utf8"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"

	"github.com/gvrwatch/gvrwatch/internal/guard"
)

func TestRedactKeepsWhatPredicatesNeed(t *testing.T) {
	refused := &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	missing := runtime.NewMissingKindErr("hunter2")
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", errors.New("no"))
	long := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", errors.New(strings.Repeat("é", 5000)))
	for _, tt := range []struct {
		err  error
		same bool   // Redact changes nothing
		text string // if not the same; ends with *
		is   []error
		why  string
	}{
		{nil, true, "", nil, "no error"},
		{io.EOF, true, "", nil, "an ordinary error"},
		{forbidden, true, "", nil, "a Status with short texts"},
		{fmt.Errorf("x: %w", &url.Error{Op: "Get", URL: "https://a.test", Err: refused}), true, "", nil,
			"an error of the network"},
		{fmt.Errorf("%w: %w", context.Canceled, missing), false, "context canceled: an object lacks its kind",
			[]error{context.Canceled},
			"a text that quotes an object"},
		{fmt.Errorf("x: %w", &apierrors.UnexpectedObjectError{Object: &metav1.Status{Message: "hunter2"}}), false,
			"x: there is an object in the place of a Status", nil, "a quoted object"},
		{&url.Error{Op: "Get", URL: "https://a.test/" + strings.Repeat("p", 5000), Err: refused}, false,
			`Get "https://a.test/ppp*`, []error{refused, syscall.ECONNREFUSED}, "a long URL"},
		{fmt.Errorf("https://u:hunter2@a.test: %w", io.EOF), false, "https://***@a.test: EOF", []error{io.EOF},
			"a password"},
		{fmt.Errorf("x: %w", long), false, `x: pods is forbidden: éé*`, nil, "a long Status that is wrapped"},
		{&url.Error{Op: "parse", URL: "https://u:hunter2 @a.test", Err: io.EOF}, false, "invalid URL", []error{io.EOF},
			"a password in an invalid URL"},
		{utilerrors.NewAggregate([]error{missing, io.EOF}), false, "an object lacks its kind", nil,
			"an error that can't be compared"},
		{fmt.Errorf("%w", utilerrors.NewAggregate([]error{io.EOF})), true, "", nil, "nor can the wrapped one"},
	} {
		got := guard.Redact(tt.err)
		if tt.same {
			if fmt.Sprintf("%#v", got) != fmt.Sprintf("%#v", tt.err) {
				t.Errorf("%s: got %#v, want the same error", tt.why, got)
			}
			continue
		}
		text := got.Error()
		want, begins := strings.CutSuffix(tt.text, "*")
		if text != want && !begins || !strings.HasPrefix(text, want) || len(text) > 1<<10 || !utf8.ValidString(text) {
			t.Errorf("%s: got %q, want %q", tt.why, text, tt.text)
		}
		if apierrors.IsForbidden(got) != apierrors.IsForbidden(tt.err) {
			t.Errorf("%s: IsForbidden has changed", tt.why)
		}
		for _, is := range tt.is {
			if !errors.Is(got, is) {
				t.Errorf("%s: %v is lost", tt.why, is)
			}
		}
	}
}
