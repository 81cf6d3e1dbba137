// Package servers starts what tests, the bench and the chaos run stand on: Apache Kafka and Redis as real servers, an embedded
// broker, and TCP proxies that cut and delay connections.
//
// Every server listens on free ports of 127.0.0.1 and works in a temporary folder of its own. It is stopped by its process id,
// and nothing stays behind, neither a process nor a folder, however the process that started it ends: a failed test, os.Exit,
// a time-out, kill -9.
//
// Each server comes in two forms. A function New… returns an error, so that a command can use it:
//
//	k, err := servers.NewKafka(ctx, servers.KafkaConfig{Brokers: 3})
//	if err != nil { … }
//	defer k.Close()
//
// A function Start… or Shared… takes a testing.TB, stops the server when the test ends (a shared one when the tests of the
// package end, see [Main]), and skips the test where the machine can't run the server; with CI=true in the environment, that is
// a failure. Under go test -short, tests of real servers are skipped at once.
package servers
