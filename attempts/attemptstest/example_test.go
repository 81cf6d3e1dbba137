package attemptstest_test

import (
	"fmt"

	"github.com/breakwater-go/breakwater/attempts/attemptstest"
)

func ExampleLaws() {
	for _, law := range attemptstest.Laws() {
		fmt.Println(law.Name)
	}
	// Output:
	// an empty store knows nothing
	// the next owner finds all that was saved
	// the wait goes on while nobody looks
	// a repeat changes nothing
	// fewer attempts never lower
	// a shorter wait never shortens a longer one
	// a verdict replaces the note of its attempt
	// a record that is due stays due
	// the first failure is kept
	// writes may come late, twice and in any order
	// another record at the same offset starts over
	// a note is taken back, once
	// what lies below the commit is forgotten
	// a mark tells that the last owner did not leave
	// a foreign mark is told until the first commit
	// groups, topics and partitions share nothing
	// many partitions are claimed at once
	// texts are cut between characters
	// an entry that makes no sense is refused or bounded
	// any number of writers count right
}
