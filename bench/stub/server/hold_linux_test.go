package server

import (
	"errors"
	"net"
	"syscall"
	"testing"
)

// A port that is closed is given to nobody who doesn't insist: a socket that does not say SO_REUSEADDR stands for one that asks for any port.
func TestAClosedPortIsKept(t *testing.T) {
	stub := start(t, `{"phases": [{"name": "well", "for": "1h"}, {"name": "gone", "faults": [{"do": "refuse"}]}]}`)
	switchTo(t, stub, "gone")
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(fd)
	err = syscall.Bind(fd, &syscall.SockaddrInet4{Port: stub.addr.Port, Addr: [4]byte(net.IPv4(127, 0, 0, 1).To4())})
	if !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("got %v, want it to be in use", err)
	}
}
