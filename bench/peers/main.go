// Command peers is the contenders of the bench that need what nobody who uses Breakwater should inherit. The bench builds and runs it; see
// package contend.
package main

import (
	"os"
	"os/signal"
	"syscall"

	"github.com/breakwater-go/breakwater/bench/internal/contend"
)

func main() {
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM) // a Ctrl-C in the terminal is for the bench, which tells us
	os.Exit(contend.Main(os.Stdin, os.Stdout, map[string]contend.Contender{"watermill": watermillRouter, "franz-go": franz}))
}
