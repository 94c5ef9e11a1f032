// Package store keeps the objects of one resource.
package store
