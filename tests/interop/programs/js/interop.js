'use strict';
// The JavaScript driver: commands on standard input, JSON lines on standard output (see ../../README.md).

const readline = require('readline');
const { Consumer, Message, Producer } = require('ali-ons');

const nameSrv = process.argv[2];
const quiet = { debug() {}, info() {}, warn: console.error, error: console.error };
// ali-ons wants an HTTP client for address look-ups that a given name server makes unnecessary.
const common = { nameSrv, httpclient: {}, logger: quiet, rebalanceInterval: 1000 };
const members = new Map();

function print(event) {
  process.stdout.write(JSON.stringify(event) + '\n');
}

function message(topic, index) {
  const made = new Message(topic, `tag-${index % 3}`, `body ${index} é中` + (index % 100 === 7 ? 'x'.repeat(5000) : ''));
  made.keys = [ `key-${index}`, 'all' ];
  made.properties.index = String(index);
  made.properties.note = `naïve 中文 ${index}`;
  return made;
}

// ali-ons' producer leaves a topic without a route alone; its API object has the request that creates one.
async function create(producer, topicName, queues, brokers) {
  const config = {
    topicName, readQueueNums: queues, writeQueueNums: queues, perm: 6,
    topicFilterType: 'SINGLE_TAG', topicSysFlag: 0, order: false,
  };
  for (const broker of brokers) {
    await producer._mqClient.createTopic(broker, 'TBW102', config, 3000);
  }
}

async function sendOne(producer, mode, topic, index) {
  const result = await producer.send(message(topic, index));
  print({
    event: 'sent', mode, index, status: result.sendStatus, id: null, offset_id: result.msgId,
    broker: result.messageQueue.brokerName, queue: Number(result.messageQueue.queueId), offset: result.queueOffset,
  });
}

async function send(producer, mode, topic, first, count) {
  const indexes = Array.from({ length: count }, (_, step) => first + step);
  if (mode === 'async') {
    await Promise.all(indexes.map(index => sendOne(producer, mode, topic, index)));
    return;
  }
  for (const index of indexes) {
    await sendOne(producer, mode, topic, index);
  }
}

async function join(name, consumerGroup, topic, tags) {
  const member = new Consumer(Object.assign(
    { consumerGroup, instanceName: name, consumeFromWhere: 'CONSUME_FROM_FIRST_OFFSET' }, common));
  member.on('error', error => console.error(name, error));
  members.set(name, member);
  member.subscribe(topic, tags, async (got, queue) => {
    print({
      event: 'consumed', member: name, topic: got.topic, broker: queue.brokerName, queue: got.queueId,
      offset: Number(got.queueOffset), position: Number(got.commitLogOffset),
      id: got.properties.UNIQ_KEY || null, offset_id: got.msgId, times: got.reconsumeTimes,
      keys: got.keys, tags: got.tags, body: got.body.toString(), properties: got.properties,
    });
  });
  await member.ready();
}

async function leave(name) {
  const member = members.get(name);
  members.delete(name);
  await member.close();
}

async function run(producer, words) {
  switch (words[0]) {
    case 'create':
      return create(producer, words[1], Number(words[2]), words[3].split(','));
    case 'send':
      return send(producer, words[1], words[2], Number(words[3]), Number(words[4]));
    case 'join':
      return join(words[1], words[2], words[3], words[5]);
    case 'leave':
      return leave(words[1]);
    default:
      throw new Error(`unknown command ${words[0]}`);
  }
}

async function main() {
  const producer = new Producer(Object.assign({ producerGroup: 'interop_js_producer' }, common));
  producer.on('error', error => console.error('producer', error));
  await producer.ready();
  print({ event: 'ready', can: [ 'create', 'sync', 'async' ] });
  for await (const line of readline.createInterface({ input: process.stdin })) {
    if (line === 'quit') {
      break;
    }
    try {
      await run(producer, line.split(' '));
      print({ event: 'done', command: line });
    } catch (error) {
      print({ event: 'failed', command: line, error: String(error.stack) });
    }
  }
  for (const name of [ ...members.keys() ]) {
    await leave(name);
  }
  await producer.close();
  print({ event: 'stopped' });
  process.exit(0); // ali-ons keeps the timers of its inner producer
}

main();
