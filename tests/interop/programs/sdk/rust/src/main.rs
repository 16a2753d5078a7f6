//! Drives the gRPC SDK for Rust: the commands are those of `tests/interop/README.md`, "SDKs of 5.x".

use std::collections::HashMap;
use std::error::Error;
use std::io::BufRead;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rocketmq::conf::{ClientOption, ProducerOption, SimpleConsumerOption};
use rocketmq::model::common::{FilterExpression, FilterType};
use rocketmq::model::message::{MessageBuilder, MessageView};
use rocketmq::model::transaction::{Transaction, TransactionResolution};
use rocketmq::{Producer, SimpleConsumer};
use serde_json::{json, Value};

type Done = Result<(), Box<dyn Error>>;

struct Simple {
    consumer: SimpleConsumer,
    topic: String,
    tags: String,
}

struct Driver {
    option: ClientOption,
    producers: HashMap<String, Producer>,
    simple: HashMap<String, Simple>,
    held: HashMap<String, MessageView>,
}

fn show(event: Value) {
    println!("{event}");
}

fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock").as_millis() as u64
}

fn show_message(event: &str, member: &str, message: &MessageView) {
    show(json!({
        "event": event, "member": member, "body": String::from_utf8_lossy(message.body()),
        "id": message.message_id(), "topic": message.topic(), "tag": message.tag(), "keys": message.keys(),
        "properties": message.properties(), "group": message.message_group(),
        "due": message.delivery_timestamp().map(|seconds| seconds * 1000),
        "attempt": message.delivery_attempt(), "at": now_ms(),
    }));
}

fn made(topic: &str, body: &str, index: usize) -> MessageBuilder {
    MessageBuilder::builder()
        .set_topic(topic)
        .set_body(body.as_bytes().to_vec())
        .set_tag(format!("tag-{}", index % 2))
        .set_keys(vec![body.to_string(), "all".to_string()])
        .set_properties(HashMap::from([("note".to_string(), format!("naïve 中文 {index}"))]))
}

fn sent(body: &str, id: &str) {
    show(json!({"event": "sent", "body": body, "id": id, "recall": null}));
}

impl Driver {
    async fn perform(&mut self, words: &[&str]) -> Done {
        let name = words[1];
        match words[0] {
            "producer" => self.produce(name, words[2].split(',').collect()).await,
            "send" => self.send(name, &words[2..]).await,
            "transact" => self.transact(name, words[2], words[3], words[4]).await,
            "simple" => self.start_simple(name, words[2], words[3], words[4]).await,
            "receive" => self.receive(name, words[2].parse()?, words[3].parse()?).await,
            "ack" => Ok(self.simple[name].consumer.ack(&self.held[words[2]]).await?),
            _ => self.leave(name).await,
        }
    }

    async fn produce(&mut self, name: &str, topics: Vec<&str>) -> Done {
        let mut option = ProducerOption::default();
        option.set_topics(topics);
        let member = name.to_string();
        let mut producer = Producer::new_transaction_producer(
            option,
            self.option.clone(),
            Box::new(move |_id, message| {
                show_message("checked", &member, &message);
                let body = String::from_utf8_lossy(message.body()).into_owned();
                if body.starts_with("commit") {
                    TransactionResolution::COMMIT
                } else if body.starts_with("rollback") {
                    TransactionResolution::ROLLBACK
                } else {
                    TransactionResolution::UNKNOWN
                }
            }),
        )?;
        producer.start().await?;
        self.producers.insert(name.to_string(), producer);
        Ok(())
    }

    async fn send(&mut self, name: &str, words: &[&str]) -> Done {
        let count: usize = words[3].parse()?;
        for index in 0..count {
            let body = format!("{}-{index}", words[2]);
            let mut builder = made(words[1], &body, index);
            if words[0] == "fifo" {
                builder = builder.set_message_group(words[4]);
            } else if words[0] == "delay" {
                // This SDK counts in seconds: the next one, so that nothing comes before its time.
                let due_ms = now_ms() + words[4].parse::<u64>()?;
                builder = builder.set_delivery_timestamp(due_ms.div_ceil(1000) as i64);
            }
            let receipt = self.producers[name].send(builder.build()?).await?;
            sent(&body, receipt.message_id());
        }
        Ok(())
    }

    async fn transact(&mut self, name: &str, topic: &str, body: &str, end: &str) -> Done {
        let half = made(topic, body, 0).enable_transaction().build()?;
        let transaction = self.producers[name].send_transaction_message(half).await?;
        sent(body, transaction.message_id());
        match end {
            "commit" => Ok(transaction.commit().await?),
            "rollback" => Ok(transaction.rollback().await?),
            _ => Ok(()),
        }
    }

    async fn start_simple(&mut self, name: &str, group: &str, topic: &str, tags: &str) -> Done {
        let mut option = SimpleConsumerOption::default();
        option.set_consumer_group(group);
        option.set_topics(vec![topic]);
        let mut client = self.option.clone();
        // Its deadline is this time too: Apache's holds a receive for 20 s at most, and refuses one without a rest.
        client.set_long_polling_timeout(Duration::from_secs(22));
        let mut consumer = SimpleConsumer::new(option, client)?;
        consumer.start().await?;
        let started = Simple { consumer, topic: topic.to_string(), tags: tags.to_string() };
        self.simple.insert(name.to_string(), started);
        Ok(())
    }

    async fn receive(&mut self, name: &str, count: i32, invisible_s: u64) -> Done {
        let simple = &self.simple[name];
        let filter = FilterExpression::new(FilterType::Tag, simple.tags.clone());
        let invisible = Duration::from_secs(invisible_s);
        for message in simple.consumer.receive_with(simple.topic.clone(), &filter, count, invisible).await? {
            show_message("received", name, &message);
            self.held.insert(message.message_id().to_string(), message);
        }
        Ok(())
    }

    async fn leave(&mut self, name: &str) -> Done {
        if let Some(producer) = self.producers.remove(name) {
            producer.shutdown().await?;
        } else if let Some(simple) = self.simple.remove(name) {
            simple.consumer.shutdown().await?;
        }
        Ok(())
    }
}

#[tokio::main]
async fn main() {
    let words: Vec<String> = std::env::args().collect();
    let mut option = ClientOption::default();
    option.set_access_url(words[1].clone());
    option.set_enable_tls(words[2] == "tls");
    if words[3] != "-" {
        option.set_access_key(words[3].clone());
        option.set_secret_key(words[4].clone());
    }
    let mut driver = Driver {
        option,
        producers: HashMap::new(),
        simple: HashMap::new(),
        held: HashMap::new(),
    };
    show(json!({"event": "ready", "can": ["fifo", "delay", "transaction", "simple"]}));
    for line in std::io::stdin().lock().lines() {
        let line = line.expect("a line");
        if line == "quit" {
            break;
        }
        match driver.perform(&line.split(' ').collect::<Vec<_>>()).await {
            Ok(()) => show(json!({"event": "done"})),
            Err(error) => show(json!({"event": "failed", "error": format!("{error:?}")})),
        }
    }
    let names: Vec<String> =
        driver.producers.keys().chain(driver.simple.keys()).cloned().collect();
    for name in names {
        let _ = driver.leave(&name).await;
    }
    show(json!({"event": "stopped"}));
    std::process::exit(0);
}
