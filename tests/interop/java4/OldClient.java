import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.JSONArray;
import com.alibaba.fastjson.JSONObject;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * The Java client of the 4.x line, driven from outside: one JSON command a line on stdin, one JSON object a line on stdout,
 * an answer ({"re":1} or {"re":1,"error":...}) or an event ({"ev":"sent"|"send_error"|"msg",...}). The commands are those
 * of ../harness/foreign.py.
 */
public final class OldClient {
    static final PrintStream OUT = System.out;
    static final Map<String, Runnable> CONSUMERS = new ConcurrentHashMap<>();
    static volatile DefaultMQProducer producer;

    static void say(JSONObject o) {
        String line = o.toJSONString();
        synchronized (OUT) {
            OUT.println(line);
            OUT.flush();
        }
    }

    static JSONObject event(String kind) {
        return new JSONObject().fluentPut("ev", kind);
    }

    static String digest(byte[] body) throws Exception {
        StringBuilder s = new StringBuilder();
        for (byte x : MessageDigest.getInstance("SHA-1").digest(body)) {
            s.append(Character.forDigit((x >> 4) & 15, 16)).append(Character.forDigit(x & 15, 16));
        }
        return s.toString();
    }

    static String pid() {
        return String.valueOf(ProcessHandle.current().pid());
    }

    // ---- sending -----------------------------------------------------------------------------------------------

    /** Commits each. */
    static DefaultMQProducer transactional(String group) {
        TransactionMQProducer p = new TransactionMQProducer(group);
        p.setTransactionListener(new TransactionListener() {
            @Override
            public LocalTransactionState executeLocalTransaction(Message m, Object argument) {
                return LocalTransactionState.COMMIT_MESSAGE;
            }

            @Override
            public LocalTransactionState checkLocalTransaction(MessageExt m) {
                return LocalTransactionState.COMMIT_MESSAGE;
            }
        });
        return p;
    }

    static void startProducer(JSONObject q) throws Exception {
        DefaultMQProducer p = transactional(q.getString("group"));
        p.setNamesrvAddr(q.getString("namesrv"));
        p.setInstanceName(q.getString("name") + "-" + pid());
        p.setSendMsgTimeout(10000);
        p.start();
        producer = p;
    }

    static Message build(JSONObject q, int i) {
        String key = q.getString("prefix") + "-" + i;
        String body = (key + ";").repeat(q.getIntValue("min_size") / (key.length() + 1) + 1);
        JSONArray tags = q.getJSONArray("tags");
        Message m = new Message(q.getString("topic"), tags == null ? "" : tags.getString(i % tags.size()), key,
            body.getBytes(StandardCharsets.UTF_8));
        if (q.getIntValue("delay_level") > 0) {
            m.setDelayTimeLevel(q.getIntValue("delay_level"));
        }
        return m;
    }

    static JSONObject about(JSONObject q, String kind, Message m) {
        return event(kind).fluentPut("key", m.getKeys()).fluentPut("mode", q.getString("mode"));
    }

    /** The client puts a compressed body into the message while it sends: what was sent is described before. */
    static JSONObject describe(JSONObject q, Message m) throws Exception {
        return about(q, "sent", m).fluentPut("topic", m.getTopic()).fluentPut("tags", m.getTags() == null ? "" : m.getTags())
            .fluentPut("size", m.getBody().length).fluentPut("sha", digest(m.getBody()));
    }

    static void failed(JSONObject q, Message m, Object why) {
        say(about(q, "send_error", m).fluentPut("error", String.valueOf(why)));
    }

    static void result(JSONObject q, Message m, JSONObject sent, SendResult r) {
        if (r.getSendStatus() == SendStatus.SEND_OK) {
            say(sent);
        } else {
            failed(q, m, r.getSendStatus());
        }
    }

    static void async(JSONObject q, Message m, CountDownLatch flying) throws Exception {
        JSONObject sent = describe(q, m);
        producer.send(m, new SendCallback() {
            @Override
            public void onSuccess(SendResult r) {
                result(q, m, sent, r);
                flying.countDown();
            }

            @Override
            public void onException(Throwable e) {
                failed(q, m, e);
                flying.countDown();
            }
        });
    }

    static void one(JSONObject q, int i) throws Exception {
        Message m = build(q, i);
        JSONObject sent = describe(q, m);
        try {
            if (q.getString("mode").equals("oneway")) {
                producer.sendOneway(m);
                say(sent);
            } else if (q.getString("mode").equals("orderly")) {
                result(q, m, sent, producer.send(m, (queues, x, order) -> queues.get((Integer) order % queues.size()), i % 3));
            } else if (q.getString("mode").equals("transaction")) {
                result(q, m, sent, producer.sendMessageInTransaction(m, null));
            } else {
                result(q, m, sent, producer.send(m));
            }
        } catch (Exception e) {
            failed(q, m, e.getCause() == null ? e : e.getCause());
        }
    }

