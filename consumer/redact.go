package consumer

// Error texts can hold what is nobody's business. The user's Redact sees each of them once, where it comes from the handler, so that neither the log nor the attempt
// store, the status or a dead letter ever has the text itself.

// redacted is a handler's error with a text that may be shown.
type redacted struct {
	error
	text string
}

func (r redacted) Error() string { return r.text }
func (r redacted) Unwrap() error { return r.error }

func (c *Consumer) redact(err error) error {
	if c.cfg.DLQ.Redact == nil {
		return err
	}
	return redacted{err, c.redactText(err.Error())}
}

func (c *Consumer) redactText(text string) (out string) {
	if c.cfg.DLQ.Redact == nil {
		return text
	}
	defer func() {
		if recover() != nil {
			out = "(withheld, because Redact panicked)"
		}
	}()
	return c.cfg.DLQ.Redact(text)
}
