package outfile

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestAFileIsOnlyTriedBeforeThereAreFigures(t *testing.T) {
	path, folder := filepath.Join(t.TempDir(), "old.json"), t.TempDir()
	if err := os.WriteFile(path, []byte("the last run's"), 0o644); err != nil {
		t.Fatal(err)
	}
	err := errors.Join(File("-json", path), Folder("-profile", folder))
	if text, _ := os.ReadFile(path); err != nil || string(text) != "the last run's" {
		t.Errorf("%v, and the file has %q", err, text)
	}
	if left, _ := os.ReadDir(folder); len(left) > 0 {
		t.Errorf("%v was left behind", left)
	}
}
