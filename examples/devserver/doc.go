// Package devserver runs a real Kubernetes API server inside the calling process: an embedded etcd and the
// apiextensions-apiserver. It serves customresourcedefinitions and every custom resource that they define, with the
// watches, resource versions, discovery and OpenAPI documents of a production server. Programs that watch arbitrary
// resources can be tried and tested without a cluster.
//
// It serves no Pods, no Namespaces (namespaced objects do not need one), no RBAC and no admission webhooks. The bearer
// token of [Server.Config] permits everything, that of [Server.LimitedConfig] what Options.Allow permits.
// Requests without one of these tokens get 401.
//
// Several API servers, also in other processes, can share an etcd: see [StartEtcd] and Options.Etcd.
//
// The API server listens on 127.0.0.1, and etcd on a Unix socket that only the owner of the data folder can open.
//
// # Logging
//
// The API server and etcd log through loggers that are global to the process: klog, gRPC's, and that of the API
// server's etcd client. The first [Start] redirects them for the rest of the process's life to [Options].LogTo of the
// running servers; if none is set, logs are discarded. This lasts beyond [Server.Stop], because clients that still
// retry against a stopped server log through klog, too. To use klog for something else, call klog.SetOutput or
// klog.SetLogger after Start. Errors that end the process are still written to standard error.
package devserver
