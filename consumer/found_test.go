package consumer

import "testing"

// What the random schedules have found, each as the shortest script that failed.

func TestOwnNoteIsNoAttemptMoreWhenTheStoreAnswersLate(t *testing.T) {
	replay(t, `
		world 42 range 2 person earliest wide
		0s start 0
		301ms produce 0 2 hang:8.857s 76ms
		4.256s produce 0 2 fail:1000 737ms
		8.798s start 2
		10.91s produce 1 1 fail:1000 2ms
		12.237349s store away 3.308s
		12.798693s stop 0
		15.860939s store slow 4.812s
		17.635463s lose 2
		18.440463s start 1`)
}

func TestStartThatIsLostTwiceIsFoundTwice(t *testing.T) {
	replay(t, `
		world 793 consumer 3 jittered earliest wide
		0s start 0
		0s start 1
		2.847043s faults 1 0 0 40 50
		10.685349s crash 0
		11.481349s produce 1 5 ok 0s
		30.782618s crash 2`)
}

func TestPauseThatSurvivedIsLiftedWhereAStartSeemsLost(t *testing.T) {
	replay(t, `
		world 302 range 2 second latest wide
		0s start 0
		7.248281s store slow 5.22s
		7.252875s start 2
		8.612875s faults 0 40 40 0 50
		11.478875s down 2.863s
		13.082875s produce 1 4 ok 2ms
		15.308875s lose 0
		19.507388s stop 2
		20.784388s produce 0 3 ok 494ms
		29.462216s produce 1 2 kill:1 1ms`)
}

func TestCallsThatRunWhenTheCrashGuardBeginsShareNoDeath(t *testing.T) {
	replay(t, `
		world 68 cooperative-sticky 3 each latest tight
		0s start 0
		775.775ms start 2
		21.054811s crash 2
		21.056287s produce 1 1 after:3.125s 43ms
		21.713295s produce 1 1 after:3.125s 184ms
		21.718802s down 3.323s
		23.46893s produce 2 2 after:1.114s 182ms
		26.490116s fetch 6.014s`)
}

func TestCountsThatCameToTheStoreWithANoteStayWhenItIsTakenBack(t *testing.T) {
	replay(t, `
		world 17072 range 3 quick latest wide
		0s start 0
		12.189698s kick 0
		12.259698s start 2
		27.592597s down 3.936s
		29.188597s coordinator 9.658s
		29.188597s store away 1.468s
		29.200597s produce 0 2 stubborn:798ms 0s
		30.058597s reload steady`)
}

func TestRecordsThatAreKeptAsideFitTheMemoryToo(t *testing.T) {
	replay(t, `
		world 18171 consumer 2 budget-0 earliest tight
		0s start 1
		2.239008s produce 0 1 permanent 6ms
		2.638008s produce 0 1 permanent 0s
		26.349404s delete 0 5
		27.668404s produce 0 600 ok 0s`)
}
