// Package e2e has the tests that need a real API server. They start examples/devserver, so nothing else has to be
// installed or started.
package e2e
