// Package file keeps checkpoints in a file: any number of Streams in one file, each with its position and its objects.
// To begin, pass what [Open] returns to gvrwatch.Connection.Tracker.
//
// # Format
//
// The file is a log: a snapshot of all checkpoints, then one record for each commit. Commit appends its record, and
// returns when the record is on disk. Once the records after the snapshot are longer than the snapshot plus 1 MiB, the
// next commit first writes a new snapshot to a new file (mode 0600), and renames that file to the old name. Without
// room for both files, commits fail.
//
// The first line has the number of the format, which is 3. Open refuses another number with a
// [*checkpoint.CorruptError] whose Older or Newer is set. No release wrote formats 1 and 2.
//
// The head after it has 16 bytes, which are overwritten in place: the size that the file had on disk before the last
// commit (after Close, its whole size), and whether the file is Unclean (see [Store.MarkUnclean]).
//
// # Promises
//
//   - A program that is killed at any instruction, even by a power failure, finds the outcome of its last commit
//     afterwards, or of the commit that was under way.
//   - Every byte has a checksum, and a record's checksum covers the records before it too. Open refuses an invalid file
//     with a [*checkpoint.CorruptError] and does not change it.
//   - One exception: the last record may be incomplete, if it is cut short, or one of its sectors is zeros because it
//     never reached the disk. Open ignores it, and the next commit overwrites it.
//   - Open refuses a file that is shorter than what was on disk: one that was cut off anywhere before its last commit,
//     or after Close anywhere at all.
//   - A checkpoint that has valid checksums and other contents than this package writes does not affect others: Load
//     returns a [*checkpoint.CorruptError] that names its key, and a new snapshot contains it unchanged, until Delete
//     removes it.
//   - So does one that is damaged while the file is open, until a new snapshot is due: then each Commit returns that
//     error too, until Delete removes it.
//   - No contents of a file end the process. Opening and loading take memory in proportion to the commits and objects
//     in the file, also if the file is sparse. A file may have 8 GiB, which is enough for 40 million objects; a larger
//     one is refused, and so is a commit that would make it larger.
//   - One process at a time has the file open. Others get a [*checkpoint.LockedError].
//   - On Unix, Open and all other calls refuse a file that belongs to another user than this process' or root, to which
//     others can write, or that has several hard links. Open refuses such a lock file. The error wraps
//     [fs.ErrPermission] and says what to do.
//
// # Not promised
//
// If a process was killed, its last commit looks like one that was under way: a file that somebody cuts off
// within the last commit, or fills with zeros from its beginning on, is valid, and holds the commit before it.
//
// Whoever may write to the folder may replace the file: its mode is not checked. If a group may write to the folder,
// which is not sticky, it may write to the file too. Kubernetes makes volumes with an fsGroup such folders.
//
// No other program may write to the file while it is open. After it was removed, commits fail with a
// [*checkpoint.FencedError]; after it was cut off, or replaced by another file, with a [*checkpoint.CorruptError]. Each
// commit looks at the file under the name. So a copy with the same contents is taken for the file, and a directory or a
// symbolic link in its place is an [*fs.PathError], after which the Tracker tries again.
//
// # A full disk
//
// While commits fail, a Tracker goes on delivering objects that the file lacks. Before it does, it marks the file. If
// the process is killed then, Load returns Unclean positions in the next one. The mark needs no room where a file
// system overwrites in place what it has allocated. Tried on full ones: ext4, XFS and tmpfs do; btrfs does not, unless
// the file has the attribute C or the volume is mounted with nodatacow. ZFS, bcachefs and others that copy on write may
// not either, nor XFS and btrfs after the file's blocks were shared (cp --reflink, snapshots). On NFS and in volumes of
// virtual machines it depends on what is behind them. An I/O error, a read-only file system, or too many open files may
// prevent the mark as well. Then checkpoint.Status.Err has both errors, and a kill may lose deletions silently: set
// checkpoint.Options.WaitForCommits where that matters, which needs no mark.
//
// # Operations
//
// Open creates a lock file beside the file, with the same name and the suffix ".gvrwatch-lock". The lock file names the
// process that has the file open. It may be removed while no process has the file open.
//
// A copy of the file may be made at any time. If a copy is restored, the next run delivers again what was acked since
// the copy was made, but it does not report the deletion of an object that was created and deleted since. To have
// everything delivered again, delete the checkpoint.
package file
