package observe

// Kind is what happened.
type Kind int

// What can happen. Each kind has one sentence and one severity, in the table below.
const (
	Started Kind = iota + 1
	Stopping
	Stopped
	Assigned
	Revoked
	Lost
	Refused
	Tripped
	Probing
	ProbeFailed
	Closed
	Held
	AlsoFailed
	Released
	Stalled
	Unstalled
	DeadLettered
	DeadLetterFailed
	DeadLettersBack
	BudgetSpent
	WaitsForPerson
	StoreAway
	StoreBack
	GuardOn
	GuardOff
	CommitFailed
	CommitsBack
	Gap
	Revived
	PauseLost
	Reloaded
	ReloadRefused
	OperatorPaused
	OperatorResumed
	OperatorRetry
	Skipped
	ClientError
	Fatal
	Warning
)

// words is the one place where a kind gets its name, for metrics and logs, its sentence and its severity.
var words = map[Kind]struct {
	name     string
	sentence string
	severity Severity
}{
	Started:          {"started", "consumer started", Info},
	Stopping:         {"stopping", "stopping: intake ended, the records in hand are being finished", Info},
	Stopped:          {"stopped", "consumer stopped", Info},
	Assigned:         {"assigned", "partitions assigned", Info},
	Revoked:          {"revoked", "partitions revoked", Info},
	Lost:             {"lost", "partitions lost; nothing of them is stored", Warn},
	Refused:          {"refused", "partition refused; the others run", Error},
	Tripped:          {"tripped", "breaker open: partitions are paused until the probe", Warn},
	Probing:          {"probing", "probing with one record", Info},
	ProbeFailed:      {"probe_failed", "probe failed; the breaker stays open", Warn},
	Closed:           {"closed", "probe succeeded: breaker closed, everything resumes", Info},
	Held:             {"held", "record failed; its partition waits, the others flow", Warn},
	AlsoFailed:       {"also_failed", "a call that began before the breaker opened failed too; its record waits with the others", Warn},
	Released:         {"released", "held record done; its partition flows", Info},
	Stalled:          {"stalled", "handler has outlived its timeout; its partition calls nothing until it returns", Error},
	Unstalled:        {"unstalled", "handler returned at last", Info},
	DeadLettered:     {"dead_lettered", "record dead-lettered", Warn},
	DeadLetterFailed: {"dead_letter_failed", "dead letter not written; the record is held and its partition paused until it is", Error},
	DeadLettersBack:  {"dead_letters_back", "dead letters are written again", Info},
	BudgetSpent:      {"budget_spent", "dlqBudget is spent: no more dead letters until a record succeeds", Error},
	WaitsForPerson:   {"waits_for_person", "record waits for a person: retry it, or skip it", Error},
	StoreAway:        {"store_away", "attempt store away: counting goes on in memory", Error},
	StoreBack:        {"store_back", "attempt store is back", Info},
	GuardOn:          {"guard_on", "the last owner did not leave cleanly: one call at a time until the first commit", Warn},
	GuardOff:         {"guard_off", "crash guard ended", Info},
	CommitFailed:     {"commit_failed", "commit failed; it is tried again", Warn},
	CommitsBack:      {"commits_back", "commits are acknowledged again", Info},
	Gap:              {"gap", "records were deleted before they were read", Error},
	Revived:          {"revived", "a silent partition was revived", Warn},
	PauseLost:        {"pause_lost", "the client delivered from a paused partition; it is paused again and the record is kept", Warn},
	Reloaded:         {"reloaded", "strategy reloaded", Info},
	ReloadRefused:    {"reload_refused", "strategy not reloaded; the one in force stays", Error},
	OperatorPaused:   {"operator_paused", "paused by an operator", Info},
	OperatorResumed:  {"operator_resumed", "resumed by an operator", Info},
	OperatorRetry:    {"operator_retry", "retry now, by an operator", Info},
	Skipped:          {"skipped", "record skipped by an operator", Warn},
	ClientError:      {"client_error", "the Kafka client reports", Warn},
	Fatal:            {"fatal", "fatal error; the consumer ends", Error},
	Warning:          {"warning", "warning", Warn},
}

// String is the kind's short name, as in a metric label: "tripped".
func (k Kind) String() string { return words[k].name }

// Sentence is what the kind means, for a person.
func (k Kind) Sentence() string { return words[k].sentence }

// Severity is how urgent the kind is.
func (k Kind) Severity() Severity { return words[k].severity }