    static void batch(JSONObject q, int count) throws Exception {
        List<Message> ms = new ArrayList<>();
        List<JSONObject> sent = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            ms.add(build(q, i));
            sent.add(describe(q, ms.get(i)));
        }
        try {
            SendResult r = producer.send(ms);
            for (int i = 0; i < count; i++) {
                result(q, ms.get(i), sent.get(i), r);
            }
        } catch (Exception e) {
            for (Message m : ms) {
                failed(q, m, e);
            }
        }
    }

    static void send(JSONObject q) throws Exception {
        int count = q.getIntValue("count");
        switch (q.getString("mode")) {
            case "batch":
                batch(q, count);
                break;
            case "async": {
                CountDownLatch flying = new CountDownLatch(count);
                for (int i = 0; i < count; i++) {
                    async(q, build(q, i), flying);
                }
                flying.await(30, TimeUnit.SECONDS);
                break;
            }
            default:
                for (int i = 0; i < count; i++) {
                    one(q, i);
                }
        }
    }

    // ---- receiving ---------------------------------------------------------------------------------------------

    static void got(String name, List<MessageExt> ms) {
        for (MessageExt m : ms) {
            try {
                say(event("msg").fluentPut("consumer", name).fluentPut("topic", m.getTopic()).fluentPut("key", m.getKeys())
                    .fluentPut("tags", m.getTags() == null ? "" : m.getTags()).fluentPut("size", m.getBody().length)
                    .fluentPut("sha", digest(m.getBody())).fluentPut("q", m.getQueueId()).fluentPut("off", m.getQueueOffset())
                    .fluentPut("again", m.getReconsumeTimes()).fluentPut("record", m.getStoreSize())
                    .fluentPut("born", m.getBornTimestamp()).fluentPut("at", System.currentTimeMillis()));
            } catch (Exception e) {
                say(event("broken").fluentPut("consumer", name).fluentPut("error", String.valueOf(e)));
            }
        }
    }

    /** Whether one of these is to be handed back: keys that begin with "fail_prefix", the first "fail_times" times each. */
    static boolean fails(JSONObject q, Map<String, AtomicInteger> seen, List<MessageExt> ms) {
        String prefix = q.getString("fail_prefix");
        boolean fail = false;
        for (MessageExt m : ms) {
            fail |= prefix != null && m.getKeys().startsWith(prefix)
                && seen.computeIfAbsent(m.getKeys(), k -> new AtomicInteger()).getAndIncrement() < q.getIntValue("fail_times");
        }
        return fail;
    }

    static void push(JSONObject q, String name) throws Exception {
        DefaultMQPushConsumer c = new DefaultMQPushConsumer(q.getString("group"));
        c.setNamesrvAddr(q.getString("namesrv"));
        c.setInstanceName(name + "-" + pid());
        c.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        c.setConsumeThreadMin(4);
        c.setConsumeThreadMax(4);
        for (Map.Entry<String, Object> topic : q.getJSONObject("topics").entrySet()) {
            c.subscribe(topic.getKey(), (String) topic.getValue());
        }
        Map<String, AtomicInteger> seen = new ConcurrentHashMap<>();
        if (q.getString("kind").equals("orderly")) {
            c.registerMessageListener((MessageListenerOrderly) (ms, context) -> {
                got(name, ms);
                return fails(q, seen, ms) ? ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT : ConsumeOrderlyStatus.SUCCESS;
            });
        } else {
            c.registerMessageListener((MessageListenerConcurrently) (ms, context) -> {
                got(name, ms);
                context.setDelayLevelWhenNextConsume(q.getIntValue("retry_level"));
                return fails(q, seen, ms) ? ConsumeConcurrentlyStatus.RECONSUME_LATER : ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            });
        }
        c.start();
        CONSUMERS.put(name, c::shutdown);
    }

    static void pull(JSONObject q, String name) throws Exception {
        DefaultLitePullConsumer c = new DefaultLitePullConsumer(q.getString("group"));
        c.setNamesrvAddr(q.getString("namesrv"));
        c.setInstanceName(name + "-" + pid());
        c.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        for (Map.Entry<String, Object> topic : q.getJSONObject("topics").entrySet()) {
            c.subscribe(topic.getKey(), (String) topic.getValue());
        }
        c.start();
        CONSUMERS.put(name, c::shutdown);
        Thread reader = new Thread(() -> {
            while (c.isRunning()) {
                got(name, c.poll(500));
            }
        });
        reader.setDaemon(true);
        reader.start();
    }

    static void run(JSONObject q) throws Exception {
        switch (q.getString("op")) {
            case "producer":
                startProducer(q);
                break;
            case "send":
                send(q);
                break;
            case "consume":
                if (q.getString("kind").equals("pull")) {
                    pull(q, q.getString("name"));
                } else {
                    push(q, q.getString("name"));
                }
                break;
            case "stop_consumer":
                CONSUMERS.remove(q.getString("name")).run();
                break;
            default:
                throw new IllegalArgumentException("no such op: " + q.getString("op"));
        }
    }

    public static void main(String[] argv) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        ExecutorService pool = Executors.newCachedThreadPool();
        say(event("ready"));
        for (String line; (line = in.readLine()) != null; ) {
            JSONObject q = JSON.parseObject(line);
            pool.execute(() -> {
                JSONObject answer = new JSONObject().fluentPut("re", q.get("id"));
                try {
                    run(q);
                } catch (Throwable e) {
                    answer.put("error", String.valueOf(e));
                }
                say(answer);
            });
        }
        Runtime.getRuntime().halt(0);
    }
}
