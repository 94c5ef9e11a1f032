// Package devserver runs a real Kubernetes API server inside the calling
// process: an embedded etcd and the apiextensions-apiserver. It serves
// customresourcedefinitions and every custom resource they define, with the
// watches, resource versions, discovery and OpenAPI documents of a production
// server, so a program that watches arbitrary resources can be tried and tested
// without a cluster.
//
// It serves no Pods, no Namespaces (a namespaced object needs none), no RBAC and
// no admission webhooks: whoever holds the bearer token may do everything, and
// everybody else is refused.
//
// Everything listens on 127.0.0.1 or on a Unix socket only its owner can reach.
//
// # Logging
//
// The server's parts log through loggers that are global to the process: klog,
// gRPC's and the one of the API server's etcd client. The first [Start] takes
// these over for the rest of the process's life: from then on they write to
// [Options].LogTo of the servers that run, and nowhere if no server has one. This
// lasts beyond [Server.Stop], because clients that still retry against a stopped
// server log through klog too. A program that wants klog for itself calls
// klog.SetOutput or klog.SetLogger after Start. Only the last words of an error
// that ends the process still go to standard error.
package devserver
