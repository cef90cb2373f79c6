// The Go client, driven from outside: one JSON command a line on stdin, one JSON object a line on stdout, an answer
// ({"re":1} or {"re":1,"error":...}) or an event ({"ev":"sent"|"send_error"|"msg",...}). The commands are those of
// ../harness/foreign.py.
package main

import (
	"bufio"
	"context"
	"crypto/sha1"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
	"github.com/apache/rocketmq-client-go/v2/rlog"
)

type command struct {
	ID         int               `json:"id"`
	Op         string            `json:"op"`
	Name       string            `json:"name"`
	Namesrv    string            `json:"namesrv"`
	Group      string            `json:"group"`
	Topic      string            `json:"topic"`
	Mode       string            `json:"mode"`
	Count      int               `json:"count"`
	Prefix     string            `json:"prefix"`
	Tags       []string          `json:"tags"`
	Size       int               `json:"min_size"`
	DelayLevel int               `json:"delay_level"`
	Kind       string            `json:"kind"`
	Topics     map[string]string `json:"topics"`
	FailPrefix string            `json:"fail_prefix"`
	FailTimes  int               `json:"fail_times"`
	RetryLevel int               `json:"retry_level"`
	Broker     string            `json:"broker"`
	Queues     int               `json:"queues"`
}

type event map[string]interface{}

var (
	sayLock  sync.Mutex
	sender   rocketmq.Producer
	stopLock sync.Mutex
	stops    = map[string]func() error{}

	nameserver string // the producer's
)

func say(e event) {
	line, err := json.Marshal(e)
	if err != nil {
		panic(err)
	}
	sayLock.Lock()
	defer sayLock.Unlock()
	os.Stdout.Write(append(line, '\n'))
}

func digest(body []byte) string {
	sum := sha1.Sum(body)
	return hex.EncodeToString(sum[:])
}

// ---- sending

// credentials are those of ROCKETHA_USER=NAME:PASSWORD; without it nothing is signed.
func credentials() primitive.Credentials {
	name, password, _ := strings.Cut(os.Getenv("ROCKETHA_USER"), ":")
	return primitive.Credentials{AccessKey: name, SecretKey: password}
}

func startProducer(c command) error {
	p, err := rocketmq.NewProducer(
		producer.WithNameServer([]string{c.Namesrv}),
		producer.WithGroupName(c.Group),
		producer.WithInstanceName(c.Name),
		producer.WithQueueSelector(producer.NewHashQueueSelector()),
		producer.WithCredentials(credentials()),
	)
	if err != nil {
		return err
	}
	sender, nameserver = p, c.Namesrv
	return p.Start()
}

func build(c command, i int) *primitive.Message {
	key := fmt.Sprintf("%s-%d", c.Prefix, i)
	text := strings.Repeat(key+";", c.Size/(len(key)+1)+1)
	m := primitive.NewMessage(c.Topic, []byte(text))
	m.WithKeys([]string{key})
	if len(c.Tags) > 0 {
		m.WithTag(c.Tags[i%len(c.Tags)])
	}
	if c.DelayLevel > 0 {
		m.WithDelayTimeLevel(c.DelayLevel)
	}
	if c.Mode == "orderly" {
		m.WithShardingKey(fmt.Sprint(i % 3))
	}
	return m
}

func sent(c command, i int, m *primitive.Message, err error) {
	key := fmt.Sprintf("%s-%d", c.Prefix, i)
	if err != nil {
		say(event{"ev": "send_error", "key": key, "mode": c.Mode, "error": err.Error()})
		return
	}
	say(event{"ev": "sent", "key": key, "mode": c.Mode, "topic": c.Topic, "tags": m.GetTags(), "size": len(m.Body),
		"sha": digest(m.Body)})
}

// committed is the outcome of each transaction.
type committed struct{}

func (committed) ExecuteLocalTransaction(*primitive.Message) primitive.LocalTransactionState {
	return primitive.CommitMessageState
}

func (committed) CheckLocalTransaction(*primitive.MessageExt) primitive.LocalTransactionState {
	return primitive.CommitMessageState
}

func transact(c command) error {
	p, err := rocketmq.NewTransactionProducer(committed{},
		producer.WithNameServer([]string{nameserver}),
		producer.WithGroupName("go-transactions"),
		producer.WithInstanceName("transactions"),
		producer.WithCredentials(credentials()),
	)
	if err != nil {
		return err
	}
	if err := p.Start(); err != nil {
		return err
	}
	for i := 0; i < c.Count; i++ {
		m := build(c, i)
		_, err := p.SendMessageInTransaction(context.Background(), m)
		sent(c, i, m, err)
	}
	return p.Shutdown()
}

func send(c command) error {
	ctx := context.Background()
	if c.Mode == "transaction" {
		return transact(c)
	}
	if c.Mode == "batch" {
		var all []*primitive.Message
		for i := 0; i < c.Count; i++ {
			all = append(all, build(c, i))
		}
		_, err := sender.SendSync(ctx, all...)
		for i, m := range all {
			sent(c, i, m, err)
		}
		return nil
	}
	var flying sync.WaitGroup
	for i := 0; i < c.Count; i++ {
		i, m := i, build(c, i)
		switch c.Mode {
		case "async":
			flying.Add(1)
			err := sender.SendAsync(ctx, func(_ context.Context, _ *primitive.SendResult, err error) {
				sent(c, i, m, err)
				flying.Done()
			}, m)
			if err != nil {
				sent(c, i, m, err)
				flying.Done()
			}
		case "oneway":
			sent(c, i, m, sender.SendOneWay(ctx, m))
		default:
			_, err := sender.SendSync(ctx, m)
			sent(c, i, m, err)
		}
	}
	flying.Wait()
	return nil
}

