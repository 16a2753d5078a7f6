// Load for the door of RocketMQ 5, for bench/door.py: gRPC sends and receives, POP over remoting, idle connections.
//
// It prints a line {"phase": "begin"} when the warm-up is over and {"phase": "end"} when the measured time is,
// so that whoever started it can look at the server's processor time then, and at last one line of figures.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

type options struct {
	mode, address, topic, group, ack, broker string
	connections, underWay, size              int
	warm, seconds, rate                      float64
	count, queues                            int
	tls                                      bool
}

type figures struct {
	Messages int64              `json:"messages"`
	Seconds  float64            `json:"seconds"`
	Rate     float64            `json:"rate"`
	Latency  map[string]float64 `json:"latency_us,omitempty"`
	Errors   map[string]int64   `json:"errors,omitempty"`
	InAll    int64              `json:"messages_in_all"`
}

func say(line any) {
	text, _ := json.Marshal(line)
	fmt.Println(string(text))
}

func fail(format string, words ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", words...)
	os.Exit(1)
}

func main() {
	var o options
	flag.StringVar(&o.mode, "mode", "send", "first, send, receive, pop, idle, streams")
	flag.StringVar(&o.address, "address", "127.0.0.1:8081", "of the gRPC port; pop: of the remoting port")
	flag.StringVar(&o.topic, "topic", "door", "")
	flag.StringVar(&o.group, "group", "door", "")
	flag.StringVar(&o.ack, "ack", "each", "each: a request for each message; batch: one for each receive")
	flag.StringVar(&o.broker, "broker", "", "pop: the broker's name, a word of each handle")
	flag.IntVar(&o.connections, "connections", 8, "")
	flag.IntVar(&o.underWay, "under-way", 8, "requests in flight on each connection")
	flag.IntVar(&o.size, "size", 1024, "bytes of a body")
	flag.Float64Var(&o.warm, "warm", 0.5, "seconds before it is measured")
	flag.Float64Var(&o.seconds, "seconds", 2, "")
	flag.Float64Var(&o.rate, "rate", 0, "sends a second over all connections; 0: as many as can be")
	flag.IntVar(&o.count, "count", 0, "messages that a receiver takes; the first tenth is warm-up")
	flag.IntVar(&o.queues, "queues", 8, "")
	flag.BoolVar(&o.tls, "tls", false, "encrypted; any certificate is taken")
	flag.Parse()
	modes := map[string]func(*options){
		"first": first, "send": send, "receive": receive, "pop": pop, "idle": idle, "streams": idle,
	}
	run, known := modes[o.mode]
	if !known {
		fail("unknown mode %q", o.mode)
	}
	run(&o)
}

// ledger counts what is done, by all goroutines, and what went wrong.
type ledger struct {
	done   atomic.Int64
	mutex  sync.Mutex
	errors map[string]int64
}

func (l *ledger) refused(text string) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.errors == nil {
		l.errors = map[string]int64{}
	}
	if len(text) > 120 {
		text = text[:120]
	}
	if len(l.errors) < 20 {
		l.errors[strings.TrimSpace(text)]++
	}
}

// samples are latencies of one goroutine in microseconds, kept while it is measured.
type samples struct {
	mutex  sync.Mutex
	values []float64
}

func (s *samples) add(took time.Duration) {
	s.mutex.Lock()
	s.values = append(s.values, float64(took.Nanoseconds())/1e3)
	s.mutex.Unlock()
}

func percentiles(all []*samples) map[string]float64 {
	var values []float64
	for _, one := range all {
		one.mutex.Lock()
		values = append(values, one.values...)
		one.mutex.Unlock()
	}
	if len(values) == 0 {
		return nil
	}
	sort.Float64s(values)
	at := func(share float64) float64 {
		return values[min(int(share*float64(len(values))), len(values)-1)]
	}
	return map[string]float64{"p50": at(0.5), "p99": at(0.99), "p999": at(0.999), "max": values[len(values)-1]}
}

// window says begin and end, and how much was done between.
type window struct {
	began    time.Time
	before   int64
	measures atomic.Bool
}

func (w *window) begin(l *ledger) {
	say(map[string]string{"phase": "begin"})
	w.began, w.before = time.Now(), l.done.Load()
	w.measures.Store(true)
}

func (w *window) end(l *ledger, all []*samples) {
	done, took := l.done.Load()-w.before, time.Since(w.began).Seconds()
	w.measures.Store(false)
	say(map[string]string{"phase": "end"})
	l.mutex.Lock()
	defer l.mutex.Unlock()
	say(figures{
		Messages: done, Seconds: took, Rate: float64(done) / took, InAll: l.done.Load(),
		Latency: percentiles(all), Errors: l.errors,
	})
}
