package main

import (
	"fmt"
	"strings"
)

// peer is one way to watch pods.
type peer struct {
	name string
	what string // description, for the JSON file
	run  func(*lap) error
	// size of the objects; empty means small.
	size size
	// expect returns how many events the peer delivers, and the resourceVersion of the last one, which is empty if
	// any event may be the last. Nil means all events, in order.
	expect func(scenario) (events int, last string)
	// scale multiplies the number of events under -quick, so that a fast peer's startup does not dominate its time.
	// Zero means 1.
	scale int
}

// peers returns all peers, in the order of the table.
func peers() []peer {
	list := []peer{
		{name: "raw-socket", what: "reads bytes from a socket, counts newlines", run: rawSocket, scale: 20},
		{name: "metadata-scan", what: "reads frames from a socket, finds the metadata", run: metadataScan, scale: 20},
		{name: "dynamic", what: "client-go's dynamic Watch", run: stockWatch},
		{name: "retrywatcher", what: "client-go's RetryWatcher on it", run: retryWatcher},
		{name: "dynamicinformer", what: "client-go's dynamicinformer", run: stockInformer},
		{name: "controller-runtime", what: "controller-runtime's unstructured cache", run: controllerRuntime},
		{name: "metadata-informer", what: "client-go's metadatainformer, JSON", run: metadataInformer, scale: 2},
		{name: "dynamic-on-ours", what: "NewClient, plain Watch", run: fastWatch, scale: 4},
		{name: "informer-on-ours", what: "client-go's dynamicinformer on NewClient", run: fastInformer, scale: 4},
	}
	list = append(list, streams()...)
	return append(list,
		peer{name: "dynamic-11k", what: "as dynamic, larger objects", run: stockWatch, size: big},
		peer{name: "ours-11k", what: "as ours, larger objects", run: fastStream(nil, nil), size: big},
	)
}

// snapshotPeers returns the peers whose first snapshot is measured.
func snapshotPeers() []peer {
	return []peer{
		{name: "dynamic-list", what: "client-go's dynamic List, whole", run: wholeList},
		{name: "dynamic-pages", what: "client-go's dynamic List, pages of 500", run: pagedList},
		{name: "informer-snapshot", what: "client-go's dynamicinformer, streaming list", run: stockInformer},
		{name: "ours-watchlist", what: "ours, streaming list", run: fastStream(nil, nil)},
		{name: "ours-pages", what: "ours, pages of 500", run: fastStream(nil, pages)},
	}
}

func peerNamed(name string) (peer, error) {
	for _, p := range append(peers(), snapshotPeers()...) {
		if p.name == name {
			return p, nil
		}
	}
	return peer{}, fmt.Errorf("unknown peer %q: must be one of %s", name, strings.Join(peerNames(), ", "))
}

func peerNames() []string {
	var names []string
	for _, p := range append(peers(), snapshotPeers()...) {
		names = append(names, p.name)
	}
	return names
}
