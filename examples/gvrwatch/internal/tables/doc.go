// Package tables makes a Stream's requests for lists and watches ask for Tables, the columns that kubectl prints.
// [Wrap] puts a transport into a rest.Config. It turns Tables back into lists and events of PartialObjectMetadata while
// they arrive, and adds to each object, under a random key, its cells and columns. [Tables.Row] returns them.
// Answers that are no Tables, and whatever can't be converted, pass unchanged, so a Stream sees each fault as the
// server made it. The package prints nothing, and keeps no columns.
package tables
