'use strict';
// Drives the gRPC SDK for Node: the commands are those of tests/interop/README.md, "SDKs of 5.x".

const readline = require('readline');
const { ConsumeResult, Producer, PushConsumer, SimpleConsumer } = require('rocketmq-client-nodejs');
const { TransactionResolution } = require('rocketmq-client-nodejs/proto/apache/rocketmq/v2/definition_pb');

const [ endpoints, tls, accessKey, accessSecret ] = process.argv.slice(2);
const quiet = { debug() {}, info() {}, warn: console.error, error: console.error };
const common = { endpoints, namespace: '', sslEnabled: tls === 'tls', logger: quiet };
if (accessKey !== '-') {
  common.sessionCredentials = { accessKey, accessSecret };
}
const clients = new Map();
const held = new Map();

function show(event) {
  process.stdout.write(JSON.stringify(event) + '\n');
}

function showMessage(event, member, message) {
  show({
    event, member, body: message.body.toString(), id: message.messageId, topic: message.topic,
    tag: message.tag || null, keys: message.keys, properties: Object.fromEntries(message.properties),
    group: message.messageGroup || null, due: message.deliveryTimestamp ? message.deliveryTimestamp.getTime() : null,
    attempt: message.deliveryAttempt, at: Date.now(),
  });
}

function made(topic, body, index) {
  return {
    topic, body: Buffer.from(body), tag: `tag-${index % 2}`, keys: [ body, 'all' ],
    properties: new Map([[ 'note', `naïve 中文 ${index}` ]]),
  };
}

function sent(body, receipt) {
  show({ event: 'sent', body, id: receipt.messageId, recall: receipt.recallHandle || null });
}

async function send(name, kind, topic, prefix, count, more) {
  for (let index = 0; index < Number(count); index++) {
    const message = made(topic, `${prefix}-${index}`, index);
    if (kind === 'fifo') {
      message.messageGroup = more;
    } else if (kind === 'delay') {
      message.deliveryTimestamp = new Date(Date.now() + Number(more));
    }
    sent(`${prefix}-${index}`, await clients.get(name).send(message));
  }
}

async function transact(name, topic, body, end) {
  const transaction = clients.get(name).beginTransaction();
  sent(body, await clients.get(name).send(made(topic, body, 0), transaction));
  if (end !== 'later') {
    await transaction[end]();
  }
}

function checker(name) {
  return {
    async check(message) {
      showMessage('checked', name, message);
      const word = message.body.toString().split('-')[0];
      return { commit: TransactionResolution.COMMIT, rollback: TransactionResolution.ROLLBACK }[word] ||
        TransactionResolution.TRANSACTION_RESOLUTION_UNSPECIFIED;
    },
  };
}

async function start(name, client) {
  await client.startup();
  clients.set(name, client);
}

async function perform(command, name, ...words) {
  if (command === 'producer') {
    await start(name, new Producer({ ...common, topics: words[0].split(','), checker: checker(name) }));
  } else if (command === 'send') {
    await send(name, ...words);
  } else if (command === 'transact') {
    await transact(name, ...words);
  } else if (command === 'recall') {
    show({ event: 'recalled', id: (await clients.get(name).recallMessage(...words)).messageId });
  } else if (command === 'simple') {
    const [ consumerGroup, topic, tags ] = words;
    await start(name, new SimpleConsumer({
      ...common, consumerGroup, subscriptions: new Map([[ topic, tags ]]), awaitDuration: 5000,
    }));
  } else if (command === 'receive') {
    for (const message of await clients.get(name).receive(Number(words[0]), Number(words[1]) * 1000)) {
      held.set(message.messageId, message);
      showMessage('received', name, message);
    }
  } else if (command === 'ack') {
    await clients.get(name).ack(held.get(words[0]));
  } else if (command === 'hide') {
    await clients.get(name).changeInvisibleDuration(held.get(words[0]), Number(words[1]) * 1000);
  } else if (command === 'push') {
    const [ consumerGroup, topic, tags ] = words;
    await start(name, new PushConsumer({
      ...common, consumerGroup, subscriptions: new Map([[ topic, tags ]]),
      messageListener: {
        async consume(message) {
          showMessage('consumed', name, message);
          const fails = message.body.toString().startsWith('fails') && message.deliveryAttempt === 1;
          return fails ? ConsumeResult.FAILURE : ConsumeResult.SUCCESS;
        },
      },
    }));
  } else {
    await clients.get(name).shutdown();
    clients.delete(name);
  }
}

async function main() {
  show({ event: 'ready', can: [ 'fifo', 'delay', 'recall', 'transaction', 'simple', 'hide', 'push' ] });
  for await (const line of readline.createInterface({ input: process.stdin })) {
    if (line === 'quit') {
      break;
    }
    try {
      await perform(...line.split(' '));
      show({ event: 'done' });
    } catch (error) {
      show({ event: 'failed', error: String(error) });
    }
  }
  for (const client of clients.values()) {
    await client.shutdown();
  }
  show({ event: 'stopped' });
  process.exit(0);
}

main();
