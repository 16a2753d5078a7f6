package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"time"

	pb "github.com/apache/rocketmq-clients/golang/v5/protocol/v2"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/protobuf/proto"
)

// idle opens connections that make one call each and then do nothing; "streams": each keeps a Telemetry
// stream open, as an SDK's does. They are frames by hand: ten thousand clients of grpc-go would need more memory
// than the machine has. It says begin before the first and end when all are there, and ends when its input does.
func idle(o *options) {
	// Clients of one address run out of ports; those of three do not.
	sources := []string{"127.0.0.1", "127.0.0.2", "127.0.0.3"}
	say(map[string]string{"phase": "begin"})
	began := time.Now()
	links := make([]net.Conn, 0, o.connections)
	for number := range o.connections {
		dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(sources[number%len(sources)])}}
		conn, err := dialer.DialContext(context.Background(), "tcp", o.address)
		if err != nil {
			fail("connection %d: %v", number, err)
		}
		if err := exchangeOnce(conn, o, number); err != nil {
			fail("connection %d: %v", number, err)
		}
		links = append(links, conn)
	}
	say(map[string]string{"phase": "end"})
	say(figures{Messages: int64(len(links)), Seconds: time.Since(began).Seconds()})
	// Whoever started us looks at the server now, and closes our input when it is done.
	_, _ = os.Stdin.Read(make([]byte, 1))
	for _, conn := range links {
		_ = conn.Close()
	}
}

func exchangeOnce(conn net.Conn, o *options, number int) error {
	_ = conn.SetDeadline(time.Now().Add(30 * time.Second))
	if _, err := conn.Write([]byte(http2.ClientPreface)); err != nil {
		return err
	}
	framer := http2.NewFramer(conn, conn)
	if err := framer.WriteSettings(); err != nil {
		return err
	}
	path, payload := callOf(o)
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	for _, field := range [][2]string{
		{":method", "POST"}, {":scheme", "http"}, {":path", "/apache.rocketmq.v2.MessagingService/" + path},
		{":authority", o.address}, {"content-type", "application/grpc"}, {"te", "trailers"},
		{"x-mq-client-id", fmt.Sprintf("idle@%d", number)}, {"x-mq-language", "GO"},
		{"x-mq-client-version", "5.1.2"}, {"x-mq-protocol", "v2"}, {"x-mq-date-time", "20261119T000000Z"},
	} {
		_ = encoder.WriteField(hpack.HeaderField{Name: field[0], Value: field[1]})
	}
	head := http2.HeadersFrameParam{StreamID: 1, BlockFragment: block.Bytes(), EndHeaders: true}
	if err := framer.WriteHeaders(head); err != nil {
		return err
	}
	stays := o.mode == "streams"
	if err := framer.WriteData(1, !stays, payload); err != nil {
		return err
	}
	return untilAnswered(framer, stays)
}

func callOf(o *options) (string, []byte) {
	var message proto.Message = &pb.QueryRouteRequest{
		Topic: &pb.Resource{Name: o.topic}, Endpoints: endpoints(o.address),
	}
	path := "QueryRoute"
	if o.mode == "streams" {
		path = "Telemetry"
		message = &pb.TelemetryCommand{
			Command: &pb.TelemetryCommand_Settings{Settings: producerSettings(o.topic)},
		}
	}
	text, _ := proto.Marshal(message)
	size := len(text)
	return path, append([]byte{0, byte(size >> 24), byte(size >> 16), byte(size >> 8), byte(size)}, text...)
}

// untilAnswered reads frames until the call is answered: its trailers, or of a stream that stays its first message.
func untilAnswered(framer *http2.Framer, stays bool) error {
	for {
		frame, err := framer.ReadFrame()
		if err != nil {
			return err
		}
		switch frame := frame.(type) {
		case *http2.SettingsFrame:
			if !frame.IsAck() {
				if err := framer.WriteSettingsAck(); err != nil {
					return err
				}
			}
		case *http2.DataFrame:
			if stays {
				return nil
			}
		case *http2.HeadersFrame:
			if frame.StreamEnded() {
				if stays {
					return fmt.Errorf("the stream was ended")
				}
				return nil
			}
		case *http2.GoAwayFrame:
			return fmt.Errorf("the server said to go: %v", frame.ErrCode)
		}
	}
}
