package apiserver_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/internal/testing/apiserver"
	"github.com/gvrwatch/gvrwatch/internal/testing/apiserver/script"
)

var (
	widgets = gvr.Resource{
		GroupVersionResource: schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"},
		Kind:                 "Widget", Singular: "widget", ShortNames: []string{"wd"}, Namespaced: true,
		Verbs: []string{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"},
	}
	globes = gvr.Resource{
		GroupVersionResource: schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "globes"},
		Kind:                 "Globe",
	}
	namespaces = gvr.Resource{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "namespaces"},
		Kind: "Namespace"}
)

// everything is the language of the scripts here.
var everything = script.Everything()

// bubble runs f in a synctest bubble, with a server of widgets and globes.
func bubble(t *testing.T, f func(t *testing.T, srv *apiserver.Server)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, apiserver.NewServer(widgets, globes)) })
}

// do runs valid actions.
func do(t *testing.T, srv *apiserver.Server, what ...string) {
	t.Helper()
	for _, w := range what {
		if err := srv.Do(everything, w); err != nil {
			t.Fatal(err)
		}
	}
}

func apply(t *testing.T, srv *apiserver.Server, script string) {
	t.Helper()
	if err := srv.Apply(everything, script); err != nil {
		t.Fatal(err)
	}
}

func timeout(t *testing.T, d time.Duration) (context.Context, context.CancelFunc) {
	t.Helper()
	return context.WithTimeout(t.Context(), d)
}

func from(rv string) metav1.ListOptions { return metav1.ListOptions{ResourceVersion: rv} }

func withBookmarks(o metav1.ListOptions) metav1.ListOptions {
	o.AllowWatchBookmarks = true
	return o
}

func initial() metav1.ListOptions {
	yes := true
	return metav1.ListOptions{SendInitialEvents: &yes, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
		AllowWatchBookmarks: true}
}

// watchFor returns what client-go's dynamic client receives from a watch within d: one line per event, and "closed"
// or an error if it ended.
func watchFor(t *testing.T, srv *apiserver.Server, o metav1.ListOptions, d time.Duration) []string {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	w, err := srv.Client().Resource(widgets.GroupVersionResource).Watch(ctx, o)
	if err != nil {
		return []string{errorText(err)}
	}
	defer w.Stop()
	return collect(w, d)
}

func collect(w watch.Interface, d time.Duration) []string {
	var seen []string
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		select {
		case ev, ok := <-w.ResultChan():
			if !ok {
				return append(seen, "closed")
			}
			seen = append(seen, eventText(ev))
		case <-timer.C:
			return seen
		}
	}
}

func eventText(ev watch.Event) string {
	if ev.Type == watch.Error {
		return "ERROR " + errorText(apierrors.FromObject(ev.Object))
	}
	o := ev.Object.(*unstructured.Unstructured)
	text := fmt.Sprintf("%s %s@%s", ev.Type, o.GetName(), o.GetResourceVersion())
	if o.GetAnnotations()["k8s.io/initial-events-end"] == "true" {
		text += " end"
	}
	return text
}

// errorText returns the status code and reason of an error, or its text if it has no status.
func errorText(err error) string {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		text, _, _ := strings.Cut(err.Error(), ": &{")
		return text
	}
	s := status.Status()
	if apierrors.HasStatusCause(err, "ClientWatchDecoding") {
		return "undecodable"
	}
	return fmt.Sprintf("%d %s", s.Code, s.Reason)
}

// texts returns objects as name@version.
func texts(objects []unstructured.Unstructured) []string {
	var out []string
	for _, o := range objects {
		out = append(out, o.GetName()+"@"+o.GetResourceVersion())
	}
	return out
}
