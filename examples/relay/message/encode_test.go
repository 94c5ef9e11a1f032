package message_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"math"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gvrwatch/gvrwatch/examples/relay/engine"
	"github.com/gvrwatch/gvrwatch/examples/relay/message"
	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/internal/friend"
	"github.com/gvrwatch/gvrwatch/stream"
)

var (
	deployments = gvr.Resource{Kind: "Deployment",
		GroupVersionResource: schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}}
	apps = engine.Unit{Cluster: "lab", Group: "apps", Resource: "deployments"}
	core = engine.Unit{Cluster: "lab", Resource: "pods"}
)

func encoder(limit int) *message.Encoder {
	return message.NewEncoder(message.EncoderOptions{Cluster: "my lab", ClusterUID: "c1",
		Limit: func() int { return limit }})
}

func object(t stream.Type, version, object string) stream.Event {
	return stream.Event{Type: t, Resource: deployments, JSON: json.RawMessage(object), ResourceVersion: version}
}

const web = `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web","namespace":"shop","uid":"u1",` +
	`"resourceVersion":"7"}, "spec":{"big":12345678901234567890}}`

// attributeName is what CloudEvents 1.0 says about the names of attributes (section 3.1).
var attributeName = regexp.MustCompile(`^[a-z0-9]{1,20}$`)

func TestEncode(t *testing.T) {
	in := func(u engine.Unit, namespace string) engine.Unit { u.Namespace = namespace; return u }
	head := `{"specversion":"1.0","id":`
	for _, test := range []struct {
		why   string
		unit  engine.Unit
		event stream.Event
		epoch uint64
		want  engine.Message // without Data
		data  string
	}{
		{"an object of the whole cluster has its own namespace", apps, object(stream.Added, "7", web), 3,
			engine.Message{Unit: in(apps, "shop"), Name: "web", UID: "u1", Type: engine.Added, ResourceVersion: "7",
				ID: "c1/deployments.apps/u1@7/added"},
			head + `"c1/deployments.apps/u1@7/added","source":"/clusters/my%20lab/deployments.apps",` +
				`"type":"io.gvrwatch.added","subject":"shop/web","time":"2000-01-01T00:00:00.5Z",` +
				`"datacontenttype":"application/json","uid":"u1","resourceversion":"7","epoch":3,"data":` + web + `}`},
		{"an inferred DELETED may have no version, and an epoch more than 32 bits", core,
			coalesced(2, stream.Event{Type: stream.Deleted, Inferred: true, Object: &unstructured.Unstructured{
				Object: map[string]any{"metadata": map[string]any{"name": "n", "uid": "u"}}}}), math.MaxInt32 + 1,
			engine.Message{Unit: core, Name: "n", UID: "u", Type: engine.Deleted, ID: "c1/pods/u@/deleted"},
			head + `"c1/pods/u@/deleted","source":"/clusters/my%20lab/pods","type":"io.gvrwatch.deleted",` +
				`"subject":"n","time":"2000-01-01T00:00:00.5Z","datacontenttype":"application/json","uid":"u",` +
				`"inferred":true,"coalesced":2,"epoch":"2147483648","data":{"metadata":{"name":"n","uid":"u"}}}`},
		{"a GAP of one namespace of a unit with several", core,
			stream.Event{Type: stream.Gap, Namespace: "a", Gap: &stream.GapDetails{Reason: stream.GapExpired,
				From: "5", To: "9", HistoryLost: true}}, 1,
			engine.Message{Unit: core, Type: engine.Gap, ID: "c1/pods/a/-@5..9/gap"},
			head + `"c1/pods/a/-@5..9/gap","source":"/clusters/my%20lab/pods","type":"io.gvrwatch.gap",` +
				`"time":"2000-01-01T00:00:00.5Z","namespace":"a","epoch":1,"gapreason":"expired","gapfrom":"5",` +
				`"gapto":"9","historylost":true}`},
		{"the SYNCED of a namespace that is a unit", in(core, "a"),
			stream.Event{Type: stream.Synced, ResourceVersion: "9"}, 1,
			engine.Message{Unit: in(core, "a"), Type: engine.Synced, ResourceVersion: "9", ID: "c1/pods/a/-@9/synced"},
			head + `"c1/pods/a/-@9/synced","source":"/clusters/my%20lab/pods","type":"io.gvrwatch.synced",` +
				`"time":"2000-01-01T00:00:00.5Z","namespace":"a","resourceversion":"9","epoch":1}`},
		{"what a hostile server sends is escaped, in ids so that they can be in a header", core,
			stream.Event{Type: stream.Modified, ResourceVersion: "1\r\nx", Object: &unstructured.Unstructured{
				Object: map[string]any{"metadata": map[string]any{"name": "a\xff", "uid": "u\n"}}}}, 1,
			engine.Message{Unit: core, Name: "a\xff", UID: "u\n", Type: engine.Modified,
				ResourceVersion: "1\r\nx", ID: "c1/pods/u%0A@1%0D%0Ax/modified"},
			head + `"c1/pods/u%0A@1%0D%0Ax/modified","source":"/clusters/my%20lab/pods",` +
				`"type":"io.gvrwatch.modified","subject":"a\ufffd","time":"2000-01-01T00:00:00.5Z",` +
				`"datacontenttype":"application/json","uid":"u\n","resourceversion":"1\r\nx","epoch":1,` +
				`"data":{"metadata":{"name":"a\ufffd","uid":"u\n"}}}`},
	} {
		t.Run(test.why, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				time.Sleep(time.Second / 2)
				got, err := encoder(1<<20).Encode(test.unit, test.event, test.epoch, nil)
				if err != nil {
					t.Fatal(err)
				}
				test.want.Data = []byte(test.data)
				if diff := cmp.Diff(test.want, got); diff != "" {
					t.Error(diff)
				}
				var all map[string]any
				if err := json.Unmarshal(got.Data, &all); err != nil {
					t.Fatal(err)
				}
				for name := range all {
					if !attributeName.MatchString(name) {
						t.Errorf("invalid name of an attribute: %s", name)
					}
				}
			})
		})
	}
}

