// Package scenarios is the scenarios that ship: each is a file that can be copied and edited, and is known by its name.
package scenarios

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/breakwater-go/breakwater/bench/stub/scenario"
)

//go:embed *.json
var files embed.FS

// Names are the scenarios that ship, without ".json".
func Names() []string {
	var names []string
	entries, _ := files.ReadDir(".")
	for _, entry := range entries {
		names = append(names, strings.TrimSuffix(entry.Name(), path.Ext(entry.Name())))
	}
	return names
}

// Load reads a scenario from a file, or, where there is no such file, the one that ships under that name ("outage" or "outage.json").
func Load(name string) (*scenario.Scenario, error) {
	data, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		var missing error
		if data, missing = files.ReadFile(strings.TrimSuffix(name, ".json") + ".json"); missing != nil {
			return nil, fmt.Errorf("scenarios: there is no file %q; give one, or a scenario that ships: %s", name, strings.Join(Names(), ", "))
		}
	} else if err != nil {
		return nil, fmt.Errorf("scenarios: %w", err)
	}
	return scenario.Parse(name, data)
}
