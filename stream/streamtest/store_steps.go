package streamtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/gvrwatch/gvrwatch/checkpoint"
)

// delta is a commit of key at a version, with objects.
func delta(key, version string, put ...checkpoint.Object) checkpoint.Delta {
	return checkpoint.Delta{
		Key: key, Put: put, ResourceVersions: map[string]string{"": version},
		Identity: checkpoint.Identity{
			Cluster: checkpoint.Cluster{UID: "c0ffee"}, Group: "example.com", Resource: "widgets",
		},
	}
}

func widget(name, uid, version string) checkpoint.Object {
	return checkpoint.Object{Namespace: "shop", Name: name, UID: types.UID(uid), ResourceVersion: version}
}

// unusual are objects that some encodings change, or take for one another.
var unusual = []checkpoint.Object{
	widget("door", "7f6a2d6e-0f57-4b4c-9f0e-0d6a1c9c1a11", "7"),
	widget("door", "00000000-0000-4000-8000-000000000002", "12"), // another one of that name, which was deleted
	widget("door", "", "3"),                                                    // the server gives no uid
	widget("Door", "", "4"), widget("dóor", "", "5"), widget("door ", "", "6"), // to some collations the same
	widget("pending", "u", ""),               // nothing of it was acked
	widget("large", "u", "9007199254740993"), // no float64 has it
	widget("larger", "u", "18446744073709551616"),
	widget("zeros", "u", "007"),
	widget("Ünïcode: \"quoted\" \\ <&> ' | , ; = # \t", "u:v", "1"),
	{Name: "cluster-scoped", UID: "u", ResourceVersion: "1"},
	{Namespace: "a", Name: "b:c", UID: "u", ResourceVersion: "1"},
	{Namespace: "a:b", Name: "c", UID: "u", ResourceVersion: "2"},
	{Namespace: "a", Name: "b", UID: "c:u", ResourceVersion: "3"},
	{Namespace: "o", Name: "ne", UID: "u", ResourceVersion: "4"},
	{Namespace: "on", Name: "e", UID: "u", ResourceVersion: "5"},
	{Name: strings.Repeat("n", 253), Namespace: strings.Repeat("s", 63), UID: "u", ResourceVersion: "1"},
	{Name: strings.Repeat("n", 252) + "m", Namespace: strings.Repeat("s", 63), UID: "u", ResourceVersion: "2"},
}

func checkEmpty(c *storeCheck) {
	c.want["a"], c.want["b"], c.want["absent"] = nil, nil, nil
	c.verify("before the first commit")
}

// checkCommits fills every field.
func checkCommits(c *storeCheck) {
	d := delta("a", "", unusual...)
	d.Identity = checkpoint.Identity{
		Cluster: checkpoint.Cluster{UID: "c0ffee", Address: "https://[::1]/\"<&>\"" + strings.Repeat("/a", 150)},
		Group:   "example.com", Resource: "widgets", StorageVersionHash: "hash=", Namespaces: []string{"one", "two"},
		LabelSelector: "a in (" + strings.Repeat("b,", 150) + "c),!d",
		FieldSelector: "x!=y,metadata.name=" + strings.Repeat("n", 253), Shard: "s",
	}
	d.ResourceVersions = map[string]string{"one": "", "two": "9007199254740993", "three": "018446744073709551616"}
	d.Partial, d.Rewound, d.Unclean = true, true, true
	c.commitAndVerify(d, delta("b", "5", widget("door", "u", "5")))
}

// checkReplaces leaves out what the commit before had.
func checkReplaces(c *storeCheck) {
	d := delta("a", "", widget("door", "00000000-0000-4000-8000-000000000002", "13"), widget("new", "u", ""))
	c.commitAndVerify(d)
	c.commitAndVerify(checkpoint.Delta{Key: "a", Identity: d.Identity}, delta("c", "6", widget("first", "u", "6")))
}

func checkRemoves(c *storeCheck) {
	d := delta("a", "8")
	d.Removed = []checkpoint.Object{
		widget("door", "00000000-0000-4000-8000-000000000002", ""), widget("pending", "u", ""),
		{Namespace: "a:b", Name: "c", UID: "u"}, widget("door", "", ""),
		widget("unknown", "u", ""), // an ADDED and its DELETED may be in one commit
	}
	c.commitAndVerify(d)
}

func checkResets(c *storeCheck) {
	d := delta("a", "9", widget("door", "u3", "9"), widget("zeros", "u", "008"))
	d.Reset = true
	c.commitAndVerify(d)
}

// checkCommitted loads a checkpoint again, later.
func checkCommitted(c *storeCheck) {
	var first time.Time
	for i, when := range []string{"after a reopen", "a moment later", "after another reopen"} {
		if i != 1 {
			c.reopens()
		}
		if c.store == nil {
			return
		}
		got, err := c.store.Load(context.Background(), "a")
		if c.fails("Load", err) || got == nil {
			return
		}
		if i == 0 {
			first = got.Committed
			time.Sleep(20 * time.Millisecond) // no clock is as coarse
		}
		if !got.Committed.Equal(first) {
			c.report("%s: Load(%q): invalid Committed %v: must be %v, as before", when, "a", got.Committed, first)
			return
		}
	}
}

