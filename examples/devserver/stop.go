package devserver

import (
	"errors"
	"time"
)

const (
	// watchGrace bounds how long the API server takes to end its watches one by
	// one, each with a clean end of stream.
	watchGrace = 200 * time.Millisecond
	// requestGrace is what requests in flight get to finish in peace. Those that
	// take longer are cancelled.
	requestGrace = 500 * time.Millisecond
	// syncGrace bounds the wait for a server to come up far enough to be stopped.
	syncGrace = 10 * time.Second
)

var errNeverSynced = errors.New("the API server could not be stopped, because it never came up: its goroutines stay")

// Stop ends open watches, lets other requests finish for a moment, and stops the
// server. It returns when its goroutines have ended and its temporary folder is
// gone. Every further call waits for the first and returns its result.
func (s *Server) Stop() error {
	s.stopOnce.Do(func() { s.stopErr = s.stop() })
	return s.stopErr
}

// stop undoes start in reverse, however far that came.
func (s *Server) stop() error {
	var errs []error
	if s.cancelRun != nil {
		errs = append(errs, s.stopRun())
	}
	if s.serving != nil {
		s.serving.close()
	}
	if s.etcd != nil {
		s.etcd.close()
	}
	if s.folder != nil {
		errs = append(errs, s.folder.close())
	}
	s.removeLogs()
	return errors.Join(errs...)
}

// stopRun ends the API server, which drains its requests first.
func (s *Server) stopRun() error {
	// A post-start hook of the apiextensions-apiserver takes it for fatal and
	// ends the process if it is cancelled before the CRD informer has synced.
	for _, synced := range s.api.GenericAPIServer.MuxAndDiscoveryCompleteSignals() {
		select {
		case <-synced:
		case <-s.runDone: // it failed to start any hook
		case <-time.After(syncGrace):
			return errNeverSynced
		}
	}
	s.serving.shutdown()
	s.cancelRun()
	select {
	case <-s.runDone:
	case <-time.After(requestGrace):
		s.serving.cancelRequests()
		<-s.runDone
	}
	return s.runErr
}
