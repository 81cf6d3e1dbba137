package dlq

import "errors"

// What a caller would branch on. Every error of Check, Write and Close is a sentence that wraps one of these where it
// applies, and the client's kafka.Error where there is one. An error of Write that wraps none of them may be cured by
// writing the letter again, a little later.
var (
	// ErrTooLarge: the record does not fit the DLQ even without any text of ours. Raise max.message.bytes of the DLQ, or
	// write a Reference.
	ErrTooLarge = errors.New("the record is too large for the DLQ")
	// ErrUnauthorized: the broker knows us and refuses, or does not know us. Later letters are written as soon as that is mended.
	ErrUnauthorized = errors.New("not authorized")
	// ErrTopicMissing: the DLQ does not exist. Later letters are written as soon as it does.
	ErrTopicMissing = errors.New("the topic does not exist")
	// ErrClosed: the writer was closed before the letter was acknowledged.
	ErrClosed = errors.New("the writer is closed")
	// ErrNotDeadLetter: Read found no headers of a dead letter.
	ErrNotDeadLetter = errors.New("no headers of a dead letter")
)
