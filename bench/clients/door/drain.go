package main

import (
	"sync"
	"sync/atomic"
	"time"
)

// drain is a run that ends when so many messages were taken: the first tenth is warm-up, the last is left out.
type drain struct {
	book        ledger
	seen        window
	all         []*samples
	workers     sync.WaitGroup
	over        atomic.Bool
	begin, end  chan struct{}
	first, last int64
}

func newDrain(o *options) *drain {
	return &drain{
		begin: make(chan struct{}), end: make(chan struct{}),
		first: int64(o.count) / 10, last: int64(o.count) * 9 / 10,
	}
}

func (d *drain) isOver() bool { return d.over.Load() }

// took counts messages that were acknowledged.
func (d *drain) took(count int) {
	after := d.book.done.Add(int64(count))
	before := after - int64(count)
	if before < d.first && after >= d.first {
		close(d.begin)
	}
	if before < d.last && after >= d.last {
		close(d.end)
	}
}

func (d *drain) finish(o *options) {
	deadline := time.After(120 * time.Second)
	for _, moment := range []chan struct{}{d.begin, d.end} {
		select {
		case <-moment:
		case <-deadline:
			d.book.mutex.Lock()
			fail("only %d of %d messages came: %v", d.book.done.Load(), o.count, d.book.errors)
		}
		if moment == d.begin {
			d.seen.begin(&d.book)
		}
	}
	d.seen.end(&d.book, d.all)
	d.over.Store(true)
}
