// Package screen writes what a program prints to stdout and stderr: text of servers and tenants, tables that never
// end, colours, and a line at the bottom of a terminal that says how the program is doing.
//
// Only this package and the library of the live view write escape sequences, and each text is escaped before a sequence
// is added. In a terminal, rows of a table and the status line never wrap. What is no terminal gets neither a sequence
// (unless colours are demanded) nor the status line, and nothing is cut there.
package screen
