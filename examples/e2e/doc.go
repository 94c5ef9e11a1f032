// Package e2e holds the tests that only a real API server can answer. They run
// on examples/devserver; nothing has to be installed or started for them.
package e2e
