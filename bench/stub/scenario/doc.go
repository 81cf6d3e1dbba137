// Package scenario says what goes wrong when: phases one after the other, each with the faults that an HTTP dependency shows while it lasts.
//
// A scenario is a JSON file:
//
//	{
//	  "$comment": "away for 20 seconds, and one record in ten is bad whatever happens",
//	  "seed": 7,
//	  "poison": [{"share": 0.1, "do": 422}],
//	  "phases": [
//	    {"name": "well", "for": "5s", "latency": "2ms"},
//	    {"name": "down", "for": "20s", "faults": [{"share": 0.7, "do": 503}, {"share": 0.3, "do": "hang"}]},
//	    {"name": "well again"}
//	  ]
//	}
//
// Times are seconds as a number, or text such as "250ms" and "1m30s", in every place. "$comment" is allowed in every object.
//
// The file:
//   - seed: a whole number, default 1. The same seed gives the same faults.
//   - loop: true starts again from the first phase after the last. Default false: the last phase lasts for ever.
//   - poison: faults that always hit the same records, whatever the phase: {"share": 0.1, "do": 422} picks a share of all records by a hash of
//     seed and record, {"records": ["orders/0/17"], "do": 503} names them. A phase's own fault comes first: while everything is down,
//     poison is down too.
//   - phases: at least one.
//
// A phase:
//   - name: unique in the file.
//   - for: how long it lasts. Left out in the last phase, unless the scenario loops.
//   - latency: how long an answer takes. A time; or {"uniform": ["1ms", "9ms"]}; or {"exponential": "10ms"}, which is the mean;
//     or {"percentiles": {"50": "5ms", "99": "200ms", "100": "1s"}}, with straight lines between. Default none.
//   - faults: what calls meet instead of a 200, each with its share (default 1). What the shares leave over is well.
//   - flapping: {"down": "1s", "up": "3s"}: the faults come and go, down first.
//   - broker, redis: faults that a benchmark with a broker and a Redis of its own carries out; the stub has neither and only says so.
//     broker is a list of "refuse-dlq", "fail-commits", "slow-fetch", "drop-connections"; redis is "away" or "slow".
//
// A fault says what is done, in "do":
//   - a status from 300 to 599; with "retryAfter" in whole seconds, as the header Retry-After.
//   - "hang": no answer, until the caller gives up.
//   - "refuse": the port is closed, and open connections are cut. It takes the whole phase, so it has no share.
//   - "reset": half of the answer, then a TCP reset.
//   - "drip": an answer that comes byte by byte, "over" that time.
//   - "die": the caller is told to die on the spot, as a record does that kills its handler.
//
// A fault may have a latency of its own, which replaces the phase's.
package scenario
