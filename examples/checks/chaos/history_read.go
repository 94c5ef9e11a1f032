package main

import "io"

func readEtcd(args []string, stdout, stderr io.Writer) int { return 2 }
