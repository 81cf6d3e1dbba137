//go:build !linux

package server

import (
	"io"
	"net"
)

// hold does nothing here: while a phase refuses connections, another process could take the port, and the stub would end and say so.
func hold(*net.TCPAddr) io.Closer { return io.NopCloser(nil) }
