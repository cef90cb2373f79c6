//! The Rust client, driven from outside: one JSON command a line on stdin, one JSON object a line on stdout, an answer
//! ({"re":1} or {"re":1,"error":...}) or an event ({"ev":"sent"|"send_error"|"msg",...}). The commands are those of
//! ../harness/foreign.py.
#![recursion_limit = "512"]

use std::collections::HashMap;
use std::error::Error;
use std::io::{BufRead, Write};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rocketmq_client_rust::{
    ClientConfig, ClientResult, ClientRuntime, ClientRuntimeConfig, ConsumeConcurrentlyContext,
    ConsumeConcurrentlyStatus, ConsumeOrderlyContext, ConsumeOrderlyStatus, DefaultLitePullConsumer, DefaultMQProducer,
    DefaultMQPushConsumer, MQPushConsumer, MessageListenerConcurrently, MessageListenerOrderly,
};
use rocketmq_model::common::consumer::consume_from_where::ConsumeFromWhere;
use rocketmq_model::common::message::message_ext::MessageExt;
use rocketmq_model::common::message::message_single::Message;
use rocketmq_runtime::RuntimeOwner;
use serde_json::{Value, json};
use sha1::{Digest, Sha1};

type Outcome = Result<(), Box<dyn Error + Send + Sync>>;

static PRODUCER: OnceLock<DefaultMQProducer> = OnceLock::new();
static KEPT: Mutex<Vec<DefaultMQPushConsumer>> = Mutex::new(Vec::new());

fn say(event: Value) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{event}");
    let _ = out.flush();
}

fn digest(body: &[u8]) -> String {
    Sha1::digest(body).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn text(c: &Value, name: &str) -> String {
    c[name].as_str().unwrap_or_default().to_string()
}

fn number(c: &Value, name: &str) -> usize {
    c[name].as_u64().unwrap_or_default() as usize
}

fn config(c: &Value) -> ClientConfig {
    let mut config = ClientConfig::default();
    config.set_instance_name(format!("{}-{}", text(c, "name"), std::process::id()).into());
    config
}

// ---- sending

async fn start_producer(runtime: Arc<ClientRuntime>, c: &Value) -> Outcome {
    let mut producer = DefaultMQProducer::builder(runtime)
        .client_config(config(c))
        .producer_group(text(c, "group"))
        .name_server_addr(text(c, "namesrv"))
        .send_msg_timeout(10_000)
        .build();
    producer.start().await?;
    PRODUCER.set(producer).map_err(|_| "there is a producer already".into())
}

fn build(c: &Value, i: usize) -> Result<(Message, Value), Box<dyn Error + Send + Sync>> {
    let key = format!("{}-{}", text(c, "prefix"), i);
    let body = format!("{key};").repeat(number(c, "min_size") / (key.len() + 1) + 1);
    let tags = c["tags"].as_array().map_or(String::new(), |all| {
        all[i % all.len()].as_str().unwrap_or_default().to_string()
    });
    let about = json!({"ev": "sent", "key": key, "mode": c["mode"], "topic": c["topic"], "tags": tags, "size": body.len(),
        "sha": digest(body.as_bytes())});
    let mut builder = Message::builder()
        .topic(text(c, "topic"))
        .key(key)
        .body_slice(body.as_bytes());
    if !tags.is_empty() {
        builder = builder.tags(tags);
    }
    if number(c, "delay_level") > 0 {
        builder = builder.delay_level(number(c, "delay_level") as i32);
    }
    Ok((builder.build()?, about))
}

fn report(about: &Value, error: Option<String>) {
    match error {
        None => say(about.clone()),
        Some(why) => say(json!({"ev": "send_error", "key": about["key"], "mode": about["mode"], "error": why})),
    }
}

async fn send(c: &Value) -> Outcome {
    let producer = PRODUCER.get().ok_or("there is no producer")?;
    let count = number(c, "count");
    let mode = text(c, "mode");
    if mode == "batch" {
        let made: Vec<_> = (0..count).map(|i| build(c, i)).collect::<Result<_, _>>()?;
        let error = producer
            .send_batch(made.iter().map(|(m, _)| m.clone()).collect())
            .await
            .err()
            .map(|e| e.to_string());
        made.iter().for_each(|(_, about)| report(about, error.clone()));
        return Ok(());
    }
    let (told, mut ends) = tokio::sync::mpsc::unbounded_channel();
    let mut flying = 0;
    for i in 0..count {
        let (message, about) = build(c, i)?;
        match mode.as_str() {
            "async" => {
                let (told, when_done) = (told.clone(), about.clone());
                let started = producer
                    .send_with_callback(message, move |_, error| {
                        report(&when_done, error.map(|e| e.to_string()));
                        let _ = told.send(());
                    })
                    .await;
                match started {
                    Ok(()) => flying += 1,
                    Err(e) => report(&about, Some(e.to_string())),
                }
            }
            "oneway" => report(&about, producer.send_oneway(message).await.err().map(|e| e.to_string())),
            "orderly" => {
                let sent = producer.send_with_selector(
                    message,
                    |queues, _, order: &usize| Some(queues[order % queues.len()].clone()),
                    i % 3,
                );
                report(&about, sent.await.err().map(|e| e.to_string()));
            }
            _ => report(&about, producer.send(message).await.err().map(|e| e.to_string())),
        }
    }
    for _ in 0..flying {
        tokio::time::timeout(Duration::from_secs(30), ends.recv()).await?;
    }
    Ok(())
}

// ---- receiving

fn got(name: &str, m: &MessageExt) {
    let body = m.body().unwrap_or_default();
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |d| d.as_millis() as u64);
    say(
        json!({"ev": "msg", "consumer": name, "topic": m.topic().as_str(), "key": key(m), "size": body.len(),
        "tags": m.get_tags().map_or(String::new(), |t| t.to_string()), "sha": digest(&body), "q": m.queue_id(),
        "off": m.queue_offset(), "again": m.reconsume_times(), "record": m.store_size(), "born": m.born_timestamp(), "at": now}),
    );
}

