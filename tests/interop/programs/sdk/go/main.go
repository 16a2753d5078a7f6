// Drives the gRPC SDK for Go: the commands are those of tests/interop/README.md, "SDKs of 5.x". It always speaks TLS.
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

	rmq "github.com/apache/rocketmq-clients/golang/v5"
	"github.com/apache/rocketmq-clients/golang/v5/credentials"
	v2 "github.com/apache/rocketmq-clients/golang/v5/protocol/v2"
)

type event map[string]interface{}

type stopper interface{ GracefulStop() error }

var (
	printing  sync.Mutex
	settings  rmq.Config
	producers = map[string]rmq.Producer{}
	simple    = map[string]rmq.SimpleConsumer{}
	clients   = map[string]stopper{}
	held      = map[string]*rmq.MessageView{}
)

func show(what event) {
	line, _ := json.Marshal(what)
	printing.Lock()
	defer printing.Unlock()
	fmt.Println(string(line))
}

func showMessage(kind, member string, message *rmq.MessageView) {
	keys := message.GetKeys()
	if keys == nil {
		keys = []string{}
	}
	var due interface{}
	if message.GetDeliveryTimestamp() != nil {
		due = message.GetDeliveryTimestamp().UnixMilli()
	}
	show(event{
		"event": kind, "member": member, "body": string(message.GetBody()), "id": message.GetMessageId(),
		"topic": message.GetTopic(), "tag": message.GetTag(), "keys": keys, "properties": message.GetProperties(),
		"group": message.GetMessageGroup(), "due": due, "attempt": message.GetDeliveryAttempt(),
		"at": time.Now().UnixMilli(),
	})
}

func check(name string) *rmq.TransactionChecker {
	return &rmq.TransactionChecker{Check: func(message *rmq.MessageView) rmq.TransactionResolution {
		showMessage("checked", name, message)
		body := string(message.GetBody())
		if strings.HasPrefix(body, "commit") {
			return rmq.COMMIT
		} else if strings.HasPrefix(body, "rollback") {
			return rmq.ROLLBACK
		}
		return rmq.UNKNOWN
	}}
}

func made(topic, body string, index int) *rmq.Message {
	message := &rmq.Message{Topic: topic, Body: []byte(body)}
	message.SetTag(fmt.Sprintf("tag-%d", index%2))
	message.SetKeys(body, "all")
	message.AddProperty("note", fmt.Sprintf("naïve 中文 %d", index))
	return message
}

func sent(body string, receipt *rmq.SendReceipt) {
	show(event{"event": "sent", "body": body, "id": receipt.MessageID, "recall": nil})
}

func send(name, kind, topic, prefix string, count int, more string) error {
	for index := 0; index < count; index++ {
		body := fmt.Sprintf("%s-%d", prefix, index)
		message := made(topic, body, index)
		if kind == "fifo" {
			message.SetMessageGroup(more)
		} else if kind == "delay" {
			delay, _ := strconv.Atoi(more)
			message.SetDelayTimestamp(time.Now().Add(time.Duration(delay) * time.Millisecond))
		}
		receipts, err := producers[name].Send(context.Background(), message)
		if err != nil {
			return err
		}
		sent(body, receipts[0])
	}
	return nil
}

func transact(name, topic, body, end string) error {
	transaction := producers[name].BeginTransaction()
	receipts, err := producers[name].SendWithTransaction(context.Background(), made(topic, body, 0), transaction)
	if err != nil {
		return err
	}
	sent(body, receipts[0])
	if end == "commit" {
		return transaction.Commit()
	} else if end == "rollback" {
		return transaction.RollBack()
	}
	return nil
}

func seconds(word string) time.Duration {
	number, _ := strconv.Atoi(word)
	return time.Duration(number) * time.Second
}

func startProducer(name string, topics []string) error {
	config := settings
	producer, err := rmq.NewProducer(&config, rmq.WithTopics(topics...), rmq.WithTransactionChecker(check(name)))
	if err == nil {
		err = producer.Start()
	}
	if err == nil {
		producers[name], clients[name] = producer, producer
	}
	return err
}

func startSimple(name, group, topic, tags string) error {
	config := settings
	config.ConsumerGroup = group
	consumer, err := rmq.NewSimpleConsumer(&config, rmq.WithAwaitDuration(5*time.Second),
		rmq.WithSubscriptionExpressions(map[string]*rmq.FilterExpression{topic: rmq.NewFilterExpression(tags)}))
	if err == nil {
		err = consumer.Start()
	}
	if err == nil {
		simple[name], clients[name] = consumer, consumer
	}
	return err
}

func receive(name string, count int, invisible time.Duration) error {
	messages, err := simple[name].Receive(context.Background(), int32(count), invisible)
	var status *rmq.ErrRpcStatus
	if errors.As(err, &status) && status.Code == int32(v2.Code_MESSAGE_NOT_FOUND) {
		return nil
	}
	for _, message := range messages {
		held[message.GetMessageId()] = message
		showMessage("received", name, message)
	}
	return err
}

func perform(words []string) error {
	name := words[1]
	switch words[0] {
	case "producer":
		return startProducer(name, strings.Split(words[2], ","))
	case "send":
		count, _ := strconv.Atoi(words[5])
		return send(name, words[2], words[3], words[4], count, strings.Join(words[6:], " "))
	case "transact":
		return transact(name, words[2], words[3], words[4])
	case "simple":
		return startSimple(name, words[2], words[3], words[4])
	case "receive":
		count, _ := strconv.Atoi(words[2])
		return receive(name, count, seconds(words[3]))
	case "ack":
		return simple[name].Ack(context.Background(), held[words[2]])
	case "hide":
		return simple[name].ChangeInvisibleDuration(held[words[2]], seconds(words[3]))
	default:
		client := clients[name]
		delete(clients, name)
		return client.GracefulStop()
	}
}

func main() {
	settings = rmq.Config{Endpoint: os.Args[1], Credentials: &credentials.SessionCredentials{}}
	if os.Args[3] != "-" {
		settings.Credentials = &credentials.SessionCredentials{AccessKey: os.Args[3], AccessSecret: os.Args[4]}
	}
	show(event{"event": "ready", "can": []string{"fifo", "delay", "transaction", "simple", "hide"}})
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() && lines.Text() != "quit" {
		if err := perform(strings.Split(lines.Text(), " ")); err != nil {
			show(event{"event": "failed", "error": err.Error()})
		} else {
			show(event{"event": "done"})
		}
	}
	for _, client := range clients {
		_ = client.GracefulStop()
	}
	show(event{"event": "stopped"})
}
