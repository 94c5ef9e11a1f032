package guard

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// statusOf returns the Status in the body of an answer with that code, or nil if the body is no Status of an API
// server. This is the only rule about it, for Streams, discovery and Connection.Cluster. A Status has
//
//   - the kind Status, the apiVersion v1 or none, and not the status Success,
//   - the code of the answer, as every API server of k8s.io/apiserver writes it, or at least a reason and no code.
//
// It may be JSON or protobuf, whatever the content type is. What a gateway says in its own name may look like one: then
// resembles is true, too.
func statusOf(code int, body []byte) (_ *metav1.Status, resembles bool) {
	var s metav1.Status
	var err error
	if data, ok := bytes.CutPrefix(body, []byte("k8s\x00")); ok { // protobuf
		var envelope runtime.Unknown
		if err = envelope.Unmarshal(data); err == nil {
			err = s.Unmarshal(envelope.Raw)
		}
		s.Kind, s.APIVersion = envelope.Kind, envelope.APIVersion
	} else {
		err = json.Unmarshal(body, &s)
	}
	if err != nil || s.Kind != "Status" {
		return nil, false
	}
	hasCode := s.Code == int32(code) || s.Code == 0 && s.Reason != ""
	if cmp.Or(s.APIVersion, "v1") != "v1" || s.Status == metav1.StatusSuccess || !hasCode {
		return nil, true
	}
	s.Code, s.Status = int32(code), metav1.StatusFailure
	return &s, true
}

// errorBytes is how long the answer to a request that failed may be. A Status has a few KiB.
const errorBytes = 1 << 20

// readError returns the body of an answer to a request that failed, and closes it. A body that is too long is replaced
// by a text.
func readError(resp *http.Response) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(resp.Body, errorBytes+1))
	_ = resp.Body.Close()
	if len(body) > errorBytes {
		return []byte(tooLong(resp.StatusCode)), nil
	}
	return body, err
}

func tooLong(code int) string {
	return fmt.Sprintf("the server answered %d with more than %d MiB", code, errorBytes>>20)
}

// settle reads the answer to a request that failed, so that client-go takes for a Status what [statusOf] does: that
// becomes JSON, and what resembles it, text. The code of the answer stays, which decides what happens next.
func settle(resp *http.Response) {
	body, err := readError(resp)
	status, resembles := statusOf(resp.StatusCode, body)
	contentType := ""
	switch {
	case err != nil:
	case status != nil:
		contentType = "application/json"
		body, _ = json.Marshal(status) // it has only strings and numbers
	case resp.StatusCode == http.StatusNotFound && isNotServed(body):
		contentType, body = "text/plain", []byte(notServed)
	case resembles, string(body) == tooLong(resp.StatusCode):
		contentType = "text/plain"
	}
	if contentType != "" {
		resp.Header.Set("Content-Type", contentType)
		resp.ContentLength = int64(len(body))
	}
	resp.Body = io.NopCloser(io.MultiReader(bytes.NewReader(body), &ending{err}))
}

// ending ends a body with err, or if that is nil, as usual.
type ending struct{ err error }

func (e *ending) Read([]byte) (int, error) { return 0, cmp.Or(e.err, io.EOF) }