func TestEncodeRefuses(t *testing.T) {
	for _, test := range []struct {
		why   string
		event stream.Event
	}{
		{"a BOOKMARK is no event for consumers", stream.Event{Type: stream.Bookmark}},
		{"a GAP says why", stream.Event{Type: stream.Gap}},
		{"without a uid there is no subject", object(stream.Added, "7", `{"metadata":{"name":"web"}}`)},
		{"there is no object", stream.Event{Type: stream.Added}},
	} {
		if m, err := encoder(1<<20).Encode(apps, test.event, 1, nil); err == nil {
			t.Errorf("%s: no error: %s", test.why, m.Data)
		}
	}
}

func TestTruncated(t *testing.T) {
	pad := strings.Repeat("x", 4000)
	large := func(label string) string {
		return `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web","namespace":"shop","uid":"u1",` +
			`"resourceVersion":"7","labels":{"l":"` + label + `"},"managedFields":[{"manager":"` + pad + `"}],` +
			`"annotations":{"a":"secret","kubectl.kubernetes.io/last-applied-configuration":"` + pad + `"}},"spec":{}}`
	}
	annotated := func(a string) string {
		return `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web","namespace":"shop","uid":"u1",` +
			`"resourceVersion":"7","annotations":{"a":"` + a + `"}},"spec":"` + pad + `"}`
	}
	cut := func(object string) *message.Truncation {
		sum := sha256.Sum256([]byte(object))
		return &message.Truncation{Bytes: len(object), SHA256: hex.EncodeToString(sum[:])}
	}
	const least = `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web","namespace":"shop",` +
		`"uid":"u1","resourceVersion":"7"}}`
	for _, test := range []struct {
		why, object string
		redact      []string
		limit       int
		data        string
		cut         *message.Truncation
	}{
		{"what fits is whole", large(""), nil, 1 << 20, large(""), nil},
		{"managedFields and the annotation are left out first", large("a"), nil, 2000,
			`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"annotations":{"a":"secret"},` +
				`"labels":{"l":"a"},"name":"web","namespace":"shop","resourceVersion":"7","uid":"u1"}}`,
			cut(large("a"))},
		{"labels that are large are left out, too", large(pad), nil, 2000, least, cut(large(pad))},
		{"what cannot be decoded has only what identifies it", web[:len(web)-1] + pad, nil, 2000, least,
			cut(web[:len(web)-1] + pad)},
		{"what follows the object would be attributes", web + `,"source":"/clusters/other"`, nil, 1 << 20, least,
			cut(web + `,"source":"/clusters/other"`)},
		{"a brace too many would end the message", web + `}`, nil, 1 << 20, least, cut(web + `}`)},
		{"a brace is missing", web[:len(web)-1], nil, 1 << 20, least, cut(web[:len(web)-1])},
		{"nothing is dropped, even if it cannot fit", web, nil, 10, least, cut(web)},
		{"what fits once it is redacted is whole", web[:len(web)-1] + `,"x":"` + pad + `"}`,
			[]string{"$.x"}, 2000, `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web",` +
				`"namespace":"shop","resourceVersion":"7","uid":"u1"},"spec":{"big":12345678901234567890},` +
				`"x":"REDACTED"}`, nil},
		{"metadata is redacted before it is cut", annotated("secret"), []string{"$.metadata.annotations.a"}, 2000,
			`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"annotations":{"a":"REDACTED"},"name":"web",` +
				`"namespace":"shop","resourceVersion":"7","uid":"u1"}}`,
			cut(sorted(t, annotated("REDACTED")))},
		{"a redaction that fails leaks nothing, and no hash of a secret", web[:len(web)-1] + "x",
			[]string{"$.data[*]"}, 1 << 20, least, &message.Truncation{RedactionFailed: true}},
		{"nor if it exceeds the limit, too", web[:len(web)-1] + "x", []string{"$.data[*]"}, 10, least,
			&message.Truncation{RedactionFailed: true}},
	} {
		t.Run(test.why, func(t *testing.T) {
			r, err := message.ParseRedaction(test.redact)
			if err != nil {
				t.Fatal(err)
			}
			m, err := encoder(test.limit).Encode(apps, object(stream.Deleted, "7", test.object), 1, r)
			if err != nil {
				t.Fatal(err)
			}
			got, err := message.Decode(m.Data)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.data, string(got.Data)); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(test.cut, got.Object.Truncated); diff != "" {
				t.Error(diff)
			}
			if len(m.Data) > test.limit && test.limit > 1000 {
				t.Errorf("%d bytes, limit %d", len(m.Data), test.limit)
			}
		})
	}
}

