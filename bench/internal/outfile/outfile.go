// Package outfile tries what is written at the end of a long run before it begins, so that nobody waits for a file that can't be.
package outfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// File opens the file that a flag names; "" is none. What is in it stays.
func File(flag, path string) error {
	if path == "" {
		return nil
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o666)
	if err != nil {
		return fmt.Errorf("%s %s: %w; name a file in a folder that exists", flag, path, reason(err))
	}
	return file.Close()
}

// Folder makes a file in the folder that a flag names, and removes it; "" is none.
func Folder(flag, path string) error {
	if path == "" {
		return nil
	}
	file, err := os.CreateTemp(path, "breakwater-")
	if err != nil {
		return fmt.Errorf("%s %s: %w; name a folder that exists", flag, path, reason(err))
	}
	return errors.Join(file.Close(), os.Remove(file.Name()))
}

// reason is an error without the path that it names.
func reason(err error) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err
	}
	return err
}
