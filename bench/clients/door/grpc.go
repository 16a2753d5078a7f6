package main

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	pb "github.com/apache/rocketmq-clients/golang/v5/protocol/v2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

const (
	callTimeout  = 10 * time.Second
	polling      = 5 * time.Second
	batchMax     = 32
	maxBodyBytes = 16 << 20
)

// member is one client as the SDKs are: a connection, an id, a Telemetry stream that stays open.
type member struct {
	conn   *grpc.ClientConn
	stub   pb.MessagingServiceClient
	id     string
	calls  atomic.Uint64
	random string
	stream pb.MessagingService_TelemetryClient
}

var memberNumbers atomic.Int64

func newMember(o *options) *member {
	security := insecure.NewCredentials()
	if o.tls {
		security = credentials.NewTLS(&tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
	}
	conn, err := grpc.NewClient(
		"passthrough:///"+o.address,
		grpc.WithTransportCredentials(security),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxBodyBytes)),
		grpc.WithInitialWindowSize(4<<20),
		grpc.WithInitialConnWindowSize(16<<20),
	)
	if err != nil {
		fail("%s: %v", o.address, err)
	}
	number := memberNumbers.Add(1)
	some := make([]byte, 4)
	_, _ = rand.Read(some)
	m := &member{conn: conn, stub: pb.NewMessagingServiceClient(conn), random: hex.EncodeToString(some)}
	m.id = fmt.Sprintf("bench@%s@%d", m.random, number)
	return m
}

// context has the headers that the Go SDK sends, with a request id of its own for each call.
func (m *member) context(timeout time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.Background(), context.CancelFunc(func() {})
	if timeout > 0 {
		ctx, cancel = context.WithTimeout(ctx, timeout)
	}
	return metadata.AppendToOutgoingContext(
		ctx,
		"x-mq-language", "GO",
		"x-mq-protocol", "v2",
		"x-mq-client-version", "5.1.2",
		"x-mq-client-id", m.id,
		"x-mq-request-id", fmt.Sprintf("%s-0000-4000-8000-%012x", m.random, m.calls.Add(1)),
		"x-mq-date-time", time.Now().UTC().Format("20060102T150405Z"),
	), cancel
}

// greet opens the Telemetry stream and waits until the settings are answered.
func (m *member) greet(o *options, settings *pb.Settings) error {
	ctx, _ := m.context(0)
	stream, err := m.stub.Telemetry(ctx)
	if err != nil {
		return err
	}
	settings.UserAgent = &pb.UA{Language: pb.Language_GOLANG, Version: "5.1.2", Platform: "bench", Hostname: "bench"}
	settings.RequestTimeout = durationpb.New(3 * time.Second)
	settings.AccessPoint = endpoints(o.address)
	command := &pb.TelemetryCommand{Command: &pb.TelemetryCommand_Settings{Settings: settings}}
	if err := stream.Send(command); err != nil {
		return err
	}
	answer, err := stream.Recv()
	if err != nil {
		return err
	}
	if code := answer.GetStatus().GetCode(); code != pb.Code_OK {
		return fmt.Errorf("settings: %v %s", code, answer.GetStatus().GetMessage())
	}
	m.stream = stream
	go func() {
		for {
			if _, err := stream.Recv(); err != nil {
				return
			}
		}
	}()
	return nil
}

func endpoints(address string) *pb.Endpoints {
	host, port, _ := strings.Cut(address, ":")
	var number int32
	_, _ = fmt.Sscan(port, &number)
	return &pb.Endpoints{
		Scheme:    pb.AddressScheme_IPv4,
		Addresses: []*pb.Address{{Host: host, Port: number}},
	}
}

func producerSettings(topic string) *pb.Settings {
	kind := pb.ClientType_PRODUCER
	return &pb.Settings{
		ClientType: &kind,
		PubSub: &pb.Settings_Publishing{
			Publishing: &pb.Publishing{Topics: []*pb.Resource{{Name: topic}}, ValidateMessageType: true},
		},
	}
}

func consumerSettings(o *options) *pb.Settings {
	kind := pb.ClientType_SIMPLE_CONSUMER
	all := &pb.FilterExpression{Type: pb.FilterType_TAG, Expression: "*"}
	return &pb.Settings{
		ClientType: &kind,
		PubSub: &pb.Settings_Subscription{
			Subscription: &pb.Subscription{
				Group:              &pb.Resource{Name: o.group},
				Subscriptions:      []*pb.SubscriptionEntry{{Topic: &pb.Resource{Name: o.topic}, Expression: all}},
				LongPollingTimeout: durationpb.New(polling),
			},
		},
	}
}

