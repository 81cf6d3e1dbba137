package server

// What is taken for an address to listen on. Only who names an address is reached from elsewhere: what can be made to fail is nobody else's affair.

import (
	"fmt"
	"net"
	"strings"
)

// Address is addr as Start listens on it. One without a host, ":8080", is 127.0.0.1's; "0.0.0.0:8080" is every address of this machine. The error says what to write
// instead. Whether the port is free only Start finds out.
func Address(addr string) (string, error) {
	const example = "write host:port, such as 127.0.0.1:8080"
	if addr == "" {
		return "", fmt.Errorf("the address is empty; %s", example)
	}
	if scheme, rest, is := strings.Cut(addr, "://"); is {
		return "", fmt.Errorf("%q is a URL; leave off %s:// and write %s", addr, scheme, strings.TrimRight(rest, "/"))
	}
	host, port, err := net.SplitHostPort(addr)
	if err == nil && port == "" {
		err = &net.AddrError{Err: "missing port in address", Addr: addr}
	}
	if err == nil {
		_, err = net.LookupPort("tcp", port)
	}
	if err != nil {
		return "", fmt.Errorf("%w; %s", err, example)
	}
	if host == "" {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port), nil
}
