// Chaos breaks a real API server and etcd in many ways while objects are written, and compares what clients report
// with the history in etcd.
package main

func main() {}
