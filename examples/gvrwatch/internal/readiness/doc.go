// Package readiness says why an object is not ready, in the sense of kstatus (sigs.k8s.io/cli-utils): ready is what
// kstatus calls current. Its rules look at deletionTimestamp, observedGeneration, the conditions Reconciling, Stalled
// and Ready, and the fields of the types that are built in, such as the replicas of a Deployment.
// The package is given hostile objects: no object makes it panic, and no text has more of one than numbers of replicas.
// It makes no requests: what an object owns is not looked at.
package readiness
