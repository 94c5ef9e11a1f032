// Package difftext writes a field that has changed as texts of a line, for -o diff and the live view. It compares
// nothing: package changes does. It prints nothing, and cuts nothing: package screen does.
package difftext
