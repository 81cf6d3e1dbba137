package server

// Linux lets a socket listen on a port to which another one is bound that does not listen, if both say SO_REUSEADDR, as every Go listener does.
// So our own listener comes back while the port is held. Who asks the kernel for any free port, to listen or to connect, doesn't get this one.
// (Else a caller that connects to a closed port again and again might be given that very port for his own end, and be connected to himself.)

import (
	"io"
	"net"
	"os"
	"syscall"
)

// hold keeps a port while nothing listens on it, until it is closed. Where it can't, the next opening of the port tells whether somebody took it.
func hold(addr *net.TCPAddr) io.Closer {
	family, sockaddr := syscall.AF_INET6, syscall.Sockaddr(&syscall.SockaddrInet6{Port: addr.Port, Addr: [16]byte(addr.IP.To16())})
	if ip := addr.IP.To4(); ip != nil {
		family, sockaddr = syscall.AF_INET, &syscall.SockaddrInet4{Port: addr.Port, Addr: [4]byte(ip)}
	}
	fd, err := syscall.Socket(family, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return io.NopCloser(nil)
	}
	if syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1) == nil {
		_ = syscall.Bind(fd, sockaddr)
	}
	return os.NewFile(uintptr(fd), "the held port")
}
