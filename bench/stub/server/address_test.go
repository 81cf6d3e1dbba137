package server

import (
	"net"
	"strings"
	"testing"

	"github.com/breakwater-go/breakwater/bench/stub/scenario"
)

func TestAddresses(t *testing.T) {
	for _, c := range []struct{ addr, want, says string }{
		{"127.0.0.1:8080", "127.0.0.1:8080", ""},
		{"localhost:0", "localhost:0", ""},
		{":8080", "127.0.0.1:8080", ""},
		{":0", "127.0.0.1:0", ""},
		{"0.0.0.0:0", "0.0.0.0:0", ""},
		{"[::1]:80", "[::1]:80", ""},
		{"", "", "is empty; write host:port"},
		{"http://127.0.0.1:8080", "", "leave off http:// and write 127.0.0.1:8080"},
		{"https://127.0.0.1:8080/", "", "leave off https:// and write 127.0.0.1:8080"},
		{"127.0.0.1", "", "missing port in address; write host:port"},
		{"127.0.0.1:", "", "missing port in address; write host:port"},
		{"8080", "", "missing port in address; write host:port"},
		{"127.0.0.1:80800", "", "invalid port; write host:port"},
		{"127.0.0.1:8080/x", "", "write host:port"},
	} {
		got, err := Address(c.addr)
		if got != c.want || (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%q is %q, %v; want %q, %s", c.addr, got, err, c.want, c.says)
		}
	}
}

func TestItListensEverywhereOnlyWhereItIsToldSo(t *testing.T) {
	for addr, everywhere := range map[string]bool{":0": false, "127.0.0.1:0": false, "0.0.0.0:0": true, "[::]:0": true} {
		s, err := Start(scenario.MustParse(`{"phases": [{"name": "p"}]}`), addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		if got := s.Addr().(*net.TCPAddr).IP.IsUnspecified(); got != everywhere {
			t.Errorf("%s: it listens on %v", addr, s.Addr())
		}
	}
	if _, err := Start(scenario.MustParse(`{"phases": [{"name": "p"}]}`), ""); err == nil {
		t.Error("it listens without an address")
	}
}
