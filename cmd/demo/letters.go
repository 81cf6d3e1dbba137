package main

// Dead letters as they are read back: a consumer of its own reads them, dlq.Read and dlq.Original say what they are, and each is held against a
// fingerprint of the record that was sent.

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"

	"github.com/breakwater-go/breakwater/dlq"
)

// letter is one dead letter. Its value is not kept.
type letter struct {
	Place   string   `json:"place"`  // where it lies
	Record  string   `json:"record"` // the record that it is
	Kind    dlq.Kind `json:"kind"`
	Headers []header `json:"headers"` // all of them, in order
	of      coordinates
	was     fingerprint // of the record that the letter gives back
}

type header struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// readLetter reads a letter of that group and topic; false for any other.
func readLetter(m *kafka.Message, group, topic string) (letter, bool) {
	info, err := dlq.Read(m.Headers)
	if err != nil || info.GroupID != group || info.Topic != topic {
		return letter{}, false
	}
	l := letter{
		Place: place(m), Kind: info.Kind, was: fingerprintOf(dlq.Original(m)),
		of:     coordinates{info.Partition, info.Offset},
		Record: fmt.Sprintf("%s/%d@%d", info.Topic, info.Partition, info.Offset),
	}
	for _, h := range m.Headers {
		l.Headers = append(l.Headers, header{h.Key, string(h.Value)})
	}
	return l, true
}

// place is how a record is called on the screen: "orders/2@17".
func place(m *kafka.Message) string {
	return fmt.Sprintf("%s/%d@%d", *m.TopicPartition.Topic, m.TopicPartition.Partition, int64(m.TopicPartition.Offset))
}

// recordName is how a record is called in the payment service's log: "orders/2/17".
func recordName(topic string, at coordinates) string {
	return fmt.Sprintf("%s/%d/%d", topic, at.Partition, at.Offset)
}

func parseRecord(name string) (topic string, at coordinates, err error) {
	rest, offset, _ := cutLast(name)
	topic, partition, _ := cutLast(rest)
	p, err := strconv.ParseInt(partition, 10, 32)
	if err != nil {
		return "", at, fmt.Errorf("%q is no record: %w", name, err)
	}
	o, err := strconv.ParseInt(offset, 10, 64)
	return topic, coordinates{int32(p), o}, err
}

func cutLast(s string) (before, after string, found bool) {
	i := strings.LastIndexByte(s, '/')
	if i < 0 {
		return "", s, false
	}
	return s[:i], s[i+1:], true
}

// fingerprint stands for key, value, headers and timestamp of a record.
type fingerprint [sha256.Size]byte

func fingerprintOf(m *kafka.Message) fingerprint {
	var b []byte
	add := func(part []byte) {
		if part == nil {
			b = binary.BigEndian.AppendUint64(b, ^uint64(0)) // nil is not empty
			return
		}
		b = append(binary.BigEndian.AppendUint64(b, uint64(len(part))), part...)
	}
	add(m.Key)
	add(m.Value)
	for _, h := range m.Headers {
		add([]byte(h.Key))
		add(h.Value)
	}
	return sha256.Sum256(binary.BigEndian.AppendUint64(b, uint64(m.Timestamp.UnixMilli())))
}
