// Load by the Go client, in windows: for each line "SETTLE SECONDS" on stdin it sends for so long, measures the second
// part, waits until nothing is under way and prints a JSON line with the part of LoadProducer's members that rows.py
// reads.  It ends with its stdin.
// The options, the bodies (run id, sequence number, filler) and what --keyed adds are those of ../java/LoadProducer.java.
package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"math/bits"
	"math/rand"
	"os"
	"regexp"
	"sync"
	"sync/atomic"
	"time"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
	"github.com/apache/rocketmq-client-go/v2/rlog"
)

var (
	namesrv  = flag.String("namesrv", "127.0.0.1:9876", "the nameserver")
	topic    = flag.String("topic", "LoadTest", "")
	mode     = flag.String("mode", "sync", "sync, async or batch")
	threads  = flag.Int("threads", 1, "that send at the same time")
	inflight = flag.Int("inflight", 256, "requests under way, of mode async")
	batch    = flag.Int("batch", 32, "messages of a request, of mode batch")
	size     = flag.Int("size", 128, "bytes of a body")
	_        = flag.Bool("windows", true, "it has no other mode")
	keyed    = flag.Bool("keyed", false, "two keys and three properties for each message")
)

// ---- what it counts

// histogram of microseconds: 64 buckets per power of two, under 1.6 % error, as ../java/Hist.java.
type histogram struct {
	counts [64 * 40]int64
	total  int64
	most   int64
}

func (h *histogram) add(took time.Duration) {
	us := took.Microseconds()
	at := us
	if us >= 64 {
		shift := int64(bits.Len64(uint64(us)) - 7) // us >> shift lies in [64, 128)
		at = 64*shift + us>>shift
	}
	h.counts[min(at, int64(len(h.counts)-1))]++
	h.total++
	h.most = max(h.most, us)
}

func (h *histogram) ms(q float64) float64 {
	wanted, seen := int64(math.Ceil(float64(h.total)*q)), int64(0)
	for at, count := range h.counts {
		seen += count
		if seen >= wanted && seen > 0 {
			us := int64(at)
			if at >= 128 {
				shift := int64(at/64 - 1)
				us = int64(at%64+64)<<shift + 1<<shift>>1
			}
			return float64(min(us, h.most)) / 1000
		}
	}
	return float64(h.most) / 1000
}

func min(a, b int64) int64 {
	if a < b {
		return a
	}
	return b
}

func max(a, b int64) int64 {
	if a > b {
		return a
	}
	return b
}

var (
	lock      sync.Mutex
	paused    = true
	underWay  int
	measuring bool
	took      histogram
	messages  int64 // acknowledged while it measures
	all       int64 // with the warm-up
	errors    = map[string]int{}
	notOK     = map[string]int{}
	digits    = regexp.MustCompile("[0-9]+")
)

// begin waits until it may send.
func begin() {
	for {
		lock.Lock()
		if !paused {
			underWay++
			lock.Unlock()
			return
		}
		lock.Unlock()
		time.Sleep(200 * time.Microsecond)
	}
}

func done(result *primitive.SendResult, err error, count int64, began time.Time) {
	ended := time.Now()
	lock.Lock()
	defer lock.Unlock()
	underWay--
	switch {
	case err != nil:
		errors[digits.ReplaceAllString(err.Error(), "#")]++
	case result.Status != primitive.SendOK:
		notOK[fmt.Sprint(result.Status)] += int(count)
	default:
		all += count
		if measuring {
			messages += count
			took.add(ended.Sub(began))
		}
	}
}

// ---- sending

func message(filler []byte, run, number int64) *primitive.Message {
	body := append([]byte(nil), filler...)
	if len(body) >= 16 {
		binary.BigEndian.PutUint64(body, uint64(run))
		binary.BigEndian.PutUint64(body[8:], uint64(number))
	}
	m := primitive.NewMessage(*topic, body)
	if *keyed {
		m.WithKeys([]string{fmt.Sprintf("order-%d", number*7919%1_000_000_007), fmt.Sprintf("customer-%d", number%100_000)})
		m.WithProperty("tenant", fmt.Sprintf("tenant-%d", number%7))
		m.WithProperty("amount", fmt.Sprint(float64(number%1_000_000)/100))
		m.WithProperty("traceId", fmt.Sprintf("%016x%016x", uint64(number)*0x9E3779B97F4A7C15, number))
	}
	return m
}

