// Package mux merges many watches into one sequence.
package mux
