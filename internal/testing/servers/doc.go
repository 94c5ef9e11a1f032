// Package servers has servers that break rules of the API conventions on resource versions, watches and lists. Each is
// a Personality in front of a server that keeps the rules: requests and answers pass through it, and it changes some.
// So it works in front of the scripted server, and in a proxy in front of a real one. What clients must report of such
// a server is checked by package oracle (CheckTruth).
package servers
