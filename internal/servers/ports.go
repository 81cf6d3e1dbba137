package servers

// A port that is handed out here is free now, is not handed out twice by this process, and lies below the range from which the
// kernel takes the ports of outgoing connections. So neither a client's connection, nor a client that connects to itself while
// a server is away, can sit on the port when the server comes back.

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
)

const firstPort, lastPort = 12000, 32000 // Linux takes outgoing ports from 32768 on, macOS from 49152 on

var taken struct {
	sync.Mutex
	ports map[int]bool
}

// freePorts finds n ports of 127.0.0.1 that nobody listens on.
func freePorts(n int) ([]int, error) {
	taken.Lock()
	defer taken.Unlock()
	if taken.ports == nil {
		taken.ports = map[int]bool{}
	}
	var found []int
	for range 100 * n {
		if len(found) == n {
			return found, nil
		}
		port := firstPort + rand.IntN(lastPort-firstPort)
		if taken.ports[port] {
			continue
		}
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			continue
		}
		_ = l.Close()
		taken.ports[port] = true
		found = append(found, port)
	}
	return nil, errors.New("servers: no free port between 12000 and 32000 on 127.0.0.1")
}