func checkRepeats(c *storeCheck) {
	d := delta("a", "10", widget("door", "u4", "10"))
	d.Removed = []checkpoint.Object{widget("zeros", "u", "")}
	if c.commit(d, delta("b", "10")) {
		c.commitAndVerify(d, delta("b", "10"))
	}
}

func checkCopies(c *storeCheck) {
	d := delta("a", "11", widget("door", "u5", "11"))
	d.Identity.Namespaces = []string{"one", "two"}
	passed := copied([]checkpoint.Delta{d})
	changed := passed[0] // the Store may change what was passed, too
	if c.fails("Commit", c.store.Commit(context.Background(), passed)) {
		return
	}
	applyTo(c.want, []checkpoint.Delta{d})
	changed.ResourceVersions[""], changed.Put[0].Name = "changed", "changed"
	changed.Identity.Namespaces[0] = "changed"
	if !c.verify("of what was passed to Commit") {
		return
	}
	got, err := c.store.Load(context.Background(), "a")
	if c.fails("Load", err) {
		return
	}
	if why := c.differs(c.want["a"], got); why != "" {
		c.report("another Load(%q): %s", "a", why)
	} else {
		got.Position.ResourceVersions[""], got.Identity.Namespaces[0] = "changed", "changed"
		for i := range got.Position.Objects {
			got.Position.Objects[i].Name = "changed"
		}
		c.verify("of what Load has returned")
	}
	c.reopens()
}

// checkKeys has those that a file system, or a Store's own names, may mix up.
func checkKeys(c *storeCheck) {
	keys := []string{
		"A", "deployments.apps", "Deployments.apps", "deployments", "deployments.", ".deployments", "-", "_", "...",
		"format", "checkpoint.a", strings.Repeat("k", 200), strings.Repeat("k", 199), "k",
	}
	for i, key := range keys {
		c.commit(delta(key, fmt.Sprint(i+1), widget(fmt.Sprint("of-key-", i), "u", "1")))
	}
	c.verify("at once")
	c.reopens()
	for _, key := range keys {
		if c.remove(key) {
			c.verify(fmt.Sprintf("after Delete(%.20q)", key))
		}
	}
	c.reopens()
}

// remove deletes a checkpoint.
func (c *storeCheck) remove(key string) (ok bool) {
	if c.store == nil || c.fails("Delete", c.store.Delete(context.Background(), key)) {
		return false
	}
	c.want[key] = nil
	return true
}

func checkDeletes(c *storeCheck) {
	c.remove("absent")
	if c.remove("c") {
		c.verify("at once")
		c.reopens()
		c.commitAndVerify(delta("c", "12", widget("second", "u", "12"))) // the first one does not come back
	}
}

func checkRandom(c *storeCheck) {
	r := rand.New(rand.NewPCG(1, 2))
	keys := []string{"random.1", "random.2", "random.3"}
	for step := 0; step < 80 && c.store != nil; step++ {
		switch when := fmt.Sprintf("step %d", step); r.IntN(12) {
		case 0:
			c.remove(keys[r.IntN(len(keys))])
		case 1:
			c.reopens()
		default:
			var deltas []checkpoint.Delta
			for _, k := range r.Perm(len(keys))[:1+r.IntN(len(keys))] {
				d := delta(keys[k], fmt.Sprint(step))
				d.Reset, d.Partial, d.Rewound = r.IntN(8) == 0, r.IntN(4) == 0, r.IntN(4) == 0
				d.Unclean = r.IntN(4) == 0
				for _, ns := range []string{"", "one", "two"} {
					if r.IntN(2) == 0 {
						d.ResourceVersions[ns] = fmt.Sprint(r.IntN(3))
					}
				}
				for _, n := range r.Perm(12)[:r.IntN(6)] {
					o := widget(fmt.Sprint("w", n/2), fmt.Sprint("u", n%2), fmt.Sprint(step))
					if r.IntN(2) == 0 {
						d.Put = append(d.Put, o)
					} else {
						d.Removed = append(d.Removed, unversioned(o))
					}
				}
				deltas = append(deltas, d)
			}
			if !c.commit(deltas...) || !c.verify(when) {
				return
			}
		}
	}
	for _, key := range keys {
		c.remove(key)
	}
}

