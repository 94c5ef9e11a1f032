// Package doctest holds tests of the documentation: Go fragments of the Markdown files compile, links and the names of
// tests lead somewhere, the promises in docs/promises.md are worded as in the package docs, and each package has a
// complete example.
package doctest
