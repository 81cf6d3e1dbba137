// Package topicname knows what a broker takes for the name of a topic.
package topicname

import (
	"fmt"
	"strings"
)

// Check answers what is wrong with a name. The Kafka client panics on some that are.
func Check(name string) error {
	illegal := strings.ContainsFunc(name, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '_' || r == '-')
	})
	if illegal || name == "" || name == "." || name == ".." || len(name) > 249 {
		return fmt.Errorf("%q is no name for a topic; letters, digits, '.', '_' and '-' make one, 249 at most", name)
	}
	return nil
}
