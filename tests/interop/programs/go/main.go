// The Go driver: commands on standard input, JSON lines on standard output (see ../../README.md).
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/admin"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
	"github.com/apache/rocketmq-client-go/v2/rlog"
)

type event map[string]interface{}

var (
	nameServers primitive.NamesrvAddr
	members     = map[string]rocketmq.PushConsumer{}
	printing    sync.Mutex
)

func emit(what event) {
	line, _ := json.Marshal(what)
	printing.Lock()
	defer printing.Unlock()
	fmt.Println(string(line))
}

func message(topic string, index int) *primitive.Message {
	body := fmt.Sprintf("body %d é中", index)
	if index%100 == 7 {
		body += strings.Repeat("x", 5000)
	}
	made := primitive.NewMessage(topic, []byte(body))
	made.WithTag(fmt.Sprintf("tag-%d", index%3))
	made.WithKeys([]string{fmt.Sprintf("key-%d", index), "all"})
	made.WithProperty("index", strconv.Itoa(index))
	made.WithProperty("note", fmt.Sprintf("naïve 中文 %d", index))
	return made
}

func sent(mode string, index int, result *primitive.SendResult) {
	emit(event{
		"event": "sent", "mode": mode, "index": index, "status": strconv.Itoa(int(result.Status)),
		"id": result.MsgID, "offset_id": result.OffsetMsgID, "broker": result.MessageQueue.BrokerName,
		"queue": result.MessageQueue.QueueId, "offset": result.QueueOffset,
	})
}

func sendAsync(p rocketmq.Producer, topic string, first, count int) error {
	failures := make(chan error, count)
	for index := first; index < first+count; index++ {
		which := index
		err := p.SendAsync(context.Background(), func(_ context.Context, result *primitive.SendResult, err error) {
			if err == nil {
				sent("async", which, result)
			}
			failures <- err
		}, message(topic, which))
		if err != nil {
			return err
		}
	}
	for left := count; left > 0; left-- {
		select {
		case err := <-failures:
			if err != nil {
				return err
			}
		case <-time.After(30 * time.Second):
			return errors.New("an asynchronous send was not answered")
		}
	}
	return nil
}

func send(p rocketmq.Producer, mode, topic string, first, count int) error {
	switch mode {
	case "async":
		return sendAsync(p, topic, first, count)
	case "batch":
		var batch []*primitive.Message
		for index := first; index < first+count; index++ {
			batch = append(batch, message(topic, index))
		}
		result, err := p.SendSync(context.Background(), batch...)
		if err == nil {
			sent(mode, first, result)
		}
		return err
	}
	for index := first; index < first+count; index++ {
		if mode == "oneway" {
			if err := p.SendOneWay(context.Background(), message(topic, index)); err != nil {
				return err
			}
			continue
		}
		result, err := p.SendSync(context.Background(), message(topic, index))
		if err != nil {
			return err
		}
		sent(mode, index, result)
	}
	return nil
}

func create(topic string, queues int, brokers []string) error {
	tool, err := admin.NewAdmin(admin.WithResolver(primitive.NewPassthroughResolver(nameServers)))
	if err != nil {
		return err
	}
	defer tool.Close()
	for _, broker := range brokers {
		err := tool.CreateTopic(context.Background(), admin.WithTopicCreate(topic), admin.WithBrokerAddrCreate(broker),
			admin.WithReadQueueNums(queues), admin.WithWriteQueueNums(queues))
		if err != nil {
			return err
		}
	}
	return nil
}

func join(name, group, topic string, orderly bool, tags string) error {
	member, err := rocketmq.NewPushConsumer(consumer.WithNameServer(nameServers), consumer.WithGroupName(group),
		consumer.WithInstance(name), consumer.WithConsumerOrder(orderly), consumer.WithConsumeGoroutineNums(2),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset))
	if err != nil {
		return err
	}
	take := func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		for _, got := range messages {
			emit(event{
				"event": "consumed", "member": name, "topic": got.Topic, "broker": got.Queue.BrokerName,
				"queue": got.Queue.QueueId, "offset": got.QueueOffset, "position": got.CommitLogOffset,
				"id": got.MsgId, "offset_id": got.OffsetMsgId, "times": got.ReconsumeTimes, "keys": got.GetKeys(),
				"tags": got.GetTags(), "body": string(got.Body), "properties": got.GetProperties(),
			})
		}
		return consumer.ConsumeSuccess, nil
	}
	if err := member.Subscribe(topic, consumer.MessageSelector{Type: consumer.TAG, Expression: tags}, take); err != nil {
		return err
	}
	members[name] = member
	return member.Start()
}

func leave(name string) error {
	member := members[name]
	delete(members, name)
	return member.Shutdown()
}

func run(p rocketmq.Producer, words []string) error {
	number := func(at int) int {
		value, _ := strconv.Atoi(words[at])
		return value
	}
	switch words[0] {
	case "create":
		return create(words[1], number(2), strings.Split(words[3], ","))
	case "send":
		return send(p, words[1], words[2], number(3), number(4))
	case "join":
		return join(words[1], words[2], words[3], words[4] == "orderly", words[5])
	case "leave":
		return leave(words[1])
	}
	return fmt.Errorf("unknown command %s", words[0])
}

func main() {
	nameServers = primitive.NamesrvAddr(strings.Split(os.Args[1], ";"))
	rlog.SetLogLevel("error")
	p, err := rocketmq.NewProducer(producer.WithNameServer(nameServers), producer.WithGroupName("interop_go_producer"),
		producer.WithInstanceName("producer"), producer.WithRetry(2))
	if err == nil {
		err = p.Start()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	emit(event{"event": "ready", "can": []string{"create", "sync", "async", "oneway", "batch", "orderly", "takeover"}})
	commands := bufio.NewScanner(os.Stdin)
	for commands.Scan() && commands.Text() != "quit" {
		if err := run(p, strings.Split(commands.Text(), " ")); err != nil {
			emit(event{"event": "failed", "command": commands.Text(), "error": err.Error()})
		} else {
			emit(event{"event": "done", "command": commands.Text()})
		}
	}
	for name := range members {
		_ = leave(name)
	}
	_ = p.Shutdown()
	emit(event{"event": "stopped"})
}
