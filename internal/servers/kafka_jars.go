package servers

// Apache Kafka is fetched once for each user of a machine, by Maven, into the user's cache folder. The folder appears whole or
// not at all (it is filled under another name and renamed), and a lock keeps test processes that start together from fetching
// it together.

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// KafkaVersion is the version of Apache Kafka that NewKafka runs.
const KafkaVersion = "4.4.0"

//go:embed kafka/pom.xml
var kafkaPom []byte

// FetchKafka returns the class path of Apache Kafka, after fetching it if this machine does not have it yet: 43 MB from Maven's
// central repository, some fifteen seconds. Its error wraps [ErrUnavailable] where Java or Maven is missing, or Maven can't
// reach a repository.
func FetchKafka(ctx context.Context) (classPath string, err error) {
	if _, err := exec.LookPath("java"); err != nil {
		return "", fmt.Errorf("servers: Kafka needs Java 17 or later (Debian: apt-get install openjdk-17-jre-headless): %w", ErrUnavailable)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("servers: a place for Kafka: %w", err)
	}
	home := filepath.Join(cache, "breakwater", "kafka-"+KafkaVersion)
	classPath = filepath.Join(home, "*")
	if _, err := os.Stat(home); err == nil {
		return classPath, nil
	}

	if err := os.MkdirAll(filepath.Dir(home), 0o755); err != nil {
		return "", fmt.Errorf("servers: a place for Kafka: %w", err)
	}
	lock, err := os.OpenFile(home+".lock", os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return "", fmt.Errorf("servers: a place for Kafka: %w", err)
	}
	defer lock.Close() // gives the lock back, and so does the end of the process
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", fmt.Errorf("servers: lock %s: %w", lock.Name(), err)
	}
	if _, err := os.Stat(home); err == nil {
		return classPath, nil // another process has fetched it meanwhile
	}

	mvn, err := exec.LookPath("mvn")
	if err != nil {
		return "", fmt.Errorf("servers: Kafka is fetched with Maven (Debian: apt-get install maven): %w", ErrUnavailable)
	}
	f, err := newFolder("maven")
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	pom, partial := filepath.Join(f.path, "pom.xml"), home+".partial"
	if err := os.WriteFile(pom, kafkaPom, 0o644); err != nil {
		return "", fmt.Errorf("servers: %w", err)
	}
	if err := os.RemoveAll(partial); err != nil { // of a process that was killed
		return "", fmt.Errorf("servers: %w", err)
	}
	p, err := f.run("mvn", mvn, "-B", "-q", "-ntp", "-f", pom, "dependency:copy-dependencies", "-DincludeScope=runtime", "-DoutputDirectory="+partial)
	if err != nil {
		return "", err
	}
	if err := p.wait(ctx); err != nil {
		return "", fmt.Errorf("%w (Kafka is %w)", err, ErrUnavailable)
	}
	if err := os.Rename(partial, home); err != nil {
		return "", fmt.Errorf("servers: %w", err)
	}
	return classPath, nil
}
