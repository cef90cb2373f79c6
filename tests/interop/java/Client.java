import com.alibaba.fastjson2.JSON;
import com.alibaba.fastjson2.JSONArray;
import com.alibaba.fastjson2.JSONObject;
import java.io.BufferedOutputStream;
import java.io.BufferedReader;
import java.io.FileOutputStream;
import java.io.FileDescriptor;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Executors;
import java.util.concurrent.Semaphore;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.QueryResult;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageQueueListener;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.impl.factory.MQClientInstance;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.common.compression.CompressionType;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageClientIDSetter;
import org.apache.rocketmq.common.message.MessageConst;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.protocol.heartbeat.MessageModel;

/**
 * The official Java client, driven from outside: one JSON command a line on stdin ({"id":1,"op":"send",...}), one JSON
 * object a line on stdout: an answer ({"re":1,...} or {"re":1,"error":...}) or an event ({"ev":"sent"|"msg"|"queues",...}).
 * Every command runs on its own thread, so a long send and a stop can overlap. See harness/clients.py for the commands.
 */
public final class Client {
    static final PrintStream OUT = new PrintStream(new BufferedOutputStream(new FileOutputStream(FileDescriptor.out), 1 << 16), false,
        StandardCharsets.UTF_8);
    static final Map<String, DefaultMQProducer> PRODUCERS = new ConcurrentHashMap<>();
    static final Map<String, Runnable> CONSUMERS = new ConcurrentHashMap<>();
    static final Map<String, Boolean> STOPPED = new ConcurrentHashMap<>();

    static void say(JSONObject o, boolean flush) {
        String line = o.toString();
        synchronized (OUT) {
            OUT.println(line);
            if (flush) {
                OUT.flush();
            }
        }
    }

    static String hex(byte[] b) {
        StringBuilder s = new StringBuilder(b.length * 2);
        for (byte x : b) {
            s.append(Character.forDigit((x >> 4) & 15, 16)).append(Character.forDigit(x & 15, 16));
        }
        return s.toString();
    }

    static String digest(byte[] body) throws Exception {
        return body == null ? null : hex(MessageDigest.getInstance("SHA-1").digest(body));
    }

    static JSONObject error(Throwable e) {
        Throwable t = e;
        while (t.getCause() != null && t.getCause() != t) {
            t = t.getCause();
        }
        JSONObject o = new JSONObject();
        o.put("error", t.getClass().getSimpleName() + ": " + t.getMessage());
        if (e instanceof MQBrokerException) {
            o.put("code", ((MQBrokerException) e).getResponseCode());
        } else if (e instanceof MQClientException) {
            o.put("code", ((MQClientException) e).getResponseCode());
        }
        return o;
    }

    // ---- what a message is -------------------------------------------------------------------------------------

    /** Message number i of a run: everything follows from (prefix, seed, i), so two runs send the same bytes. */
    static Message build(JSONObject q, int i) {
        Random r = new Random(q.getLongValue("seed") * 1_000_003L + i);
        int min = q.getIntValue("min_size", 1);
        int max = q.getIntValue("max_size", 256);
        byte[] body = new byte[min + (max > min ? r.nextInt(max - min + 1) : 0)];
        if (q.getBooleanValue("text")) {
            for (int k = 0; k < body.length; k++) {
                body[k] = (byte) ('a' + (i + k) % 26);
            }
        } else {
            r.nextBytes(body);
        }
        String key = q.getString("prefix") + "-" + i;
        JSONArray tags = q.getJSONArray("tags");
        Message m = new Message(q.getString("topic"), tags == null ? null : tags.getString(i % tags.size()), key, body);
        m.setFlag(q.getIntValue("flag", 0));
        JSONObject props = q.getJSONObject("props");
        if (props != null) {
            for (String name : props.keySet()) {
                m.putUserProperty(name, props.getString(name) + "-" + i);
            }
        }
        if (q.containsKey("delay_level")) {
            m.setDelayTimeLevel(q.getIntValue("delay_level"));
        }
        if (q.getBooleanValue("fixed_ids")) {
            // the id holds time, pid and a counter; fixed, two brokers are given the same bytes
            MessageAccessor.putProperty(m, MessageConst.PROPERTY_UNIQ_CLIENT_MESSAGE_ID_KEYIDX, String.format("%032X", q.getLongValue("seed") * 1_000_000L + i));
        }
        return m;
    }

