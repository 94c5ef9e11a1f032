// Package commands runs the commands of README.md, docs and the READMEs of the examples in a copy of the repository,
// and compares what they print with what the documents show. It has no code but its test.
//
// Each block of Markdown that is fenced as sh is run, line by line, in one shell for each document: exports and cd have
// an effect on the lines that follow. A line with "until Ctrl-C" in its comment goes on in the background; all others
// must end with status 0. If a block without a language follows, it is what the commands print. Its lines must occur in
// this order; others may occur between them. Digits, UUIDs, columns of spaces and folders may differ, and the beginning
// of a line may be left out, such as a timestamp.
//
// A comment before a block changes that:
//
//	<!-- commands: like -->           the lines may have other words, but the same punctuation
//	<!-- commands: status 1 -->       the last command ends with this status
//	<!-- commands: not run: REASON --> nothing is run; the reason says what runs it instead
package commands
