package devserver

import (
	"errors"
	"time"
)

const (
	// watchGrace bounds how long the API server takes to end its watches one by one, each with a clean end of stream.
	watchGrace = 200 * time.Millisecond
	// requestGrace is how long requests in flight may take to finish. Then they are cancelled.
	requestGrace = 500 * time.Millisecond
	// syncGrace bounds the wait until a starting server can be stopped: see stopRun.
	syncGrace = 10 * time.Second
)

var errNeverSynced = errors.New("stop the API server: its CRD informer never synced, so its goroutines are leaked")

// Stop ends open watches, gives other requests a moment to finish, and stops the server. It returns when the server's
// goroutines have ended and its temporary folder is removed. Further calls wait for the first one and return its
// result.
func (s *Server) Stop() error {
	s.ending.once.Do(func() { s.ending.err = s.stop() })
	return s.ending.err
}

// stop undoes start in reverse order. start may have failed at any point.
func (s *Server) stop() error {
	var errs []error
	if s.running.cancel != nil {
		errs = append(errs, s.stopRun())
	}
	if s.serving != nil {
		s.serving.close()
	}
	if s.dialer != nil {
		s.dialer.close()
	}
	if s.etcd != nil {
		s.etcd.Stop()
	}
	if s.folder != nil {
		errs = append(errs, s.folder.close())
	}
	s.removeLogs()
	return errors.Join(errs...)
}

// stopRun stops the API server after its requests have finished.
func (s *Server) stopRun() error {
	// If a post-start hook of the apiextensions-apiserver is cancelled before the CRD informer has synced, the hook
	// ends the process: wait for the informer.
	for _, synced := range s.api.GenericAPIServer.MuxAndDiscoveryCompleteSignals() {
		select {
		case <-synced:
		case <-s.running.done: // it failed before any hook started
		case <-time.After(syncGrace):
			return errNeverSynced
		}
	}
	s.serving.shutdown()
	s.running.cancel()
	select {
	case <-s.running.done:
	case <-time.After(requestGrace):
		s.serving.cancelRequests()
		<-s.running.done
	}
	return s.running.err
}