var (
	idPrefix  [10]byte
	idCounter atomic.Uint32
)

func init() {
	// 01, an address of six bytes, a process's id of two, the seconds' first byte: what all ids of a run share.
	_, _ = rand.Read(idPrefix[:])
	idPrefix[0] = 1
}

func messageID(since uint32) string {
	var raw [17]byte
	copy(raw[:], idPrefix[:9])
	binary.BigEndian.PutUint32(raw[9:], since)
	binary.BigEndian.PutUint32(raw[13:], idCounter.Add(1))
	return strings.ToUpper(hex.EncodeToString(raw[:]))
}

func sendRequest(o *options, body []byte) *pb.SendMessageRequest {
	now := time.Now()
	return &pb.SendMessageRequest{Messages: []*pb.Message{{
		Topic: &pb.Resource{Name: o.topic},
		SystemProperties: &pb.SystemProperties{
			MessageId:     messageID(uint32(now.Unix() - 1609459200)),
			MessageType:   pb.MessageType_NORMAL,
			BodyEncoding:  pb.Encoding_IDENTITY,
			BornTimestamp: timestamppb.New(now),
			BornHost:      "bench",
		},
		Body: body,
	}}}
}

func (m *member) sendOne(o *options, body []byte) error {
	ctx, cancel := m.context(callTimeout)
	defer cancel()
	answer, err := m.stub.SendMessage(ctx, sendRequest(o, body))
	if err != nil {
		return err
	}
	if code := answer.GetStatus().GetCode(); code != pb.Code_OK {
		return fmt.Errorf("%v %s", code, answer.GetStatus().GetMessage())
	}
	return nil
}

func bodyOf(o *options) []byte {
	body := make([]byte, o.size)
	for at := range body {
		body[at] = 'x'
	}
	return body
}

// first tries until a send is acknowledged.
func first(o *options) {
	began, body := time.Now(), bodyOf(o)
	m := newMember(o)
	for time.Since(began) < 60*time.Second {
		m.conn.Connect()
		if m.sendOne(o, body) == nil {
			say(map[string]float64{"seconds": time.Since(began).Seconds()})
			return
		}
		m.conn.ResetConnectBackoff()
		time.Sleep(5 * time.Millisecond)
	}
	fail("no acknowledged send within a minute: %v", m.sendOne(o, body))
}

func members(o *options, settings func() *pb.Settings) []*member {
	found := make([]*member, o.connections)
	for at := range found {
		found[at] = newMember(o)
		if err := found[at].greet(o, settings()); err != nil {
			fail("telemetry: %v", err)
		}
	}
	return found
}

func send(o *options) {
	producers := members(o, func() *pb.Settings { return producerSettings(o.topic) })
	body := bodyOf(o)
	var book ledger
	var seen window
	var all []*samples
	stop := make(chan struct{})
	var workers sync.WaitGroup
	one := func(m *member, mine *samples) {
		began := time.Now()
		if err := m.sendOne(o, body); err != nil {
			book.refused(err.Error())
			time.Sleep(time.Millisecond)
			return
		}
		book.done.Add(1)
		if seen.measures.Load() {
			mine.add(time.Since(began))
		}
	}
	for _, m := range producers {
		if o.rate > 0 {
			mine := &samples{}
			all = append(all, mine)
			workers.Add(1)
			go paced(o, stop, &workers, func() { one(m, mine) })
			continue
		}
		for range o.underWay {
			mine := &samples{}
			all = append(all, mine)
			workers.Add(1)
			go func() {
				defer workers.Done()
				for {
					select {
					case <-stop:
						return
					default:
						one(m, mine)
					}
				}
			}()
		}
	}
	time.Sleep(seconds(o.warm))
	seen.begin(&book)
	time.Sleep(seconds(o.seconds))
	seen.end(&book, all)
	close(stop)
	workers.Wait()
}