// sorted returns the JSON with its keys sorted, as a redaction does.
func sorted(t *testing.T, object string) string {
	var v any
	d := json.NewDecoder(strings.NewReader(object))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		t.Fatal(err)
	}
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// coalesced returns ev as one that stands for n others.
func coalesced(n int, ev stream.Event) stream.Event {
	ev.Envelope(friend.Access{}).Coalesced = n
	return ev
}

func FuzzEncode(f *testing.F) {
	f.Add("web", "shop", "u1", "7", "expired", uint64(3), 1)
	f.Add("a\"\x00\xff", "", "\n", "", "\u2028", uint64(math.MaxInt32), 0)
	f.Fuzz(func(t *testing.T, name, namespace, uid, version, reason string, epoch uint64, others int) {
		if len(version) > 256 || len(uid) > 255 {
			t.Skip("cut in a GAP")
		}
		uid += "u"
		epoch >>= 1
		others &= math.MaxInt32
		o := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{
			"name": name, "namespace": namespace, "uid": uid}}}
		e := encoder(1 << 30)
		ev := coalesced(others, stream.Event{Type: stream.Added, Object: o, ResourceVersion: version})
		m, err := e.Encode(core, ev, epoch, nil)
		if err != nil {
			t.Fatal(err)
		}
		got, err := message.Decode(m.Data)
		if err != nil {
			t.Fatalf("%v: %s", err, m.Data)
		}
		subject := name
		if namespace != "" && name != "" {
			subject = namespace + "/" + name
		}
		want := message.Event{ID: m.ID, Source: "/clusters/my%20lab/pods", Type: engine.Added, Time: got.Time,
			Epoch: epoch, ResourceVersion: valid(version), Data: got.Data,
			Object: &message.Object{Subject: valid(subject), UID: valid(uid), Coalesced: others}}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		gap := stream.Event{Type: stream.Gap, Namespace: namespace,
			Gap: &stream.GapDetails{Reason: stream.GapReason(reason), From: version, To: uid}}
		if m, err = e.Encode(core, gap, epoch, nil); err != nil {
			t.Fatal(err)
		}
		if got, err = message.Decode(m.Data); err != nil {
			t.Fatalf("%v: %s", err, m.Data)
		}
		want = message.Event{ID: m.ID, Source: want.Source, Type: engine.Gap, Time: got.Time, Epoch: epoch,
			Namespace: valid(namespace), Gap: &message.Gap{Reason: valid(reason), From: valid(version), To: valid(uid)}}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	})
}

