package decode_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/gvrwatch/gvrwatch/internal/client/decode"
	"github.com/gvrwatch/gvrwatch/internal/testing/decodetest"
)

const frame = `{"type":"MODIFIED","object":{"kind":"Pod","apiVersion":"v1","metadata":{"name":"web-6d4cf56db6-x7k2p",` +
	`"generateName":"web-6d4cf56db6-","namespace":"shop","uid":"0f3c1f1e-8a55-4a3e-9c11-5a1d0a6a1b2c",` +
	`"resourceVersion":"48291734","generation":1,"creationTimestamp":"2026-11-20T10:11:12Z","labels":{"app":"web",` +
	`"pod-template-hash":"6d4cf56db6","tier":"front"},"annotations":{"prometheus.io/scrape":"true",` +
	`"prometheus.io/port":"8080"},"ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet",` +
	`"name":"web-6d4cf56db6","uid":"5b0e8a3d-1d0a-4d0f-8a37-1f0a6d1c2b3a","controller":true,` +
	`"blockOwnerDeletion":true}],"managedFields":[{"manager":"kube-controller-manager","operation":"Update",` +
	`"apiVersion":"v1","time":"2026-11-20T10:11:12Z","fieldsType":"FieldsV1",` +
	`"fieldsV1":{"f:metadata":{"f:annotations":{".":{},"f:prometheus.io/port":{},"f:prometheus.io/scrape":{}},` +
	`"f:generateName":{},"f:labels":{".":{},"f:app":{},"f:pod-template-hash":{},"f:tier":{}},` +
	`"f:ownerReferences":{".":{},"k:{\"uid\":\"5b0e8a3d-1d0a-4d0f-8a37-1f0a6d1c2b3a\"}":{}}},` +
	`"f:spec":{"f:containers":{"k:{\"name\":\"web\"}":{".":{},"f:image":{},"f:imagePullPolicy":{},"f:name":{},` +
	`"f:ports":{".":{},"k:{\"containerPort\":8080,\"protocol\":\"TCP\"}":{".":{},"f:containerPort":{},` +
	`"f:protocol":{}}},"f:resources":{},"f:terminationMessagePath":{},"f:terminationMessagePolicy":{}}},` +
	`"f:dnsPolicy":{},"f:restartPolicy":{},"f:schedulerName":{}}}}]},"spec":{"containers":[{"name":"web",` +
	`"image":"registry.example.com/shop/web:1.42.0","ports":[{"containerPort":8080,"protocol":"TCP"}],` +
	`"env":[{"name":"MODE","value":"production"},{"name":"LEVEL","value":"info"}],` +
	`"resources":{"limits":{"cpu":"500m","memory":"256Mi"},"requests":{"cpu":"100m","memory":"128Mi"}},` +
	`"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File",` +
	`"imagePullPolicy":"IfNotPresent"}],"restartPolicy":"Always","terminationGracePeriodSeconds":30,` +
	`"dnsPolicy":"ClusterFirst","nodeName":"node-17","securityContext":{},"schedulerName":"default-scheduler"},` +
	`"status":{"phase":"Running","conditions":[{"type":"Initialized","status":"True",` +
	`"lastTransitionTime":"2026-11-20T10:11:12Z"},{"type":"Ready","status":"True",` +
	`"lastTransitionTime":"2026-11-20T10:11:20Z"}],"hostIP":"10.0.3.17","podIP":"10.244.17.93",` +
	`"startTime":"2026-11-20T10:11:12Z","containerStatuses":[{"name":"web",` +
	`"state":{"running":{"startedAt":"2026-11-20T10:11:19Z"}},"lastState":{},"ready":true,"restartCount":0,` +
	`"image":"registry.example.com/shop/web:1.42.0","started":true}],"qosClass":"Burstable"}}}` + "\n"

func BenchmarkEvent(b *testing.B) {
	d := decode.New(false)
	b.SetBytes(int64(len(frame)))
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := d.Event([]byte(frame)); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkPods decodes different objects of one type, as a watch does.
func BenchmarkPods(b *testing.B) {
	var all []byte
	for i := range 1000 {
		all = append(all, decodetest.PodEvent(i)...)
	}
	d := decode.New(false)
	b.ReportAllocs()
	for data := all; b.Loop(); {
		_, n, err := d.Event(data)
		if err != nil {
			b.Fatal(err)
		}
		if data = data[n+1:]; len(data) == 0 {
			data = all
		}
	}
}

// BenchmarkMaps measures the least that any decoder has to do: fill the maps and lists
// of an object with keys and values that exist already.
func BenchmarkMaps(b *testing.B) {
	ev, _, err := decode.New(false).Event([]byte(frame))
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		runtime.DeepCopyJSON(ev.Object)
	}
}

func BenchmarkApimachinery(b *testing.B) {
	object := []byte(frame[len(`{"type":"MODIFIED","object":`) : len(frame)-2])
	b.SetBytes(int64(len(object)))
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := unstructured.UnstructuredJSONScheme.Decode(object, nil, nil); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkMetadata(b *testing.B) {
	d, data := decode.New(false), []byte(frame)
	b.ReportAllocs()
	for b.Loop() {
		if s, _ := d.Metadata(data, decode.ToManaged); s == nil {
			b.Fatal("no view")
		}
	}
}
