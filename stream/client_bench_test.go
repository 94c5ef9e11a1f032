package stream_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/stream"
)

// torrent is the body of a watch that tells of pods for as long as it is read, as
// fast as that goes: 1,000 of them in turn, 2.8 KB each.
type torrent struct {
	frames [][]byte
	at     []int // where their resourceVersion is
	rv     int
	rest   []byte
	most   int // bytes at once
}

func newTorrent() *torrent {
	t := &torrent{rv: 10_000_000, most: 4 << 10}
	for i := range 1000 {
		f := podFrame(i)
		t.frames = append(t.frames, f)
		t.at = append(t.at, bytes.Index(f, []byte("10000000")))
	}
	return t
}

func podFrame(i int) []byte {
	pod := fmt.Sprintf("web-%x-%x", 0x6d4cf56d+i/10, 0x70000+i*7919)
	uid := fmt.Sprintf("%08x-8a55-4a3e-9c11-%012x", i*2654435761&0xffffffff, i*40503)
	owner := fmt.Sprintf("%08x-1d0a-4d0f-8a37-1f0a6d1c2b3a", i/10*7919)
	at := func(s int) string { return fmt.Sprintf("2026-11-20T10:%02d:%02dZ", i%60, (i+s)%60) }
	return fmt.Appendf(nil, `{"type":"MODIFIED","object":{"kind":"Pod","apiVersion":"v1","metadata":{"name":%[1]q,"generateName":"web-%[2]x-","namespace":"shop-%[3]d","uid":%[4]q,"resourceVersion":"10000000","generation":1,"creationTimestamp":%[5]q,"labels":{"app":"web","pod-template-hash":"%[2]x","tier":"front"},"annotations":{"prometheus.io/scrape":"true","prometheus.io/port":"8080"},"ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"web-%[2]x","uid":%[6]q,"controller":true,"blockOwnerDeletion":true}],"managedFields":[{"manager":"kube-controller-manager","operation":"Update","apiVersion":"v1","time":%[5]q,"fieldsType":"FieldsV1","fieldsV1":{"f:metadata":{"f:annotations":{".":{},"f:prometheus.io/port":{},"f:prometheus.io/scrape":{}},"f:generateName":{},"f:labels":{".":{},"f:app":{},"f:pod-template-hash":{},"f:tier":{}},"f:ownerReferences":{".":{},"k:{\"uid\":\"%[7]s\"}":{}}},"f:spec":{"f:containers":{"k:{\"name\":\"web\"}":{".":{},"f:image":{},"f:imagePullPolicy":{},"f:name":{},"f:ports":{".":{},"k:{\"containerPort\":8080,\"protocol\":\"TCP\"}":{".":{},"f:containerPort":{},"f:protocol":{}}},"f:resources":{},"f:terminationMessagePath":{},"f:terminationMessagePolicy":{}}},"f:dnsPolicy":{},"f:restartPolicy":{},"f:schedulerName":{}}}}]},"spec":{"containers":[{"name":"web","image":"registry.example.com/shop/web:1.42.0","ports":[{"containerPort":8080,"protocol":"TCP"}],"env":[{"name":"MODE","value":"production"},{"name":"LEVEL","value":"info"}],"resources":{"limits":{"cpu":"500m","memory":"256Mi"},"requests":{"cpu":"100m","memory":"128Mi"}},"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File","imagePullPolicy":"IfNotPresent"}],"restartPolicy":"Always","terminationGracePeriodSeconds":30,"dnsPolicy":"ClusterFirst","nodeName":"node-%[8]d","securityContext":{},"schedulerName":"default-scheduler"},"status":{"phase":"Running","conditions":[{"type":"Initialized","status":"True","lastTransitionTime":%[5]q},{"type":"Ready","status":"True","lastTransitionTime":%[9]q}],"hostIP":"10.0.3.%[8]d","podIP":"10.244.%[8]d.%[10]d","startTime":%[5]q,"containerStatuses":[{"name":"web","state":{"running":{"startedAt":%[9]q}},"lastState":{},"ready":true,"restartCount":0,"image":"registry.example.com/shop/web:1.42.0","started":true}],"qosClass":"Burstable"}}}`+"\n",
		pod, 0x6d4cf56d+i/10, i%7, uid, at(0), owner, owner, i%40, at(7), i%250)
}

func (t *torrent) Close() error { return nil }

func (t *torrent) Read(p []byte) (n int, err error) {
	p = p[:min(len(p), t.most)]
	for n < len(p) {
		if len(t.rest) == 0 {
			i := t.rv % len(t.frames)
			t.rv++
			strconv.AppendInt(t.frames[i][:t.at[i]], int64(t.rv), 10)
			t.rest = t.frames[i]
		}
		m := copy(p[n:], t.rest)
		t.rest = t.rest[m:]
		n += m
	}
	return n, nil
}

// torrents is a server that has no objects, and whose watches are torrents.
type torrents struct{}

func (torrents) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Query().Get("watch") == "" {
		return list("10000000", "")(r)
	}
	return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(newTorrent())}, nil
}

// BenchmarkWatch is an event of a watch, without a network.
func BenchmarkWatch(b *testing.B) {
	pods := gvr.Resource{Kind: "Pod", Namespaced: true, Verbs: []string{"list", "watch"}}
	pods.Version, pods.Resource = "v1", "pods"
	for _, bm := range []struct {
		name    string
		of      *stream.ClientOptions // nil for client-go's client
		options *stream.Options       // nil for a plain Watch
	}{
		{"dynamic", nil, nil},
		{"dynamic-on-ours", &stream.ClientOptions{}, nil},
		{"stream-on-stock", nil, &stream.Options{}},
		{"stream", &stream.ClientOptions{}, &stream.Options{}},
		{"stream-2workers", &stream.ClientOptions{DecodeWorkers: 2}, &stream.Options{}},
		{"stream-nomanaged", &stream.ClientOptions{DropManagedFields: true}, &stream.Options{}},
		{"stream-select-10%", &stream.ClientOptions{}, &stream.Options{Select: func(m stream.Meta) bool {
			name := m.GetName()
			return name[len(name)-1] == '7' && name[len(name)-2] < '8'
		}}},
		{"stream-select-none", &stream.ClientOptions{},
			&stream.Options{Select: func(m stream.Meta) bool { return m.GetNamespace() == "" }}},
	} {
		b.Run(bm.name, func(b *testing.B) {
			b.ReportAllocs()
			client := variant{bm.name, bm.of}.client(b, torrents{}, nil)
			if bm.options == nil {
				w, err := client.Resource(pods.GroupVersionResource).Watch(b.Context(), metav1.ListOptions{})
				if err != nil {
					b.Fatal(err)
				}
				defer w.Stop()
				for range b.N {
					<-w.ResultChan()
				}
				return
			}
			o := *bm.options
			o.InitialList = stream.ListPaged
			seen := 0
			ctx, cancel := context.WithCancel(b.Context())
			defer cancel()
			count := func() {
				if seen++; seen == b.N {
					cancel()
				}
			}
			wants := o.Select
			if wants != nil {
				o.Select = func(m stream.Meta) bool { count(); return wants(m) }
			}
			s, err := stream.New(client, pods, &o)
			if err != nil {
				b.Fatal(err)
			}
			for ev, err := range s.Events(ctx) {
				switch {
				case err != nil && ctx.Err() == nil:
					b.Fatal(err)
				case ev.Type == stream.Synced:
					b.ResetTimer()
				case wants == nil:
					count()
				}
			}
		})
	}
}