fn key(m: &MessageExt) -> String {
    m.message_inner().keys().map_or(String::new(), |keys| keys.join(" "))
}

/// Prints what it is given; fails keys that begin with a prefix, the first `times` each.
struct Listener {
    name: String,
    prefix: String,
    times: usize,
    seen: Mutex<HashMap<String, usize>>,
}

impl Listener {
    fn new(c: &Value) -> Self {
        Self {
            name: text(c, "name"),
            prefix: text(c, "fail_prefix"),
            times: number(c, "fail_times"),
            seen: Mutex::default(),
        }
    }

    fn fails(&self, messages: &[&MessageExt]) -> bool {
        let mut fails = false;
        for m in messages {
            got(&self.name, m);
            if !self.prefix.is_empty() && key(m).starts_with(&self.prefix) {
                let mut seen = self.seen.lock().expect("nobody panics with it");
                let times = seen.entry(key(m)).or_default();
                *times += 1;
                fails |= *times <= self.times;
            }
        }
        fails
    }
}

impl MessageListenerConcurrently for Listener {
    fn consume_message(
        &self,
        messages: &[&MessageExt],
        _: &ConsumeConcurrentlyContext,
    ) -> ClientResult<ConsumeConcurrentlyStatus> {
        Ok(if self.fails(messages) {
            ConsumeConcurrentlyStatus::ReconsumeLater
        } else {
            ConsumeConcurrentlyStatus::ConsumeSuccess
        })
    }
}

impl MessageListenerOrderly for Listener {
    fn consume_message(
        &self,
        messages: &[&MessageExt],
        _: &mut ConsumeOrderlyContext,
    ) -> ClientResult<ConsumeOrderlyStatus> {
        Ok(if self.fails(messages) {
            ConsumeOrderlyStatus::SuspendCurrentQueueAMoment
        } else {
            ConsumeOrderlyStatus::Success
        })
    }
}

fn topics(c: &Value) -> Vec<(String, String)> {
    let table = c["topics"].as_object().into_iter().flatten();
    table
        .map(|(topic, tags)| (topic.clone(), tags.as_str().unwrap_or("*").to_string()))
        .collect()
}

async fn push(runtime: Arc<ClientRuntime>, c: &Value) -> Outcome {
    let mut consumer = DefaultMQPushConsumer::builder(runtime)
        .client_config(config(c))
        .consumer_group(text(c, "group"))
        .name_server_addr(text(c, "namesrv"))
        .consume_from_where(ConsumeFromWhere::ConsumeFromFirstOffset)
        .build();
    for (topic, tags) in topics(c) {
        consumer.subscribe(&topic, &tags).await?;
    }
    if c["kind"] == "orderly" {
        consumer.register_message_listener_orderly(Listener::new(c));
    } else {
        consumer.register_message_listener_concurrently(Listener::new(c));
    }
    consumer.start().await?;
    KEPT.lock().expect("nobody panics with it").push(consumer);
    Ok(())
}

async fn pull(runtime: Arc<ClientRuntime>, c: &Value) -> Outcome {
    let name = text(c, "name");
    let consumer = DefaultLitePullConsumer::builder(runtime)
        .consumer_group(text(c, "group"))
        .name_server_addr(text(c, "namesrv"))
        .instance_name(format!("{name}-{}", std::process::id()))
        .consume_from_where(ConsumeFromWhere::ConsumeFromFirstOffset)
        .build()?;
    for (topic, tags) in topics(c) {
        consumer.subscribe_with_expression(&topic, &tags).await?;
    }
    consumer.start().await?;
    tokio::spawn(async move {
        loop {
            for m in consumer.poll_with_timeout(500).await {
                got(&name, &m);
            }
        }
    });
    Ok(())
}

async fn run(runtime: Arc<ClientRuntime>, c: &Value) -> Outcome {
    match c["op"].as_str().unwrap_or_default() {
        "producer" => start_producer(runtime, c).await,
        "send" => send(c).await,
        "consume" if c["kind"] == "pull" => pull(runtime, c).await,
        "consume" => push(runtime, c).await,
        other => Err(format!("no such op: {other}").into()),
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let owner = RuntimeOwner::new()?;
    let telemetry = rocketmq_observability::TelemetryRuntimeGuard::noop();
    let runtime = ClientRuntime::try_new(
        owner.root_context().component("interop"),
        ClientRuntimeConfig::default(),
        telemetry.handle(),
    )?;
    let (lines, mut commands) = tokio::sync::mpsc::unbounded_channel::<String>();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            let _ = lines.send(line);
        }
        std::process::exit(0);
    });
    say(json!({"ev": "ready"}));
    owner.block_on(async {
        while let Some(line) = commands.recv().await {
            let runtime = runtime.clone();
            tokio::spawn(async move {
                let c: Value = serde_json::from_str(&line).expect("a command is JSON");
                match run(runtime, &c).await {
                    Ok(()) => say(json!({"re": c["id"]})),
                    Err(e) => say(json!({"re": c["id"], "error": e.to_string()})),
                }
            });
        }
    });
    Ok(())
}
