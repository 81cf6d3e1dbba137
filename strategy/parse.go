package strategy

// Parse reads a strategy. name is only for messages. The error is a *ParseError with every mistake.
func Parse(name string, data []byte) (*Strategy, error) { return nil, &ParseError{Name: name} }

// Load reads a strategy from a file.
func Load(path string) (*Strategy, error) { return nil, nil }

// MustParse is Parse for tests and examples: it panics where Parse has an error.
func MustParse(json string) *Strategy { return nil }

// ParseError is every mistake in a strategy file.
type ParseError struct {
	Name     string
	Mistakes []Mistake
}

// Mistake is one mistake.
type Mistake struct {
	Path string
	Line int
	Text string
}

func (e *ParseError) Error() string { return "" }
