// Reading the file: a regular one, of a size that a strategy can have, so that neither a pipe nor a disk image put in its
// place can hang or fill the process.

package strategy

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// Load reads a strategy from a file. The error wraps a *ParseError where the file could be read.
func Load(path string) (*Strategy, error) {
	data, err := read(path)
	if err != nil {
		return nil, err
	}
	return Parse(path, data)
}

func read(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf(`strategy: %w; create it, with [1, 4, 16] to begin with, or correct the path`, err)
	}
	if err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("strategy: %s is no regular file; name the file itself", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("strategy: %w; make it readable for this process", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxSize+1)) // one more, so that Parse sees that it is too large
	if err != nil {
		return nil, fmt.Errorf("strategy: %w", err)
	}
	return data, nil
}
