// Package execute runs a command for each event, for --exec. [Runner] keeps the order of the events of one object, runs
// the commands of different objects side by side, and runs a command that fails again until it succeeds.
package execute