    static JSONObject describe(Message m) throws Exception {
        JSONObject o = new JSONObject();
        o.put("topic", m.getTopic());
        o.put("key", m.getKeys());
        o.put("tags", m.getTags());
        o.put("flag", m.getFlag());
        o.put("size", m.getBody() == null ? -1 : m.getBody().length);
        o.put("sha", digest(m.getBody()));
        Map<String, String> user = new TreeMap<>();
        for (Map.Entry<String, String> e : m.getProperties().entrySet()) {
            if (!MessageConst.STRING_HASH_SET.contains(e.getKey())) {
                user.put(e.getKey(), e.getValue());
            }
        }
        o.put("props", user);
        return o;
    }

    static JSONObject describe(MessageExt m) throws Exception {
        JSONObject o = describe((Message) m);
        o.put("id", m.getMsgId());
        o.put("q", m.getQueueId());
        o.put("off", m.getQueueOffset());
        o.put("phy", m.getCommitLogOffset());
        o.put("again", m.getReconsumeTimes());
        o.put("born", m.getBornTimestamp());
        o.put("stored", m.getStoreTimestamp());
        o.put("born_host", String.valueOf(m.getBornHost()));
        o.put("store_host", String.valueOf(m.getStoreHost()));
        o.put("sys", m.getSysFlag());
        o.put("record", m.getStoreSize());
        o.put("all", new TreeMap<>(m.getProperties()));
        return o;
    }

    // ---- producers ---------------------------------------------------------------------------------------------

    /** Ends each transaction as its send says, or leaves it open; a broker that asks again learns nothing. */
    static DefaultMQProducer transactional(String group) {
        TransactionMQProducer p = new TransactionMQProducer(group);
        p.setTransactionListener(new TransactionListener() {
            @Override
            public LocalTransactionState executeLocalTransaction(Message m, Object outcome) {
                return (LocalTransactionState) outcome;
            }

            @Override
            public LocalTransactionState checkLocalTransaction(MessageExt m) {
                return LocalTransactionState.UNKNOW;
            }
        });
        return p;
    }

    /** Signs as the user of -Drocketha.user=NAME:PASSWORD; null without it. */
    static org.apache.rocketmq.remoting.RPCHook hook() {
        String user = System.getProperty("rocketha.user");
        if (user == null) {
            return null;
        }
        String[] words = user.split(":", 2);
        return new org.apache.rocketmq.acl.common.AclClientRPCHook(new org.apache.rocketmq.acl.common.SessionCredentials(words[0], words[1]));
    }

    static JSONObject producer(JSONObject q) throws Exception {
        String group = q.getString("group");
        DefaultMQProducer p = q.getBooleanValue("transactional") ? transactional(group) : new DefaultMQProducer(group, hook());
        p.setNamesrvAddr(q.getString("namesrv"));
        p.setInstanceName(q.getString("name") + "-" + ProcessHandle.current().pid());
        p.setSendMsgTimeout(q.getIntValue("timeout_ms", 10000));
        p.setRetryTimesWhenSendFailed(q.getIntValue("retries", 0));
        p.setRetryTimesWhenSendAsyncFailed(q.getIntValue("retries", 0));
        p.setDefaultTopicQueueNums(q.getIntValue("queues", 4));
        p.setCompressMsgBodyOverHowmuch(q.getIntValue("compress_over", Integer.MAX_VALUE));
        if (q.containsKey("compress_type")) {
            p.setCompressType(CompressionType.of(q.getString("compress_type")));
        }
        p.setMaxMessageSize(q.getIntValue("max_message_size", 4 << 20));
        p.setPollNameServerInterval(q.getIntValue("poll_namesrv_ms", 1000));
        p.setSendMessageWithVIPChannel(q.getBooleanValue("vip"));
        p.start();
        PRODUCERS.put(q.getString("name"), p);
        return new JSONObject();
    }

