// Package server is the fault-injecting HTTP dependency: it plays a scenario on a port, and keeps a book of what reached it when.
//
//	stub, err := server.Start(scenario.MustParse(`{"phases": [{"name": "down", "faults": [{"do": 503}]}]}`), "127.0.0.1:0")
//	…
//	defer stub.Close()
//	http.Post(stub.URL()+"/charge/orders/0/17?attempt=1", "", nil)
//	fmt.Println(stub.Report())
//
// # Calls
//
// Every method and every path is a call, save GET / and /_stub/. The record is the header X-Record, or else the path without its first slash
// and without "charge/": POST /charge/orders/0/17 is about the record "orders/0/17". The attempt is ?attempt=n or the header
// X-Attempt; where the caller doesn't say, the stub counts the calls of the record. What a call meets depends on the seed, the phase, the record
// and the attempt alone.
//
// An answer with the header X-Stub-Die tells the caller to die on the spot (SIGKILL to itself), as a record does that kills its handler. A
// caller that doesn't know the header sees a 500.
//
// # Control
//
//	GET  /                       a help page and the state
//	GET  /_stub/report           the report as JSON, with a line for each call; ?log=0 leaves the lines out
//	POST /_stub/phase?name=NAME  switch to a phase, which then lasts until the next switch
//	POST /_stub/start            start the schedule, from the first phase
package server
