package main

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"time"

	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/store"
)

// storeClient has a Store for each resource, and a subscriber that is sometimes slow. In the end the Store must have
// what the subscriber has, which the judge compares with the truth.
type storeClient struct{ compress bool }

func (c storeClient) subject() subject {
	s := subject{Name: "store", Ours: true, Coalesces: true}
	if c.compress {
		s.Name = "store-compressed"
	}
	return s
}

func (c storeClient) run(ctx context.Context, w *world, rec *recording) error {
	client, err := newDynamicClient(w.config(true), false)
	if err != nil {
		return err
	}
	return each(w.definitions.resources(), func(info crdInfo) error {
		s, err := stream.New(client, resourceOf(info), &stream.Options{Objects: stream.Raw, Requests: requests})
		if err != nil {
			return err
		}
		objects, err := store.New(s, &store.Options{Compress: c.compress})
		if err != nil {
			return err
		}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for ctx.Err() == nil { // before the first SYNCED, a refusal ends the run
				if err := objects.Run(ctx); ctx.Err() == nil {
					rec.fail(err)
					pause(ctx, 100*time.Millisecond)
				}
			}
		}()
		has := map[string]string{}
		for change, err := range objects.Subscribe(ctx) {
			if err != nil {
				break
			}
			rec.add(storeReport(info, change, has))
			if rand.N(100) == 0 {
				pause(ctx, rand.N(time.Second))
			}
		}
		<-ended
		return compareStore(objects, has)
	})
}

// storeReport returns the report of a change, and applies it to what the subscriber has: versions by uid. A GAP may
// have any reason.
func storeReport(info crdInfo, c store.Change, has map[string]string) report {
	r := report{At: time.Now(), Run: 1, Kind: Kind(c.Type), Resource: info.resource(), Acked: true}
	o := c.New
	switch c.Type {
	case stream.Gap:
		r.Reason = anyReason
		return r
	case stream.Synced:
		return r
	case stream.Deleted:
		o, r.Inferred = c.Old, true // the version of the last state, not of the deletion
		delete(has, string(o.UID()))
	default:
		has[string(o.UID())] = o.ResourceVersion()
	}
	r.Namespace, r.Name, r.UID, r.ResourceVersion = o.Namespace(), o.Name(), o.UID(), o.ResourceVersion()
	return r
}

// compareStore returns an error if a Store does not have exactly these versions of objects, or cannot decode them.
func compareStore(s *store.Store, has map[string]string) error {
	all, err := s.List(store.Query{})
	if err != nil {
		return err
	}
	stored := map[string]string{}
	for o := range all {
		decoded, err := o.Decode()
		if err != nil {
			return err
		}
		stored[string(decoded.GetUID())] = decoded.GetResourceVersion()
	}
	if !maps.Equal(stored, has) {
		return fmt.Errorf("the store has %v, and its subscriber %v", stored, has)
	}
	return nil
}