    static void sent(JSONObject q, int i, Message m, SendResult r, int at) throws Exception {
        JSONObject o = describe(m);
        o.put("ev", "sent");
        o.put("producer", q.getString("producer"));
        o.put("mode", q.getString("mode"));
        o.put("i", i);
        o.put("id", MessageClientIDSetter.getUniqID(m));
        if (r != null) {
            o.put("status", r.getSendStatus().name());
            o.put("q", r.getMessageQueue().getQueueId());
            o.put("broker", r.getMessageQueue().getBrokerName());
            o.put("off", r.getQueueOffset() + at);
            String[] offset = r.getOffsetMsgId() == null ? new String[0] : r.getOffsetMsgId().split(",");
            String[] ids = r.getMsgId() == null ? new String[0] : r.getMsgId().split(",");
            o.put("offset_id", at < offset.length ? offset[at] : null);
            o.put("result_id", at < ids.length ? ids[at] : null);
        }
        say(o, q.getBooleanValue("flush"));
    }

    static void failed(JSONObject q, int i, Throwable e, AtomicInteger errors) {
        errors.incrementAndGet();
        JSONObject o = error(e);
        o.put("ev", "send_error");
        o.put("producer", q.getString("producer"));
        o.put("mode", q.getString("mode"));
        o.put("i", i);
        o.put("key", q.getString("prefix") + "-" + i);
        say(o, true);
    }

    static JSONObject send(JSONObject q) throws Exception {
        DefaultMQProducer p = PRODUCERS.get(q.getString("producer"));
        String mode = q.getString("mode");
        int count = q.getIntValue("count", 1);
        int first = q.getIntValue("first", 0);
        int threads = q.getIntValue("threads", 1);
        int batch = mode.equals("batch") ? q.getIntValue("batch", 32) : 1;
        int pause = q.getIntValue("error_pause_ms", 0);
        String run = q.getString("run");          // a run that "stop_send" can end early
        if (run != null) {
            STOPPED.remove(run);
        }
        AtomicInteger next = new AtomicInteger(0);
        AtomicInteger errors = new AtomicInteger();
        AtomicInteger done = new AtomicInteger();
        Semaphore inflight = new Semaphore(q.getIntValue("inflight", 256));
        CountDownLatch ended = new CountDownLatch(threads);
        for (int t = 0; t < threads; t++) {
            new Thread(() -> {
                try {
                    while (run == null || !STOPPED.containsKey(run)) {
                        int at = next.getAndAdd(batch);
                        if (at >= count) {
                            break;
                        }
                        int before = errors.get();
                        one(p, q, mode, first + at, Math.min(batch, count - at), inflight, errors, done);
                        if (pause > 0 && errors.get() > before) {
                            Thread.sleep(pause);    // no master just now, and nothing tells of the next one
                        }
                    }
                } catch (Exception e) {
                    failed(q, -1, e, errors);
                } finally {
                    ended.countDown();
                }
            }).start();
        }
        ended.await();
        if (mode.equals("async") && !inflight.tryAcquire(q.getIntValue("inflight", 256), 60, TimeUnit.SECONDS)) {
            throw new IllegalStateException("async callbacks missing after 60 s");
        }
        JSONObject a = new JSONObject();
        a.put("sent", done.get());
        a.put("errors", errors.get());
        return a;
    }

    static void one(DefaultMQProducer p, JSONObject q, String mode, int i, int n, Semaphore inflight, AtomicInteger errors, AtomicInteger done)
        throws Exception {
        Message m = n == 1 || !mode.equals("batch") ? build(q, i) : null;
        MessageQueue to = q.containsKey("queue") ? new MessageQueue(q.getString("topic"), q.getString("broker"), q.getIntValue("queue")) : null;
        try {
            switch (mode) {
                case "sync":
                    sent(q, i, m, to == null ? p.send(m) : p.send(m, to), 0);
                    break;
                case "transaction": {
                    LocalTransactionState outcome = LocalTransactionState.valueOf(q.getString("outcome"));
                    sent(q, i, m, ((TransactionMQProducer) p).sendMessageInTransaction(m, outcome), 0);
                    break;
                }
                case "oneway":
                    if (to == null) {
                        p.sendOneway(m);
                    } else {
                        p.sendOneway(m, to);
                    }
                    sent(q, i, m, null, 0);
                    break;
                case "orderly":
                    sent(q, i, m, p.send(m, (queues, x, order) -> queues.get((Integer) order % queues.size()), i % 3), 0);
                    break;
                case "batch": {
                    List<Message> ms = new ArrayList<>(n);
                    for (int k = 0; k < n; k++) {
                        ms.add(build(q, i + k));
                    }
                    SendResult r = to == null ? p.send(ms) : p.send(ms, to);
                    for (int k = 0; k < n; k++) {
                        sent(q, i + k, ms.get(k), r, k);
                    }
                    break;
                }
                case "async": {
                    inflight.acquire();
                    SendCallback back = new SendCallback() {
                        @Override
                        public void onSuccess(SendResult r) {
                            try {
                                sent(q, i, m, r, 0);
                                done.incrementAndGet();
                            } catch (Exception e) {
                                failed(q, i, e, errors);
                            } finally {
                                inflight.release();
                            }
                        }

                        @Override
                        public void onException(Throwable e) {
                            failed(q, i, e, errors);
                            inflight.release();
                        }
                    };
                    if (to == null) {
                        p.send(m, back);
                    } else {
                        p.send(m, to, back);
                    }
                    return;
                }
                default:
                    throw new IllegalArgumentException(mode);
            }
            done.addAndGet(n);
        } catch (Exception e) {
            if (mode.equals("async")) {
                inflight.release();
            }
            failed(q, i, e, errors);
        }
    }

    // ---- consumers ---------------------------------------------------------------------------------------------

    /** How a consumer treats a message: fail the keys that begin with "fail_prefix", the first "fail_times" times each. */
    static final class Policy {
        final String prefix;
        final int times;
        final Integer level;
        final int pauseMs;
        final Map<String, AtomicInteger> seen = new ConcurrentHashMap<>();

        Policy(JSONObject q) {
            prefix = q.getString("fail_prefix");
            times = q.getIntValue("fail_times", Integer.MAX_VALUE);
            level = q.getInteger("retry_level");
            pauseMs = q.getIntValue("consume_ms", 0);
        }

        boolean fails(MessageExt m) throws InterruptedException {
            if (pauseMs > 0) {
                Thread.sleep(pauseMs);     // a slow listener is what this option is for
            }
            return prefix != null && m.getKeys() != null && m.getKeys().startsWith(prefix)
                && seen.computeIfAbsent(m.getKeys(), k -> new AtomicInteger()).getAndIncrement() < times;
        }
    }

    static void got(String name, List<MessageExt> ms) {
        for (int i = 0; i < ms.size(); i++) {
            try {
                JSONObject o = describe(ms.get(i));
                o.put("ev", "msg");
                o.put("consumer", name);
                o.put("at", System.currentTimeMillis());
                o.put("thread", Thread.currentThread().getId());
                say(o, i == ms.size() - 1);
            } catch (Exception e) {
                say(error(e).fluentPut("ev", "broken").fluentPut("consumer", name), true);
            }
        }
    }

    static void queues(String name, String topic, Set<MessageQueue> mine) {
        List<String> ids = new ArrayList<>();
        for (MessageQueue q : mine) {
            ids.add(q.getBrokerName() + ":" + q.getQueueId());
        }
        ids.sort(null);
        say(new JSONObject().fluentPut("ev", "queues").fluentPut("consumer", name).fluentPut("topic", topic).fluentPut("queues", ids), true);
    }

