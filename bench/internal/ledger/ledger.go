// Package ledger is a dependency's book in memory that two processes share: the contender's handler notes each call in it, the bench reads it.
//
// A call over HTTP costs more than anything that is to be compared, so where the dependency is always well the call is a note in this book: a few
// nanoseconds, the same for every contender, and still there when the contender was killed.
package ledger

// The file is a page of counters for each partition, then one word for each record: calls in the upper half, successes in the lower. Several
// processes may write at once, so every word is changed atomically.

import (
	"fmt"
	"os"
	"sync/atomic"
	"syscall"
	"unsafe"
)

// Ledger is an open book. All methods may be called from any goroutine.
type Ledger struct {
	memory     []byte
	partitions []partition
}

type partition struct {
	*counters
	records []atomic.Uint32
}

type counters struct {
	next       atomic.Int64 // after the highest offset that was called
	called     atomic.Int64 // records
	done       atomic.Int64 // records
	outOfOrder atomic.Int64
	_          [32]byte // a cache line of its own
}

const (
	call    = 1 << 16
	success = 1
)

// Open maps the book at path, for that many partitions and records in each. A file that is missing is made.
func Open(path string, partitions, records int) (*Ledger, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("ledger: %w", err)
	}
	defer f.Close()
	each := int(unsafe.Sizeof(counters{})) + (4*records+63)/64*64
	if err := f.Truncate(int64(partitions * each)); err != nil {
		return nil, fmt.Errorf("ledger: %w", err)
	}
	memory, err := syscall.Mmap(int(f.Fd()), 0, partitions*each, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("ledger: map %s: %w", path, err)
	}
	l := &Ledger{memory: memory}
	for p := range partitions {
		at := unsafe.Pointer(&memory[p*each])
		l.partitions = append(l.partitions, partition{(*counters)(at),
			unsafe.Slice((*atomic.Uint32)(unsafe.Add(at, unsafe.Sizeof(counters{}))), records)})
	}
	return l, nil
}

// Close unmaps the book. Nobody may use it any more.
func (l *Ledger) Close() error { return syscall.Munmap(l.memory) }

// Note writes down one call. The answer is how often the record was called, this one included.
func (l *Ledger) Note(p int32, offset int64, ok bool) (calls int) {
	part := &l.partitions[p]
	n := uint32(call)
	if ok {
		n += success
	}
	word := part.records[offset].Add(n)
	if word>>16 == 1 {
		part.called.Add(1)
	}
	later := part.next.Load()
	if ok && word&0xffff == 1 {
		part.done.Add(1)
		if offset < later-1 { // a later record was called before this one was done
			part.outOfOrder.Add(1)
		}
	}
	for later <= offset && !part.next.CompareAndSwap(later, offset+1) {
		later = part.next.Load()
	}
	return int(word >> 16)
}

// Calls is how often the record was called so far.
func (l *Ledger) Calls(p int32, offset int64) int {
	return int(l.partitions[p].records[offset].Load() >> 16)
}

// Done is how often the record was done.
func (l *Ledger) Done(p int32, offset int64) int {
	return int(l.partitions[p].records[offset].Load() & 0xffff)
}

// Totals are the records that were called at least once, those that were done at least once, and those that were done after a later record of their
// partition was called.
func (l *Ledger) Totals() (called, done, outOfOrder int) {
	for i := range l.partitions {
		p := &l.partitions[i]
		called += int(p.called.Load())
		done += int(p.done.Load())
		outOfOrder += int(p.outOfOrder.Load())
	}
	return called, done, outOfOrder
}
