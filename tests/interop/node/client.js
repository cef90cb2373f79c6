'use strict';
// The Node client, driven from outside: one JSON command a line on stdin, one JSON object a line on stdout, an answer
// ({"re":1} or {"re":1,"error":...}) or an event ({"ev":"sent"|"send_error"|"msg",...}). The commands are those of
// ../harness/foreign.py.

const crypto = require('crypto');
const fs = require('fs');
const readline = require('readline');
const { Consumer, Message, Producer } = require('ali-ons');

const log = fs.createWriteStream('client.log');
const line = level => (...args) => log.write(`${new Date().toISOString()} ${level} ${require('util').format(...args)}\n`);
const logger = { debug: line('DEBUG'), info: line('INFO'), warn: line('WARN'), error: line('ERROR') };
const stops = new Map();
let producer;

const say = event => process.stdout.write(JSON.stringify(event) + '\n');
const digest = body => crypto.createHash('sha1').update(body).digest('hex');

// httpclient would ask a web server for the nameservers; it is wanted even where nameSrv says them.
function options(c) {
  const [accessKeyId, accessKeySecret] = (process.env.ROCKETHA_USER || '').split(':');
  const who = accessKeyId ? { accessKeyId, accessKeySecret } : {};
  return { httpclient: {}, nameSrv: [c.namesrv], logger, clientIP: '127.0.0.1', instanceName: `${c.name}-${process.pid}`, ...who };
}

// ---- sending

function build(c, i) {
  const key = `${c.prefix}-${i}`;
  const m = new Message(c.topic, c.tags ? c.tags[i % c.tags.length] : '', `${key};`.repeat((c.min_size || 0) / (key.length + 1) + 1));
  m.keys = [key];
  if (c.delay_level) m.delayTimeLevel = c.delay_level;
  // Of the keys 2, 3 and 4 none falls on queue 0: the client takes that one for no queue at all.
  if (c.mode === 'orderly') m.shardingKey = String(2 + i % 3);
  return m;
}

async function one(c, i) {
  const m = build(c, i);
  const about = { key: `${c.prefix}-${i}`, mode: c.mode, topic: c.topic, tags: m.tags, size: m.body.length, sha: digest(m.body) };
  try {
    const result = await producer.send(m);
    if (result.sendStatus !== 'SEND_OK') throw new Error(result.sendStatus);
    say({ ev: 'sent', ...about });
  } catch (error) {
    say({ ev: 'send_error', key: about.key, mode: c.mode, error: String(error) });
  }
}

async function send(c) {
  const numbers = [...Array(c.count).keys()];
  if (c.mode === 'async') await Promise.all(numbers.map(i => one(c, i)));
  else for (const i of numbers) await one(c, i);
}

// ---- receiving

async function consume(c) {
  const consumer = new Consumer({ ...options(c), consumerGroup: c.group, consumeFromWhere: 'CONSUME_FROM_FIRST_OFFSET' });
  consumer.on('error', error => logger.error(error));
  const seen = new Map();
  const fails = key => {
    const times = seen.get(key) || 0;
    seen.set(key, times + 1);
    return c.fail_prefix && key.startsWith(c.fail_prefix) && times < c.fail_times;
  };
  for (const [topic, tags] of Object.entries(c.topics)) {
    consumer.subscribe(topic, tags, async m => {
      say({
        ev: 'msg', consumer: c.name, topic: m.topic, key: m.keys, tags: m.tags || '', size: m.body.length, sha: digest(m.body),
        q: m.queueId, off: Number(m.queueOffset), again: m.reconsumeTimes, record: m.storeSize, born: Number(m.bornTimestamp),
        at: Date.now(),
      });
      return fails(m.keys) ? Consumer.ACTION_RETRY : undefined;
    });
  }
  await consumer.ready();
  stops.set(c.name, () => consumer.close());
}

async function run(c) {
  switch (c.op) {
    case 'producer':
      producer = new Producer({ ...options(c), producerGroup: c.group });
      producer.on('error', error => logger.error(error));
      return producer.ready();
    case 'send':
      return send(c);
    case 'consume':
      return consume(c);
    case 'stop_consumer':
      return stops.get(c.name)();
    default:
      throw new Error(`no such op: ${c.op}`);
  }
}

process.on('unhandledRejection', error => logger.error(error));
say({ ev: 'ready' });
readline.createInterface({ input: process.stdin })
  .on('line', text => {
    const c = JSON.parse(text);
    run(c).then(() => say({ re: c.id }), error => say({ re: c.id, error: String(error) }));
  })
  .on('close', () => process.exit(0));
