package servers

// A port that is handed out here is free at that moment and lies below the range from which the kernel takes the ports of
// outgoing connections. So neither a client's connection, nor a client that connects to itself while a server is away, can sit
// on the port when the server comes back. Each process walks through the range from a place of its own, so that test processes
// that run side by side do not choose the same one in the seconds that a server needs to take it.

import (
	"fmt"
	"net"
	"os"
	"sync"
)

const firstPort, lastPort = 12000, 31999 // outgoing ports begin at 32768 on Linux, at 49152 on macOS

var ports struct {
	sync.Mutex
	next int // distance from firstPort; 0: not begun
}

// freePorts finds n ports of 127.0.0.1 that nobody listens on.
func freePorts(n int) ([]int, error) {
	const all = lastPort - firstPort + 1
	ports.Lock()
	defer ports.Unlock()
	if ports.next == 0 {
		ports.next = os.Getpid() * 50 % all
	}
	var found []int
	for range all {
		if len(found) == n {
			return found, nil
		}
		ports.next = (ports.next + 1) % all
		port := firstPort + ports.next
		if l, err := net.Listen("tcp", local(port)); err == nil && l.Close() == nil {
			found = append(found, port)
		}
	}
	return nil, fmt.Errorf("servers: fewer than %d free ports between %d and %d on 127.0.0.1", n, firstPort, lastPort)
}

func local(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }
