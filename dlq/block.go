package dlq

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"
)

// The block is one table: the fields in the order in which they stand, each with one way to write it and one to read it.
// A block is recognised only at the very end of the headers, and only where writing again what was read gives the same
// bytes. So a REASON of the user's own, or even a BREAKWATER, stays his.

const (
	opener  = "BREAKWATER"
	version = "1; headers=%d" // how many headers follow the opener
)

type field struct {
	name     string
	required bool // written although it is empty
	write    func(to []byte, i *Info) []byte
	read     func(*Info, string) error
}

var fields = []field{
	text("GROUP_ID", true, func(i *Info) *string { return &i.GroupID }),
	text("DESTINATION", true, func(i *Info) *string { return &i.Topic }),
	number("ORIGINAL_PARTITION", func(i *Info) *int32 { return &i.Partition }),
	number("ORIGINAL_OFFSET", func(i *Info) *int64 { return &i.Offset }),
	instant("ORIGINAL_TIMESTAMP", millis, parseMillis, func(i *Info) *time.Time { return &i.Timestamp }),
	number("COUNTER", func(i *Info) *int { return &i.Attempts }),
	text("SEND_TO", true, func(i *Info) *string { return &i.SendTo }),
	text("REASON", true, func(i *Info) *string { return &i.Reason }),
	text("KIND", true, func(i *Info) *Kind { return &i.Kind }),
	text("ERROR_CLASS", false, func(i *Info) *string { return &i.ErrorClass }),
	text("ERROR_MESSAGE", false, func(i *Info) *string { return &i.ErrorMessage }),
	text("FIRST_ERROR_MESSAGE", false, func(i *Info) *string { return &i.FirstErrorMessage }),
	text("ERROR_STACKTRACE", false, func(i *Info) *string { return &i.Stack }),
	instant("FIRST_FAILED_AT", rfc3339, parseRFC3339, func(i *Info) *time.Time { return &i.FirstFailedAt }),
	instant("FAILED_AT", rfc3339, parseRFC3339, func(i *Info) *time.Time { return &i.FailedAt }),
	text("EPISODE", false, func(i *Info) *string { return &i.Episode }),
	text("INSTANCE", false, func(i *Info) *string { return &i.Instance }),
	number("REDRIVE_COUNT", func(i *Info) *int { return &i.RedriveCount }),
	text("REFERENCE", false, func(i *Info) *string { return &i.Reference }),
}

// block writes i as headers, all values into one buffer.
func block(i Info) []kafka.Header {
	b := make([]kafka.Header, 1, 1+len(fields))
	buf := make([]byte, 0, 512)
	for _, f := range fields {
		start := len(buf)
		buf = f.write(buf, &i)
		if len(buf) > start || f.required {
			b = append(b, kafka.Header{Key: f.name, Value: buf[start:len(buf):len(buf)]})
		}
	}
	b[0] = kafka.Header{Key: opener, Value: fmt.Appendf(nil, version, len(b)-1)}
	return b
}

// split tells the record's own headers from the block at their end, where there is one.
func split(headers []kafka.Header) (own []kafka.Header, i Info, found bool) {
	for at := len(headers) - 1; at >= max(0, len(headers)-1-len(fields)); at-- {
		if headers[at].Key != opener {
			continue
		}
		if i, found = parse(headers[at:]); found {
			return headers[:at], i, true
		}
		break
	}
	return headers, Info{}, false
}

// parse reads a block that fills b from its opener to its end.
func parse(b []kafka.Header) (i Info, ok bool) {
	i.System = Breakwater
	rest := b[1:]
	for _, f := range fields {
		if len(rest) > 0 && rest[0].Key == f.name {
			if f.read(&i, string(rest[0].Value)) != nil {
				return Info{}, false
			}
			rest = rest[1:]
		}
	}
	if !slices.EqualFunc(b, block(i), func(x, y kafka.Header) bool {
		return x.Key == y.Key && x.Value != nil && bytes.Equal(x.Value, y.Value)
	}) {
		return Info{}, false
	}
	return i, true
}

func text[T ~string](name string, required bool, at func(*Info) *T) field {
	return field{name, required,
		func(to []byte, i *Info) []byte { return append(to, *at(i)...) },
		func(i *Info, s string) error { *at(i) = T(s); return nil }}
}

func number[T int | int32 | int64](name string, at func(*Info) *T) field {
	return field{name, true,
		func(to []byte, i *Info) []byte { return strconv.AppendInt(to, int64(*at(i)), 10) },
		func(i *Info, s string) error {
			n, err := strconv.ParseInt(s, 10, 64)
			*at(i) = T(n) // one that T can't hold is written otherwise than it was read
			return err
		}}
}

func instant(name string, write func([]byte, time.Time) []byte, parse func(string) (time.Time, error), at func(*Info) *time.Time) field {
	return field{name, false,
		func(to []byte, i *Info) []byte {
			if at(i).IsZero() {
				return to
			}
			return write(to, *at(i))
		},
		func(i *Info, s string) (err error) { *at(i), err = parse(s); return err }}
}

func millis(to []byte, t time.Time) []byte { return strconv.AppendInt(to, t.UnixMilli(), 10) }

func parseMillis(s string) (time.Time, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	return time.UnixMilli(n).UTC(), err
}

func rfc3339(to []byte, t time.Time) []byte {
	if t = t.UTC(); t.Year() < 0 || t.Year() > 9999 {
		return to // no RFC 3339 for it
	}
	return t.AppendFormat(to, "2006-01-02T15:04:05.000Z07:00")
}

func parseRFC3339(s string) (time.Time, error) {
	t, err := time.Parse(time.RFC3339Nano, s)
	return t.UTC(), err
}
