package server_test

import (
	"fmt"
	"net/http"

	"github.com/breakwater-go/breakwater/bench/stub/scenario"
	"github.com/breakwater-go/breakwater/bench/stub/server"
)

func Example() {
	stub, err := server.Start(scenario.MustParse(`{
		"phases": [
			{"name": "well", "for": "1h"},
			{"name": "down", "faults": [{"do": 503}]}
		]
	}`), "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer stub.Close()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	call := func() {
		resp, err := client.Post(stub.URL()+"/charge/orders/0/17?attempt=1", "", nil)
		if err != nil {
			fmt.Println(err)
			return
		}
		resp.Body.Close()
		fmt.Println(resp.Status)
	}
	call()
	if err := stub.SetPhase("down"); err != nil {
		fmt.Println(err)
	}
	call()
	for _, c := range stub.Report().Log {
		fmt.Println(c.Record, c.Phase, c.Outcome)
	}
	// Output:
	// 200 OK
	// 503 Service Unavailable
	// orders/0/17 well ok
	// orders/0/17 down 503
}
