// Package file keeps checkpoints in a bbolt file: any number of streams in one,
// each with the objects that it was told. A commit writes what has changed, and is
// on the disk when it returns; killed at any instruction, what is found afterwards
// is the outcome of one commit.
//
// Beside the file lies one of the same name with ".gvrwatch-lock" at its end, which
// says who has it open. It stays when the file is closed, and may be removed then.
//
// Every byte that counts is checked when a file is opened and a checkpoint is
// loaded, before bbolt sees it, since bbolt trusts a file: a damaged one can end
// the process with a signal. What fails the check is a *checkpoint.CorruptError,
// and is left as it is. Nobody may write to a file that is open, nor cut it off: that
// can end the process. One that is removed or replaced is committed to no more
// (*checkpoint.FencedError).
//
// A copy that is put back is from before: what was acked since comes again, but the
// end of an object that is newer than the copy, and gone, is not told. To tell
// everything again, reset the checkpoint.
package file
