package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

// hostileCluster is the name of a cluster whose API server sends what no API server of Kubernetes does.
const hostileCluster = "hostile"

// boats has the objects that are not as they should be, and others; lamps has one with a version that is none.
var boats, lamps = served("Boat"), served("Lamp")

func served(kind string) gvr.Resource {
	for _, crd := range crds {
		if crd.Kind == kind {
			return gvr.Resource{GroupVersionResource: crd.Resource(), Kind: kind, Namespaced: true}
		}
	}
	panic("no kind " + kind)
}

// disguise is how an answer is changed: for objects whose names begin with the name.
type disguise struct {
	name    string
	pattern *regexp.Regexp
	by      string
}

var disguises = []disguise{
	{"long-name", regexp.MustCompile(`"name":"long-name-\d+`), "${0}" + strings.Repeat("n", 100_000)},
	{"long-uid", regexp.MustCompile(`"name":"long-uid-\d+",` + between + `"uid":"`),
		"${0}" + strings.Repeat("u", 5_000)},
	{"no-uid", regexp.MustCompile(`("name":"no-uid-\d+",` + between + `)"uid":"[^"]*"`), `${1}"none":""`},
	{"long-version", regexp.MustCompile(`"name":"long-version-\d+",` + between + `"resourceVersion":"`),
		"${0}" + strings.Repeat("v", 5_000)},
}

// between is what may be between the name of an object and what comes later in JSON's order of keys.
const between = `[^{}]*`

// startHostile serves a cluster on loopback.
func startHostile() (*streamtest.Server, *httptest.Server) {
	srv := streamtest.NewServer(boats, lamps)
	return srv, httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Header.Del("Accept-Encoding")
		srv.ServeHTTP(disguised{w}, r)
	}))
}

// disguised changes what is written. The server writes a list, and each frame of a watch, at once.
type disguised struct{ http.ResponseWriter }

func (d disguised) Unwrap() http.ResponseWriter { return d.ResponseWriter }

func (d disguised) Flush() { _ = http.NewResponseController(d.ResponseWriter).Flush() }

func (d disguised) Write(data []byte) (int, error) {
	out := data
	for _, one := range disguises {
		out = one.pattern.ReplaceAll(out, []byte(one.by))
	}
	if _, err := d.ResponseWriter.Write(out); err != nil {
		return 0, err
	}
	return len(data), nil
}

// tenant changes the objects of the hostile cluster until ctx ends.
func tenant(ctx context.Context, srv *streamtest.Server, r *rand.Rand) {
	spec := func() []string { return []string{fmt.Sprintf("spec.n=%d", r.Int()), "spec.password=" + password} }
	for i := 0; ctx.Err() == nil; i++ {
		name := fmt.Sprintf("good-%d", r.IntN(10))
		resource := []gvr.Resource{boats, lamps}[r.IntN(2)]
		if i%10 == 0 {
			name = fmt.Sprintf("%s-%d", disguises[i/10%len(disguises)].name, r.IntN(3))
			if resource = boats; strings.HasPrefix(name, "long-version") {
				resource = lamps
			}
		}
		if r.IntN(4) == 0 {
			_, _ = srv.Delete(resource, "shop", name) // it may not exist
		} else {
			srv.Put(resource, "shop", name, spec()...)
		}
		pause(ctx, some(r, 200*time.Millisecond))
	}
}

// good returns the objects of the hostile cluster that are as they should be, by uid.
func good(ctx context.Context, srv *streamtest.Server) (map[string]string, error) {
	all := map[string]string{}
	for _, resource := range []gvr.Resource{boats, lamps} {
		list, err := srv.Client().Resource(resource.GroupVersionResource).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		for _, o := range list.Items {
			if strings.HasPrefix(o.GetName(), "good-") {
				all[string(o.GetUID())] = o.GetResourceVersion()
			}
		}
	}
	return all, nil
}

// goodOf returns the records of the hostile cluster without those of objects that are not as they should be.
func goodOf(log []record) []record {
	return slices.DeleteFunc(of(log, hostileCluster), func(r record) bool {
		return r.message == nil || !strings.HasPrefix(r.message.Name, "good-")
	})
}

// judgeHostile checks the log of the hostile cluster: exist are the good objects, by uid.
func judgeHostile(log []record, exist map[string]string) []string {
	var broken []string
	got := fold(goodOf(log))
	for uid, want := range exist {
		if got[uid] != want {
			broken = append(broken, fmt.Sprintf("among hostile objects: uid %s has version %q, want %s", uid, got[uid],
				want))
		}
	}
	for uid := range got {
		if _, exists := exist[uid]; !exists {
			broken = append(broken, fmt.Sprintf("among hostile objects: unreported deletion: uid %s", uid))
		}
	}
	for _, d := range disguises {
		if d.name != "long-version" && !slices.ContainsFunc(log, func(r record) bool {
			return r.cluster() == hostileCluster && strings.HasPrefix(r.skipped, "shop/"+d.name)
		}) {
			broken = append(broken, "no message says that an object is skipped: "+d.name)
		}
	}
	for _, r := range log {
		if r.skipped != "" && r.cluster() != hostileCluster {
			broken = append(broken, "skipped without a reason: "+r.skipped)
		}
		if r.leaks {
			broken = append(broken, fmt.Sprintf("a password is published: message %d", r.revision()))
		}
	}
	slices.Sort(broken)
	return broken
}
