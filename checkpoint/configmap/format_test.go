package configmap

import (
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
)

// What is written otherwise needs another format.
func TestFormat2(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // the commit is at midnight
		d := delta("k", "5")
		d.Identity.Shard, d.Rewound, d.Unclean = "s", true, true
		got, err := encode(d)
		noError(t, err)
		want := `{"identity":{"cluster":{"uid":"c1","address":"https://x \u003c\u0026\u003e"},"group":"example.com",` +
			`"resource":"widgets","storageVersionHash":"h=","namespaces":["a","b"],"labelSelector":"a in (b,c)",` +
			`"fieldSelector":"x!=y","shard":"s"},"resourceVersions":{"a":"5","b":"51"},"rewound":true,"unclean":true,` +
			`"committed":"2000-01-01T00:00:00Z"}`
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		srv := newServer(t)
		commit(t, open(t, srv.Client(), "a"), d)
		if data := values(t, stored(t, srv)); data["format"] != "2" || data["checkpoint.k"] != want {
			t.Errorf("the ConfigMap has %q", data)
		}
	})
}