// load sends whenever it may, on one goroutine.
func load(p rocketmq.Producer, next func() *primitive.Message, places chan struct{}) {
	ctx := context.Background()
	for {
		begin()
		if *mode == "async" {
			m := next()
			places <- struct{}{}
			began := time.Now()
			err := p.SendAsync(ctx, func(_ context.Context, result *primitive.SendResult, err error) {
				<-places
				done(result, err, 1, began)
			}, m)
			if err != nil {
				<-places
				done(nil, err, 1, began)
			}
			continue
		}
		var all []*primitive.Message
		for len(all) < *batch {
			all = append(all, next())
		}
		began := time.Now()
		result, err := p.SendSync(ctx, all...)
		done(result, err, int64(len(all)), began)
		if err != nil {
			time.Sleep(10 * time.Millisecond) // as LoadProducer, so that a broker that is away is not hammered
		}
	}
}

func start() rocketmq.Producer {
	p, err := rocketmq.NewProducer(
		producer.WithNameServer([]string{*namesrv}),
		producer.WithGroupName("load-producer"),
		producer.WithInstanceName(fmt.Sprintf("lp%d", os.Getpid())),
		producer.WithCompressMsgBodyOverHowmuch(math.MaxInt32),
		producer.WithDefaultTopicQueueNums(4),
	)
	if err == nil {
		err = p.Start()
	}
	// the first send creates the topic and may fail until the route is known: not part of the run
	for tries := 0; err == nil; tries++ {
		_, refused := p.SendSync(context.Background(), primitive.NewMessage(*topic, []byte{0}))
		if refused == nil {
			return p
		}
		if tries == 19 {
			err = refused
		}
		time.Sleep(500 * time.Millisecond)
	}
	panic(err)
}

func main() {
	flag.Parse()
	if *mode != "batch" {
		*batch = 1
	}
	rlog.SetOutputPath("go-client.log")
	rlog.SetLogLevel("error")
	p := start()
	run, numbers := rand.New(rand.NewSource(time.Now().UnixNano())).Int63(), int64(-1)
	filler := make([]byte, *size)
	for i := range filler {
		filler[i] = byte('a' + rand.Intn(26))
	}
	next := func() *primitive.Message { return message(filler, run, atomic.AddInt64(&numbers, 1)) }
	places := make(chan struct{}, *inflight)
	for i := 0; i < *threads; i++ {
		go load(p, next, places)
	}
	for told := bufio.NewScanner(os.Stdin); told.Scan(); {
		var settle, seconds float64
		if _, err := fmt.Sscan(told.Text(), &settle, &seconds); err != nil {
			panic(err)
		}
		fmt.Println(window(settle, seconds))
	}
}

// window sends for a while and says what came of it.
func window(settle, seconds float64) string {
	lock.Lock()
	paused = false
	lock.Unlock()
	time.Sleep(time.Duration(settle * float64(time.Second)))
	lock.Lock()
	measuring, messages, took = true, 0, histogram{}
	began := time.Now()
	lock.Unlock()
	time.Sleep(time.Duration(seconds * float64(time.Second)))
	lock.Lock()
	measuring, paused = false, true
	lasted := time.Since(began).Seconds()
	for underWay > 0 {
		lock.Unlock()
		time.Sleep(time.Millisecond)
		lock.Lock()
	}
	defer lock.Unlock()
	failed := 0
	for _, count := range errors {
		failed += count
	}
	found := map[string]interface{}{
		"mode": *mode, "seconds": lasted, "start_ms": began.UnixMilli(), "msgs": messages, "msgs_s": float64(messages) / lasted,
		"lat_ms": map[string]float64{
			"p50": took.ms(0.5), "p99": took.ms(0.99), "p99_9": took.ms(0.999), "max": float64(took.most) / 1000,
		},
		"errors": failed, "errors_by": errors, "not_ok": notOK, "acked_all": all,
	}
	line, err := json.Marshal(found)
	errors, notOK = map[string]int{}, map[string]int{}
	if err != nil {
		panic(err)
	}
	return string(line)
}