// paced begins a call whenever one is due, whether the earlier ones are answered or not.
func paced(o *options, stop chan struct{}, workers *sync.WaitGroup, call func()) {
	defer workers.Done()
	step := time.Duration(float64(time.Second) * float64(o.connections) / o.rate)
	var number [1]byte
	_, _ = rand.Read(number[:])
	due := time.Now().Add(step * time.Duration(number[0]) / 256)
	for {
		time.Sleep(time.Until(due))
		select {
		case <-stop:
			return
		default:
		}
		workers.Add(1)
		go func() {
			defer workers.Done()
			call()
		}()
		due = due.Add(step)
	}
}

func seconds(count float64) time.Duration { return time.Duration(count * float64(time.Second)) }

// receive takes messages that are there, and acknowledges them, until it has as many as it was asked for.
func receive(o *options) {
	consumers := members(o, func() *pb.Settings { return consumerSettings(o) })
	run := newDrain(o)
	for _, m := range consumers {
		queue := m.assignment(o)
		for range o.underWay {
			mine := &samples{}
			run.all = append(run.all, mine)
			run.workers.Add(1)
			go func() {
				defer run.workers.Done()
				for !run.isOver() {
					if err := m.receiveOnce(o, queue, run, mine); err != nil {
						run.book.refused(err.Error())
						time.Sleep(time.Millisecond)
					}
				}
			}()
		}
	}
	run.finish(o)
}

func (m *member) assignment(o *options) *pb.MessageQueue {
	ctx, cancel := m.context(callTimeout)
	defer cancel()
	answer, err := m.stub.QueryAssignment(ctx, &pb.QueryAssignmentRequest{
		Topic: &pb.Resource{Name: o.topic}, Group: &pb.Resource{Name: o.group}, Endpoints: endpoints(o.address),
	})
	if err != nil {
		fail("assignment: %v", err)
	}
	if len(answer.GetAssignments()) == 0 {
		fail("assignment: %v", answer.GetStatus())
	}
	return answer.GetAssignments()[0].GetMessageQueue()
}

func (m *member) receiveOnce(o *options, queue *pb.MessageQueue, run *drain, mine *samples) error {
	began := time.Now()
	ctx, cancel := m.context(polling + 3*time.Second)
	defer cancel()
	stream, err := m.stub.ReceiveMessage(ctx, &pb.ReceiveMessageRequest{
		Group:             &pb.Resource{Name: o.group},
		MessageQueue:      queue,
		FilterExpression:  &pb.FilterExpression{Type: pb.FilterType_TAG, Expression: "*"},
		BatchSize:         batchMax,
		InvisibleDuration: durationpb.New(60 * time.Second),
	})
	if err != nil {
		return err
	}
	var entries []*pb.AckMessageEntry
	for {
		part, err := stream.Recv()
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		if status := part.GetStatus(); status != nil && status.GetCode() != pb.Code_OK {
			if status.GetCode() != pb.Code_MESSAGE_NOT_FOUND {
				return fmt.Errorf("%v %s", status.GetCode(), status.GetMessage())
			}
		}
		if message := part.GetMessage(); message != nil {
			about := message.GetSystemProperties()
			entries = append(entries, &pb.AckMessageEntry{
				MessageId: about.GetMessageId(), ReceiptHandle: about.GetReceiptHandle(),
			})
		}
	}
	if len(entries) == 0 {
		return nil
	}
	if run.seen.measures.Load() {
		mine.add(time.Since(began))
	}
	return m.acknowledge(o, entries, run)
}

func (m *member) acknowledge(o *options, entries []*pb.AckMessageEntry, run *drain) error {
	if o.ack == "batch" {
		if err := m.ack(o, entries); err != nil {
			return err
		}
		run.took(len(entries))
		return nil
	}
	var together sync.WaitGroup
	for _, entry := range entries {
		together.Add(1)
		go func() {
			defer together.Done()
			if err := m.ack(o, []*pb.AckMessageEntry{entry}); err != nil {
				run.book.refused(err.Error())
				return
			}
			run.took(1)
		}()
	}
	together.Wait()
	return nil
}

func (m *member) ack(o *options, entries []*pb.AckMessageEntry) error {
	ctx, cancel := m.context(callTimeout)
	defer cancel()
	answer, err := m.stub.AckMessage(ctx, &pb.AckMessageRequest{
		Group: &pb.Resource{Name: o.group}, Topic: &pb.Resource{Name: o.topic}, Entries: entries,
	})
	if err != nil {
		return err
	}
	if code := answer.GetStatus().GetCode(); code != pb.Code_OK {
		return fmt.Errorf("ack: %v %s", code, answer.GetStatus().GetMessage())
	}
	return nil
}