// checkLarge commits what a Tracker with the default Options may commit at once, and then more.
func checkLarge(c *storeCheck) {
	many := func(n int, name string) checkpoint.Delta {
		d := delta("large", "1")
		for i := range n {
			d.Put = append(d.Put, widget(fmt.Sprint(i, name), "7f6a2d6e-0f57-4b4c-9f0e-0d6a1c9c1a11", fmt.Sprint(n+i)))
		}
		return d
	}
	d := many(1000, "-has-a-name-as-long-as-that-of-a-pod")
	for i := range 100 {
		d.ResourceVersions[fmt.Sprint("namespace-", i)] = fmt.Sprint(i)
	}
	c.commitAndVerify(d)
	removal := delta("large", "2")
	for _, o := range d.Put[10:] {
		removal.Removed = append(removal.Removed, unversioned(o))
	}
	c.commitAndVerify(removal)
	if c.store == nil {
		return
	}
	var keys []checkpoint.Delta // those of a Tracker whose Streams watch a whole cluster
	for i := range 200 {
		keys = append(keys, delta(fmt.Sprint("of-many.", i), "1", widget("door", "u", fmt.Sprint(i))))
	}
	if c.commit(keys...) {
		c.verify("of 200 keys")
	}
	for _, d := range keys[1 : len(keys)-1] {
		delete(c.want, d.Key) // to load each after each step takes long
	}
	c.reopens()
	if c.store == nil {
		return
	}
	c.remove(keys[0].Key)
	c.remove(keys[len(keys)-1].Key)
	deltas := []checkpoint.Delta{many(5000, strings.Repeat("-long", 45)), delta("a", "large")}
	c.isMade("of 5,000 objects", deltas, c.store.Commit(context.Background(), copied(deltas)), false)
	c.reopens()
	c.remove("large")
}

type marker interface {
	MarkUnclean(ctx context.Context, unclean bool) error
}

func checkUnclean(c *storeCheck) {
	for _, commits := range [][]checkpoint.Delta{nil, {delta("c", "14")}} { // of less than was delivered
		s, ok := c.store.(marker)
		if !ok || c.fails("MarkUnclean(true)", s.MarkUnclean(context.Background(), true)) {
			return
		}
		if len(commits) > 0 {
			c.step = "a commit after MarkUnclean"
			c.commit(commits...)
		}
		for key, was := range c.want {
			now := clone(was)
			if now == nil {
				now = &checkpoint.Checkpoint{}
			}
			now.Position.Unclean = true
			c.want[key] = now
		}
		c.reopens()
		for key, now := range c.want {
			if now != nil && now.Identity.Resource == "" {
				delete(c.want, key) // what follows the first commit is not demanded
			}
		}
		for _, key := range []string{"a", "b", "c"} {
			c.commitAndVerify(delta(key, "15"))
		}
	}
	s, ok := c.store.(marker)
	if !ok {
		return
	}
	c.fails("MarkUnclean(true)", s.MarkUnclean(context.Background(), true))
	c.commit(delta("c", "16"))
	c.fails("MarkUnclean(false)", s.MarkUnclean(context.Background(), false))
	c.step = "MarkUnclean and back"
	c.reopens()
}

func checkClosed(c *storeCheck) {
	last := c.store
	c.fails("Close", last.Close())
	deltas := []checkpoint.Delta{delta("a", "17"), delta("b", "17")}
	err := last.Commit(context.Background(), copied(deltas))
	if err != nil && !errors.Is(err, os.ErrClosed) {
		c.report("invalid error %v: must wrap os.ErrClosed, or a Tracker tries again", err)
	}
	if c.opens() {
		c.isMade("after a reopen", deltas, err, false)
	}
}

// checkKilled opens the Store again as a process does after the one before was killed, and commits in both.
func checkKilled(c *storeCheck) {
	first, deltas := c.store, []checkpoint.Delta{delta("a", "18"), delta("b", "18")}
	if !c.commit(deltas...) {
		return
	}
	second, later, err := c.secondOpen()
	switch {
	case later != nil:
		c.waitsForClose(first, later)
		return
	case isNotAStore(err):
		c.fails("open", err)
		return
	case err != nil:
		if deltas := []checkpoint.Delta{delta("a", "19")}; c.commit(deltas...) {
			c.verify("of a locked Store")
		}
		return
	}
	c.store = second
	c.verify("without Close")
	deltas = []checkpoint.Delta{delta("a", "20"), delta("b", "20")}
	err = first.Commit(context.Background(), copied(deltas))
	c.fails("Close", second.Close())
	if !c.opens() {
		return
	}
	c.isMade("of the earlier one", deltas, err, false)
	if isFenced(err) {
		if again := first.Commit(context.Background(), copied(deltas)); !isFenced(again) {
			c.report("the next commit after a *FencedError returns %v: must return it again", again)
		}
	}
	if err := first.Close(); !isFenced(err) {
		c.fails("Close of the earlier one", err)
	}
	if c.commit(delta("a", "21")) {
		c.verify("after Close of the earlier one")
	}
}

// waitsForClose closes the first Store, for whose lock an open waits. That one may have given up meanwhile.
func (c *storeCheck) waitsForClose(first checkpoint.Store, later <-chan opened) {
	c.fails("Close", first.Close())
	o := <-later
	if c.store = o.store; isNotAStore(o.err) {
		c.fails("open", o.err)
		return
	}
	if o.err == nil || c.opens() {
		c.verify("of a Store that was locked")
	}
}

func isFenced(err error) bool {
	var fenced *checkpoint.FencedError
	return errors.As(err, &fenced)
}