// valid replaces each invalid byte, as encoding/json does.
func valid(s string) string { return string([]rune(s)) }

func FuzzDecode(f *testing.F) {
	m, err := encoder(10).Encode(apps, object(stream.Added, "7", web), 3, nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(m.Data)
	f.Fuzz(func(t *testing.T, data []byte) {
		ev, err := message.Decode(data)
		if err == nil && (ev.ID == "" || ev.Source == "" || ev.Object != nil && ev.Object.UID == "") {
			t.Errorf("invalid event %+v of %q", ev, data)
		}
	})
}

func TestDecodeRefuses(t *testing.T) {
	const ok = `{"specversion":"1.0","id":"i","source":"/s","type":"io.gvrwatch.added","epoch":1,"uid":"u",` +
		`"datacontenttype":"application/json","data":{"a":"SECRET"}}`
	if _, err := message.Decode([]byte(ok)); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ why, old, new string }{
		{"no JSON", `{"spec`, `"spec`},
		{"another version", `"1.0"`, `"0.3"`},
		{"no id", `"i"`, `""`},
		{"no source", `"/s"`, `""`},
		{"an event of someone else", `io.gvrwatch.`, `com.example.`},
		{"a type that the relay does not have", `.added`, `.bookmark`},
		{"no uid", `"uid":"u"`, `"uid":""`},
		{"data that is not JSON", `application/json`, `text/plain`},
		{"no data", `"data"`, `"data_base64"`},
		{"data that is no object", `{"a":"SECRET"}`, `null`},
		{"an epoch that is negative", `"epoch":1`, `"epoch":-1`},
		{"an epoch that is no number", `"epoch":1`, `"epoch":"SECRET"`},
	} {
		in := strings.Replace(ok, test.old, test.new, 1)
		ev, err := message.Decode([]byte(in))
		if err == nil || in == ok {
			t.Errorf("%s: no error: %+v", test.why, ev)
		} else if strings.Contains(err.Error(), "SECRET") {
			t.Errorf("%s: %v", test.why, err)
		}
	}
}

// BenchmarkEncode encodes a Pod of 2.8 KB.
func BenchmarkEncode(b *testing.B) {
	pod := strings.Replace(web, `"spec":{`, `"spec":{"pad":"`+strings.Repeat("x", 2800-len(web))+`",`, 1)
	e, ev := encoder(1<<20), object(stream.Modified, "7", pod)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := e.Encode(apps, ev, 3, nil); err != nil {
			b.Fatal(err)
		}
	}
}

// TestEncodeSkipped: what stands for an event that can't be published is short, whatever the event has.
func TestEncodeSkipped(t *testing.T) {
	long := strings.Repeat("\u00e9", 100_000)
	for _, test := range []struct {
		why   string
		event stream.Event
		want  message.Skipped
	}{
		{"a uid that is too long", object(stream.Modified, "7", strings.Replace(web, `"u1"`, `"`+long+`"`, 1)),
			message.Skipped{Type: engine.Modified, Reason: "too large", Subject: "shop/web", UID: long[:256] + "..."}},
		{"everything is long", object(stream.Deleted, long, `{"metadata":{"name":"`+long+`","uid":"u1"}}`),
			message.Skipped{Type: engine.Deleted, Reason: "too large", Subject: long[:256] + "...", UID: "u1"}},
		{"no object", stream.Event{Type: stream.Added}, message.Skipped{Type: engine.Added, Reason: "too large"}},
	} {
		m := encoder(1<<20).EncodeSkipped(apps, test.event, 1, engine.ErrTooLarge)
		ev, err := message.Decode(m.Data)
		if err != nil {
			t.Fatalf("%s: %v: %s", test.why, err, m.Data)
		}
		if diff := cmp.Diff(&test.want, ev.Skipped); diff != "" {
			t.Errorf("%s: -want +got:\n%s", test.why, diff)
		}
		if len(m.Data) > 2000 || len(m.ID) > 200 || m.Unit != apps || m.UID != "" {
			t.Errorf("%s: the message is %+v", test.why, m)
		}
	}
}
