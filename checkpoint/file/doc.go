// Package file keeps checkpoints in a file: any number of streams in one, each with the
// objects that were delivered.
//
// The file is a log. A commit appends one record, which is on the disk when Commit returns.
// Once the records after the last snapshot are longer than that and 1 MiB, the next commit
// first writes a snapshot of everything to a new file (mode 0600) and gives that the name of
// the old one; without room for both, commits fail. A program that is killed at any
// instruction, also by a power failure, finds the outcome of its last commit afterwards, or
// of the one that was under way.
//
// Every byte has a checksum, and a record is valid only behind those that it was written
// behind. A file that is not valid is a *checkpoint.CorruptError, and is left as it is, but
// for the last record: one that was not written whole (it is cut short, or a sector of it is
// zeros, as a file system shows what never reached the disk) is ignored, and the next commit
// writes over it. A file that was cut off at the end of a record, or is zeros from there on,
// is what it was before the next record was appended, so that an older commit is found,
// though none from before the last snapshot.
//
// Nobody else may write to a file that is open. One that was removed is committed to no more
// (*checkpoint.FencedError), nor is one that was cut off or replaced
// (*checkpoint.CorruptError). Beside the file lies one with ".gvrwatch-lock" at the end of
// its name, which says who has it open. It may be removed when nobody has.
//
// A copy may be made at any time. One that is put back is from before: what was acked since
// is delivered again, but the deletion of an object that is newer than the copy, and gone, is
// not reported. To have everything delivered again, reset the checkpoint.
package file
