package main

// The contenders' programs: the bench itself for those of this module, one that is built from the peers' own module, so that no user of the library
// inherits what they need, and one of Java. A peer that can't be had here is no error: its row says so.

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
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
	if slices.Contains(b.contenders, "spring") {
		if b.commands["spring"], err = b.buildSpring(ctx); err != nil {
			b.notHad["spring"] = "not to be had: " + err.Error()
		}
	}
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

// buildSpring compiles the contender of bench/peers/spring. What it needs is fetched once for each user of a machine, by Maven, into the user's cache folder.
func (b *bench) buildSpring(ctx context.Context) (stage.Command, error) {
	const project = "bench/peers/spring"
	if !b.real && b.brokers == "" {
		return nil, errors.New("it takes part on a real Kafka alone; give -real, or -brokers")
	}
	pom, err := os.ReadFile(filepath.Join(project, "pom.xml"))
	if err != nil {
		return nil, errors.New("run the bench at the root of a checkout, where " + project + " is")
	}
	sources, err := filepath.Glob(filepath.Join(project, "src", "bench", "*.java"))
	if err != nil {
		return nil, err
	}
	for _, program := range []string{"java", "javac"} {
		if _, err := exec.LookPath(program); err != nil {
			return nil, fmt.Errorf("it needs %s, of a JDK 17 or later (Debian: apt-get install openjdk-17-jdk-headless)", program)
		}
	}
	jars, err := b.fetchJars(ctx, project, pom)
	if err != nil {
		return nil, err
	}
	b.say("building Spring Kafka's contender, in %s", project)
	classes := filepath.Join(b.temp, "spring")
	if err := output(exec.CommandContext(ctx, "javac", append([]string{"--release", "17", "-cp", jars, "-d", classes}, sources...)...)); err != nil {
		return nil, err
	}
	// What is ignored here stays ignored in Java: a Ctrl-C in the terminal is for the bench, which tells its contenders.
	return stage.Command{"/bin/sh", "-c", `trap '' INT TERM; exec "$0" "$@"`, "java", "-Xmx512m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
		"-cp", classes + string(filepath.ListSeparator) + jars, "bench.Contender"}, nil
}

// fetchJars answers the class path of a Maven project's jars. Their folder appears whole or not at all: it is filled under another name and renamed.
func (b *bench) fetchJars(ctx context.Context, project string, pom []byte) (classPath string, err error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	cache = filepath.Join(cache, "breakwater")
	home := filepath.Join(cache, fmt.Sprintf("spring-%.6x", sha256.Sum256(pom)))
	classPath = filepath.Join(home, "*")
	if _, err := os.Stat(home); err == nil {
		return classPath, nil
	}
	if _, err := exec.LookPath("mvn"); err != nil {
		return "", errors.New("it is fetched with Maven (Debian: apt-get install maven)")
	}
	b.say("fetching Spring Kafka (27 MB, once)")
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", err
	}
	partial, err := os.MkdirTemp(cache, "spring-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(partial)
	err = output(exec.CommandContext(ctx, "mvn", "-B", "-q", "-ntp", "-f", filepath.Join(project, "pom.xml"), "dependency:copy-dependencies",
		"-DincludeScope=runtime", "-DoutputDirectory="+partial))
	if err != nil {
		return "", err
	}
	if err := os.Rename(partial, home); err != nil {
		if _, missing := os.Stat(home); missing != nil { // else another bench has fetched it meanwhile
			return "", err
		}
	}
	return classPath, nil
}

// output runs a program that is to succeed; the error has the first line of what it said.
func output(c *exec.Cmd) error {
	text, err := c.CombinedOutput()
	if err == nil {
		return nil
	}
	first, _, _ := strings.Cut(strings.TrimSpace(string(text)), "\n")
	return fmt.Errorf("%s: %w: %s", filepath.Base(c.Path), err, first)
}
