// Package recording reads and writes files of what a watch delivered, for the tool's --record, replay and timeline, and
// for streamtest. A file is lines of JSON, compressed with gzip, which zcat and jq read too. Each run of a writer
// appends to it. What a killed writer leaves is readable, up to the last half second. [Changes] makes the runs one
// history. The package decides neither what is recorded nor what is shown, and does not know what a Secret is.
package recording
