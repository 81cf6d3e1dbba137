package server

// The port is open or closed, and ours all the time. Closed means that a connect is refused by the kernel, as it is where no process runs:
// nothing listens. Meanwhile a socket is bound to it that does not listen, so that the kernel gives the port to nobody who asks for any free
// one. Only the clock's goroutine comes here.

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sync"
)

// serving is one opening of the port.
type serving struct {
	http *http.Server
	cut  context.CancelFunc // ends the calls that wait
	done sync.WaitGroup     // its accept loop
}

// open opens the port, where it is closed.
func (s *Server) open() error {
	if s.serving != nil {
		return nil
	}
	l, err := net.ListenTCP("tcp", s.addr)
	if err != nil {
		return fmt.Errorf("stub: the port can't be opened again: %w; give one that nobody else takes", err)
	}
	s.held.Close()
	ctx, cut := context.WithCancel(context.Background())
	s.serving = &serving{
		http: &http.Server{Handler: s, BaseContext: func(net.Listener) context.Context { return ctx }},
		cut:  cut,
	}
	s.serving.done.Go(func() { s.serving.http.Serve(l) })
	return nil
}

// shut closes the port, and every connection with it.
func (s *Server) shut() {
	if s.serving == nil {
		return
	}
	s.serving.cut()
	s.serving.http.Close()
	s.serving.done.Wait()
	s.serving = nil
	s.held = hold(s.addr)
}
