package main

import (
	"fmt"
	"net/http"
	"strconv"
)

// batch is the approximate size of a write, in bytes.
const batch = 64 << 10

// list sends all objects, or a page of them. A continue token is the number of objects on the pages before.
func (s *server) list(a podRequest, w http.ResponseWriter, req *http.Request) {
	limit, _ := strconv.Atoi(req.URL.Query().Get("limit"))
	skip, _ := strconv.Atoi(req.URL.Query().Get("continue"))
	select {
	case <-a.run.started:
		// A peer that lists again has lost its watch: its figures would be wrong.
		http.Error(w, "lists are not possible once the events have started", http.StatusInternalServerError)
		return
	default:
	}
	left := a.count() - skip
	kind, version, more := "PodList", "v1", ""
	if a.metadata {
		kind, version = "PartialObjectMetadataList", "meta.k8s.io/v1"
	}
	if limit > 0 && limit < left {
		more = fmt.Sprintf(`,"continue":"%d","remainingItemCount":%d`, skip+limit, left-limit)
		left = limit
	}
	out := fmt.Appendf(nil, `{"kind":%q,"apiVersion":%q,"metadata":{"resourceVersion":"%d"%s},"items":[`,
		kind, version, firstVersion, more)
	of := s.rendered.forRequest(a, itemForm)
	first := true
	a.objects(skip, func(n int) bool {
		if left == 0 {
			return false
		}
		left--
		if !first {
			out = append(out, ',')
		}
		first = false
		out = appendObject(out, of, a, n)
		if len(out) >= batch {
			_, err := w.Write(out)
			out = out[:0]
			return err == nil
		}
		return true
	})
	w.Write(append(out, "]}\n"...)) // an error means that the client has gone
}
