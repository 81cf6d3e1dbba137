package strategy_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/breakwater-go/breakwater/strategy"
)

func Example() {
	s, err := strategy.Parse("strategy.json", []byte(`{
		"intervals": [1, 4, 16, {"wait": "1m", "times": 10}],
		"jitter": 0
	}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(s)
	for _, attempt := range []int{1, 2, 13, 14} {
		wait, ok := s.Wait(attempt)
		fmt.Println("after attempt", attempt, "wait", wait, ok)
	}
	// Output:
	// calls at 0s, 1s, 5s, 21s, 1m21s … 10m21s, then the DLQ (14 calls)
	// after attempt 1 wait 1s true
	// after attempt 2 wait 4s true
	// after attempt 13 wait 1m0s true
	// after attempt 14 wait 0s false
}

func ExampleParse_mistakes() {
	_, err := strategy.Parse("strategy.json", []byte(`{
  "intervals": [1, -4, "soon"],
  "jiter": 0.1
}`))
	fmt.Println(err)
	// Output:
	// strategy: 3 mistakes:
	// 	strategy.json:2: intervals[1]: -4 is negative; write 0s or more
	// 	strategy.json:2: intervals[2]: "soon" is no duration; write for instance "250ms", "1m30s" or "2h" (the units are ms, s, m, h), or a number of seconds
	// 	strategy.json:3: jiter: this key is unknown; did you mean "jitter"?
}

func ExampleWatch() {
	dir, err := os.MkdirTemp("", "strategy")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "strategy.json")
	_ = os.WriteFile(file, []byte(`[1, 4, 16]`), 0o600)

	w, err := strategy.Watch(context.Background(), file)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer w.Close()
	reloaded := make(chan strategy.Reload)
	w.OnReload(func(r strategy.Reload) { reloaded <- r })

	fmt.Println(w.Current())
	_ = os.WriteFile(file, []byte(`[1, 2]`), 0o600)
	r := <-reloaded
	fmt.Println(r.New, r.Err)
	// Output:
	// calls at 0s, 1s, 5s, 21s, then the DLQ (4 calls)
	// calls at 0s, 1s, 3s, then the DLQ (3 calls) <nil>
}
