package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

const (
	popMessage  = 200050
	ackMessage  = 200051
	headerBytes = 4
)

// remoting is one connection that speaks RocketMQ's own protocol, one pop and its acknowledgements at a time.
type remoting struct {
	conn   net.Conn
	reader *bufio.Reader
	out    bytes.Buffer
	opaque int
}

type answer struct {
	Code      int               `json:"code"`
	Opaque    int               `json:"opaque"`
	Remark    string            `json:"remark"`
	ExtFields map[string]string `json:"extFields"`
}

func newRemoting(o *options) *remoting {
	conn, err := net.Dial("tcp", o.address)
	if err != nil {
		fail("%s: %v", o.address, err)
	}
	return &remoting{conn: conn, reader: bufio.NewReaderSize(conn, 1<<18)}
}

func (r *remoting) add(code int, fields string) {
	r.opaque++
	header := fmt.Sprintf(
		`{"code":%d,"extFields":{%s},"flag":0,"language":"JAVA","opaque":%d,"serializeTypeCurrentRPC":"JSON","version":477}`,
		code, fields, r.opaque,
	)
	var lengths [8]byte
	binary.BigEndian.PutUint32(lengths[:4], uint32(headerBytes+len(header)))
	binary.BigEndian.PutUint32(lengths[4:], uint32(len(header)))
	r.out.Write(lengths[:])
	r.out.WriteString(header)
}

func (r *remoting) flush() error {
	_, err := r.conn.Write(r.out.Bytes())
	r.out.Reset()
	return err
}

// next reads an answer; its body is passed over.
func (r *remoting) next() (answer, error) {
	var said answer
	var lengths [8]byte
	if _, err := io.ReadFull(r.reader, lengths[:]); err != nil {
		return said, err
	}
	whole, head := binary.BigEndian.Uint32(lengths[:4]), binary.BigEndian.Uint32(lengths[4:])&0xFFFFFF
	header := make([]byte, head)
	if _, err := io.ReadFull(r.reader, header); err != nil {
		return said, err
	}
	if _, err := r.reader.Discard(int(whole - headerBytes - head)); err != nil {
		return said, err
	}
	return said, json.Unmarshal(header, &said)
}

// pop takes messages over remoting as a Java consumer of 5.x does: pops of 32, an acknowledgement for each message.
func pop(o *options) {
	run := newDrain(o)
	for range o.connections {
		mine := &samples{}
		run.all = append(run.all, mine)
		run.workers.Add(1)
		link := newRemoting(o)
		go func() {
			defer run.workers.Done()
			for !run.isOver() {
				if err := link.popOnce(o, run, mine); err != nil {
					if run.isOver() {
						return
					}
					run.book.refused(err.Error())
					time.Sleep(time.Millisecond)
				}
			}
		}()
	}
	run.finish(o)
}

func (r *remoting) popOnce(o *options, run *drain, mine *samples) error {
	began := time.Now()
	r.add(popMessage, fmt.Sprintf(
		`"consumerGroup":%q,"topic":%q,"queueId":"-1","maxMsgNums":"%d","invisibleTime":"60000","pollTime":"5000",`+
			`"bornTime":"%d","initMode":"0","exp":"*","expType":"TAG","order":"false"`,
		o.group, o.topic, batchMax, began.UnixMilli(),
	))
	if err := r.flush(); err != nil {
		return err
	}
	said, err := r.next()
	if err != nil {
		return err
	}
	if said.Code != 0 {
		return fmt.Errorf("pop: %d %s", said.Code, said.Remark)
	}
	if run.seen.measures.Load() {
		mine.add(time.Since(began))
	}
	acks, err := r.addAcks(o, said.ExtFields)
	if err != nil || acks == 0 {
		return err
	}
	if err := r.flush(); err != nil {
		return err
	}
	for range acks {
		done, err := r.next()
		if err != nil {
			return err
		}
		if done.Code != 0 {
			return fmt.Errorf("ack: %d %s", done.Code, done.Remark)
		}
	}
	run.took(acks)
	return nil
}

// addAcks writes an acknowledgement for each message that the answer's headers name.
func (r *remoting) addAcks(o *options, fields map[string]string) (int, error) {
	starts := map[string]string{}
	for _, part := range strings.Split(fields["startOffsetInfo"], ";") {
		words := strings.Fields(part)
		if len(words) == 3 {
			starts[words[0]+" "+words[1]] = words[2]
		}
	}
	count := 0
	for _, part := range strings.Split(fields["msgOffsetInfo"], ";") {
		words := strings.Fields(part)
		if len(words) != 3 {
			continue
		}
		mark, queue := words[0], words[1]
		topic := o.topic
		if mark == "1" {
			topic = "%RETRY%" + o.group + "_" + o.topic
		}
		if _, err := strconv.Atoi(queue); err != nil {
			return 0, err
		}
		for _, offset := range strings.Split(words[2], ",") {
			handle := fmt.Sprintf(
				"%s %s %s %s %s %s %s %s", starts[mark+" "+queue], fields["popTime"], fields["invisibleTime"],
				fields["reviveQid"], mark, o.broker, queue, offset,
			)
			r.add(ackMessage, fmt.Sprintf(
				`"consumerGroup":%q,"topic":%q,"queueId":%q,"extraInfo":%q,"offset":%q`,
				o.group, topic, queue, handle, offset,
			))
			count++
		}
	}
	return count, nil
}
