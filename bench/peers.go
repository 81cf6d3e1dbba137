package main

// The contenders' programs: the bench itself for those of this module, and one that is built from the peers' own module, so that no user of the
// library inherits what they need. A peer that can't be had here is no error: its row says so.

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/breakwater-go/breakwater/bench/internal/contenders"
	"github.com/breakwater-go/breakwater/bench/internal/stage"
)

// peers are the contenders of bench/peers.
var peers = []struct{ Name, About string }{
	{"watermill", "Watermill with its Kafka driver (sarama), its Retry, its CircuitBreaker and its poison queue"},
	{"franz-go", "a bare franz-go loop that pauses"},
	{"spring", "Spring Kafka at its best: pausing back-off, dead letter recoverer, on a real Kafka"},
}

func peerNames() (names []string) {
	for _, p := range peers {
		names = append(names, p.Name)
	}
	return names
}

// findContenders finds out how to run each contender that takes part.
func (b *bench) findContenders(ctx context.Context) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	for _, c := range contenders.Names {
		b.commands[c.Name] = stage.Command{self, asContender}
	}
	if slices.ContainsFunc(b.contenders, func(n string) bool { return slices.Contains(goPeers, n) }) {
		program, err := b.buildPeers(ctx)
		for _, name := range goPeers {
			if err != "" {
				b.notHad[name] = err
			} else {
				b.commands[name] = stage.Command{program}
			}
		}
	}
	b.notHad["spring"] = "not to be had: this bench has no driver for it yet; bench/README.md tells what was measured by hand"
	return nil
}

var goPeers = []string{"watermill", "franz-go"}

// buildPeers builds the peers' program; why not, else.
func (b *bench) buildPeers(ctx context.Context) (program, why string) {
	const module = "bench/peers"
	if _, err := os.Stat(filepath.Join(module, "go.mod")); err != nil {
		return "", "not to be had: run the bench at the root of a checkout, where " + module + " is"
	}
	b.say("building the peers, in %s", module)
	program = filepath.Join(b.temp, "peers")
	build := exec.CommandContext(ctx, "go", "build", "-o", program, ".")
	build.Dir = module
	if text, err := build.CombinedOutput(); err != nil {
		lines := strings.Split(strings.TrimSpace(string(text)), "\n")
		return "", "not to be had: " + module + " could not be built: " + lines[len(lines)-1]
	}
	return program, ""
}