// ---- receiving

// policy fails keys that begin with a prefix, the first times each.
type policy struct {
	lock   sync.Mutex
	prefix string
	times  int
	seen   map[string]int
}

func (p *policy) fails(m *primitive.MessageExt) bool {
	p.lock.Lock()
	defer p.lock.Unlock()
	if p.prefix == "" || !strings.HasPrefix(m.GetKeys(), p.prefix) || p.seen[m.GetKeys()] >= p.times {
		return false
	}
	p.seen[m.GetKeys()]++
	return true
}

func got(name string, m *primitive.MessageExt) {
	queue := -1 // which a message does not tell
	if m.Queue != nil {
		queue = m.Queue.QueueId
	}
	say(event{"ev": "msg", "consumer": name, "topic": m.Topic, "key": m.GetKeys(), "tags": m.GetTags(),
		"size": len(m.Body), "sha": digest(m.Body), "q": queue, "off": m.QueueOffset, "again": m.ReconsumeTimes,
		"record": m.StoreSize, "born": m.BornTimestamp, "at": time.Now().UnixMilli()})
}

func push(c command) (func() error, error) {
	p, err := rocketmq.NewPushConsumer(
		consumer.WithNameServer([]string{c.Namesrv}),
		consumer.WithGroupName(c.Group),
		consumer.WithInstance(c.Name),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset),
		consumer.WithCredentials(credentials()),
		consumer.WithConsumerOrder(c.Kind == "orderly"),
	)
	if err != nil {
		return nil, err
	}
	rule := &policy{prefix: c.FailPrefix, times: c.FailTimes, seen: map[string]int{}}
	for topic, tags := range c.Topics {
		selector := consumer.MessageSelector{Type: consumer.TAG, Expression: tags}
		err = p.Subscribe(topic, selector, func(ctx context.Context, ms ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
			fails := false
			for _, m := range ms {
				got(c.Name, m)
				fails = rule.fails(m) || fails
			}
			if !fails {
				return consumer.ConsumeSuccess, nil
			}
			if c.Kind == "orderly" {
				return consumer.SuspendCurrentQueueAMoment, nil
			}
			if again, ok := primitive.GetConcurrentlyCtx(ctx); ok {
				again.DelayLevelWhenNextConsume = c.RetryLevel
			}
			return consumer.ConsumeRetryLater, nil
		})
		if err != nil {
			return nil, err
		}
	}
	return p.Shutdown, p.Start()
}

func pull(c command) (func() error, error) {
	p, err := rocketmq.NewPullConsumer(
		consumer.WithNameServer([]string{c.Namesrv}),
		consumer.WithGroupName(c.Group),
		consumer.WithInstance(c.Name),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset),
		consumer.WithCredentials(credentials()),
	)
	if err != nil {
		return nil, err
	}
	for topic, tags := range c.Topics {
		if err = p.Subscribe(topic, consumer.MessageSelector{Type: consumer.TAG, Expression: tags}); err != nil {
			return nil, err
		}
	}
	if err = p.Start(); err != nil {
		return nil, err
	}
	done := make(chan struct{})
	for topic := range c.Topics {
		for id := 0; id < c.Queues; id++ {
			queue := primitive.MessageQueue{Topic: topic, BrokerName: c.Broker, QueueId: id}
			go read(p, c.Name, queue, done)
		}
	}
	return func() error { close(done); return p.Shutdown() }, nil
}

// read pulls a queue from its first message on: a consumer that polls begins at the end, whatever it is told.
func read(p rocketmq.PullConsumer, name string, queue primitive.MessageQueue, done chan struct{}) {
	for offset := int64(0); ; {
		select {
		case <-done:
			return
		default:
		}
		mq := queue
		result, err := p.PullFrom(context.Background(), &mq, offset, 32)
		if err != nil {
			time.Sleep(100 * time.Millisecond) // no master just now, and nothing tells of the next one
			continue
		}
		if result.Status == primitive.PullFound {
			for _, m := range result.GetMessageExts() {
				got(name, m)
			}
		}
		offset = result.NextBeginOffset
	}
}

func run(c command) error {
	switch c.Op {
	case "producer":
		return startProducer(c)
	case "send":
		return send(c)
	case "consume":
		start := push
		if c.Kind == "pull" {
			start = pull
		}
		stop, err := start(c)
		if err == nil {
			stopLock.Lock()
			stops[c.Name] = stop
			stopLock.Unlock()
		}
		return err
	case "stop_consumer":
		stopLock.Lock()
		stop := stops[c.Name]
		stopLock.Unlock()
		return stop()
	}
	return fmt.Errorf("no such op: %s", c.Op)
}

func main() {
	rlog.SetOutputPath("client.log")
	rlog.SetLogLevel("info")
	say(event{"ev": "ready"})
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(make([]byte, 1<<16), 1<<20)
	for lines.Scan() {
		var c command
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			panic(err)
		}
		go func() {
			answer := event{"re": c.ID}
			if err := run(c); err != nil {
				answer["error"] = err.Error()
			}
			say(answer)
		}()
	}
}
