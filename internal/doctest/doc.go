// Package doctest holds tests of the Markdown files: Go fragments compile, links and the names of tests lead somewhere,
// and the promises in docs/promises.md are worded as in the package docs.
package doctest