    static JSONObject consume(JSONObject q) throws Exception {
        String name = q.getString("name");
        String kind = q.getString("kind");
        if (kind.equals("lite") || kind.equals("pull")) {
            return lite(q, name);
        }
        DefaultMQPushConsumer c = new DefaultMQPushConsumer(q.getString("group"), hook(), new org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely());
        c.setNamesrvAddr(q.getString("namesrv"));
        c.setInstanceName(name + "-" + ProcessHandle.current().pid());
        c.setConsumeFromWhere(q.getBooleanValue("from_last") ? ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET : ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        c.setMessageModel(kind.equals("broadcast") ? MessageModel.BROADCASTING : MessageModel.CLUSTERING);
        c.setConsumeThreadMin(q.getIntValue("threads", 4));
        c.setConsumeThreadMax(q.getIntValue("threads", 4));
        c.setPullBatchSize(q.getIntValue("pull_batch", 32));
        c.setConsumeMessageBatchMaxSize(q.getIntValue("consume_batch", 1));
        c.setPersistConsumerOffsetInterval(q.getIntValue("persist_ms", 1000));
        c.setPollNameServerInterval(q.getIntValue("poll_namesrv_ms", 1000));
        if (q.containsKey("heartbeat_ms")) {
            c.setHeartbeatBrokerInterval(q.getIntValue("heartbeat_ms"));
        }
        if (q.containsKey("max_reconsume")) {
            c.setMaxReconsumeTimes(q.getIntValue("max_reconsume"));
        }
        JSONObject topics = q.getJSONObject("topics");       // topic -> tag expression, or SQL92
        for (String t : topics.keySet()) {
            if (q.getBooleanValue("sql")) {
                c.subscribe(t, MessageSelector.bySql(topics.getString(t)));
            } else {
                c.subscribe(t, topics.getString(t));
            }
        }
        Policy policy = new Policy(q);
        if (kind.equals("orderly")) {
            c.registerMessageListener((MessageListenerOrderly) (ms, ctx) -> {
                got(name, ms);
                try {
                    boolean fail = false;
                    for (MessageExt m : ms) {
                        fail |= policy.fails(m);
                    }
                    ctx.setSuspendCurrentQueueTimeMillis(100);
                    return fail ? ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT : ConsumeOrderlyStatus.SUCCESS;
                } catch (InterruptedException e) {
                    return ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT;
                }
            });
        } else {
            c.registerMessageListener((MessageListenerConcurrently) (ms, ctx) -> {
                got(name, ms);
                try {
                    boolean fail = false;
                    for (MessageExt m : ms) {
                        fail |= policy.fails(m);
                    }
                    if (policy.level != null) {
                        ctx.setDelayLevelWhenNextConsume(policy.level);
                    }
                    return fail ? ConsumeConcurrentlyStatus.RECONSUME_LATER : ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
                } catch (InterruptedException e) {
                    return ConsumeConcurrentlyStatus.RECONSUME_LATER;
                }
            });
        }
        MessageQueueListener listener = (topic, all, mine) -> queues(name, topic, mine);
        c.setMessageQueueListener(listener);
        // Without it shutdown() saves the offsets before the listener has returned from what it was just given.
        c.setAwaitTerminationMillisWhenShutdown(10_000);
        c.start();
        CONSUMERS.put(name, c::shutdown);
        return new JSONObject();
    }

    static JSONObject lite(JSONObject q, String name) throws Exception {
        DefaultLitePullConsumer c = new DefaultLitePullConsumer(q.getString("group"));
        c.setNamesrvAddr(q.getString("namesrv"));
        c.setInstanceName(name + "-" + ProcessHandle.current().pid());
        c.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        c.setPullBatchSize(q.getIntValue("pull_batch", 32));
        c.setAutoCommit(true);
        c.setAutoCommitIntervalMillis(1000);
        c.setPollNameServerInterval(q.getIntValue("poll_namesrv_ms", 1000));
        if (q.containsKey("heartbeat_ms")) {
            c.setHeartbeatBrokerInterval(q.getIntValue("heartbeat_ms"));
        }
        JSONObject topics = q.getJSONObject("topics");
        for (String t : topics.keySet()) {
            c.subscribe(t, topics.getString(t));
        }
        c.start();
        AtomicInteger live = new AtomicInteger(1);
        CountDownLatch ended = new CountDownLatch(1);
        Thread reader = new Thread(() -> {
            while (live.get() == 1) {
                got(name, c.poll(500));
            }
            ended.countDown();
        });
        reader.start();
        CONSUMERS.put(name, () -> {
            live.set(0);
            try {
                ended.await(10, TimeUnit.SECONDS);
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
            c.shutdown();
        });
        return new JSONObject();
    }

    /**
     * What a consumer of a group asks of the broker when a message failed (CONSUMER_SEND_MSG_BACK). Without a consumer: today's
     * refuse to start with group names of more than 120 characters, which those up to 5.3 took.
     */
    static JSONObject sendBack(JSONObject q) throws Exception {
        MQClientInstance client = PRODUCERS.get(q.getString("producer")).getDefaultMQProducerImpl().getMqClientFactory();
        String broker = q.getString("broker");
        MessageExt m = new MessageExt();
        m.setTopic(q.getString("topic"));
        m.setMsgId(q.getString("offset_id"));
        m.setCommitLogOffset(MessageDecoder.decodeMessageId(m.getMsgId()).getOffset());
        client.getMQClientAPIImpl().consumerSendMessageBack(client.findBrokerAddressInPublish(broker), broker, m, q.getString("group"),
            q.getIntValue("delay_level"), 10_000, 16);
        return new JSONObject();
    }

    // ---- questions ---------------------------------------------------------------------------------------------

    static JSONObject ask(JSONObject q) throws Exception {
        DefaultMQProducer p = PRODUCERS.get(q.getString("producer"));
        String topic = q.getString("topic");
        MessageQueue mq = new MessageQueue(topic, q.getString("broker"), q.getIntValue("queue", 0));
        JSONObject a = new JSONObject();
        switch (q.getString("what")) {
            case "view":
                a.put("message", describe(p.viewMessage(topic, q.getString("msg_id"))));
                break;
            case "query": {
                QueryResult r = p.queryMessage(topic, q.getString("key"), q.getIntValue("max", 32), q.getLongValue("begin", 0), q.getLongValue("end", Long.MAX_VALUE));
                List<JSONObject> ms = new ArrayList<>();
                for (MessageExt m : r.getMessageList()) {
                    ms.add(describe(m));
                }
                a.put("messages", ms);
                break;
            }
            case "queues": {
                List<Integer> ids = new ArrayList<>();
                for (MessageQueue x : p.fetchPublishMessageQueues(topic)) {
                    ids.add(x.getQueueId());
                }
                a.put("queues", ids);
                break;
            }
            case "max":
                a.put("offset", p.maxOffset(mq));
                break;
            case "min":
                a.put("offset", p.minOffset(mq));
                break;
            case "search":
                a.put("offset", p.searchOffset(mq, q.getLongValue("time")));
                break;
            case "earliest":
                a.put("time", p.earliestMsgStoreTime(mq));
                break;
            default:
                throw new IllegalArgumentException(q.getString("what"));
        }
        return a;
    }

    static JSONObject run(JSONObject q) throws Exception {
        switch (q.getString("op")) {
            case "producer":
                return producer(q);
            case "send":
                return send(q);
            case "stop_send":
                STOPPED.put(q.getString("run"), true);
                return new JSONObject();
            case "stop_producer":
                PRODUCERS.remove(q.getString("name")).shutdown();
                return new JSONObject();
            case "consume":
                return consume(q);
            case "stop_consumer":
                CONSUMERS.remove(q.getString("name")).run();
                return new JSONObject();
            case "send_back":
                return sendBack(q);
            case "ask":
                return ask(q);
            default:
                throw new IllegalArgumentException("unknown op " + q.getString("op"));
        }
    }

    public static void main(String[] argv) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        ExecutorService pool = Executors.newCachedThreadPool();
        say(new JSONObject().fluentPut("ev", "ready"), true);
        for (String line; (line = in.readLine()) != null; ) {
            JSONObject q = JSON.parseObject(line);
            pool.execute(() -> {
                JSONObject a;
                try {
                    a = run(q);
                } catch (Throwable e) {
                    a = error(e);
                }
                a.put("re", q.get("id"));
                say(a, true);
            });
        }
        Runtime.getRuntime().halt(0);      // stdin closed: whoever drove this is gone
    }
}
