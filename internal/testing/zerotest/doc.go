// Package zerotest calls every exported function and method of the public packages with zero values.
package zerotest
