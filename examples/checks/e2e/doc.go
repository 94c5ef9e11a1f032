// Package e2e has the tests that need a real API server. They start examples/devserver, so nothing else has to be
// installed or started. Only the tests behind the build tag "lab" need a full kube-apiserver: see CONTRIBUTING.md.
package e2e
