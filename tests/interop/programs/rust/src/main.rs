//! The Rust client, driven as `tests/interop/README.md` says, with a few commands of its own:
//! `send TOPIC BODY`, `transact TOPIC BODY` (a transaction that its own part commits), `join GROUP TOPIC`, `quit`.
#![recursion_limit = "512"]

use std::any::Any;
use std::io::BufRead;
use std::sync::Arc;

use rocketmq_client_rust::{
    ClientResult, ClientRuntime, ClientRuntimeConfig, ConsumeConcurrentlyContext, ConsumeConcurrentlyStatus,
    DefaultMQProducer, DefaultMQPushConsumer, LocalTransactionState, MQPushConsumer, MessageListenerConcurrently,
    TransactionListener, TransactionMQProducer,
};
use rocketmq_model::common::message::message_ext::MessageExt;
use rocketmq_model::common::message::message_single::Message;
use rocketmq_model::common::message::MessageTrait;
use rocketmq_runtime::{RuntimeConfig, RuntimeOwner};

/// Print one event; texts of the tests need no escapes.
fn event(kind: &str, fields: &[(&str, String)]) {
    let more: String = fields.iter().map(|(name, text)| format!(",\"{name}\":\"{text}\"")).collect();
    println!("{{\"event\":\"{kind}\"{more}}}");
}

fn message(topic: &str, body: &str) -> Message {
    Message::builder().topic(topic).body_slice(body.as_bytes()).build_unchecked()
}

struct Listener;

impl MessageListenerConcurrently for Listener {
    fn consume_message(
        &self,
        messages: &[&MessageExt],
        _context: &ConsumeConcurrentlyContext,
    ) -> ClientResult<ConsumeConcurrentlyStatus> {
        for one in messages {
            let body = one.body().map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
            event("consumed", &[("body", body)]);
        }
        Ok(ConsumeConcurrentlyStatus::ConsumeSuccess)
    }
}

struct Committing;

impl TransactionListener for Committing {
    fn execute_local_transaction(
        &self,
        half: &dyn MessageTrait,
        _argument: Option<&(dyn Any + Send + Sync)>,
    ) -> LocalTransactionState {
        event("executed", &[("transaction", half.transaction_id().map(|id| id.to_string()).unwrap_or_default())]);
        LocalTransactionState::CommitMessage
    }

    fn check_local_transaction(&self, _half: &MessageExt) -> LocalTransactionState {
        LocalTransactionState::CommitMessage
    }
}

#[tokio::main]
async fn main() -> ClientResult<()> {
    let name_server = std::env::args().nth(1).expect("the name server's address");
    let owner = RuntimeOwner::plan(RuntimeConfig::default()).expect("a runtime").build().expect("a runtime");
    let telemetry =
        rocketmq_observability::install_global(&rocketmq_observability::TelemetryBootstrapConfig::default())
            .expect("telemetry");
    let runtime: Arc<ClientRuntime> =
        ClientRuntime::try_new(owner.root_context().component("client"), ClientRuntimeConfig::default(), telemetry.handle())?;
    let mut producer = DefaultMQProducer::builder(runtime.clone())
        .producer_group("rust_producer".to_string())
        .name_server_addr(name_server.clone())
        .build();
    producer.start().await?;
    let mut payer = TransactionMQProducer::builder(runtime.clone())
        .producer_group("rust_payer".to_string())
        .name_server_addr(name_server.clone())
        .transaction_listener(Committing)
        .build();
    payer.start().await?;
    let mut members = Vec::new();
    println!("{{\"event\":\"ready\",\"can\":[]}}");
    for line in std::io::stdin().lock().lines() {
        let line = line.expect("a line");
        let words: Vec<&str> = line.split(' ').collect();
        match words[0] {
            "send" => match producer.send_with_timeout(message(words[1], words[2]), 10_000).await {
                Ok(sent) => event("sent", &[("result", format!("{sent:?}").replace('"', "'").replace('\\', "/"))]),
                Err(error) => event("failed", &[("error", format!("{error:?}").replace('"', "'").replace('\\', "/"))]),
            },
            "transact" => {
                match payer.send_message_in_transaction::<(), _>(message(words[1], words[2]), None).await {
                    Ok(sent) => event("sent", &[("result", format!("{sent}").replace('"', "'").replace('\\', "/"))]),
                    Err(error) => event("failed", &[("error", format!("{error:?}").replace('"', "'").replace('\\', "/"))]),
                }
            }
            "join" => {
                let mut member = DefaultMQPushConsumer::builder(runtime.clone())
                    .consumer_group(words[1].to_string())
                    .name_server_addr(name_server.clone())
                    .build();
                member.subscribe(words[2], "*").await?;
                member.register_message_listener_concurrently(Listener);
                member.start().await?;
                members.push(member);
            }
            _ => break,
        }
        event("done", &[]);
    }
    for mut member in members {
        member.shutdown().await;
    }
    payer.shutdown().await;
    producer.shutdown().await;
    event("stopped", &[]);
    std::process::exit(0);
}
