import com.alibaba.fastjson2.JSON;
import com.alibaba.fastjson2.JSONObject;
import java.io.BufferedReader;
import java.io.BufferedWriter;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.PrintWriter;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicLongArray;
import java.util.concurrent.locks.LockSupport;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * Load on a group that switches masters, and what became of it, with the official client. JSON commands on stdin as for
 * Client.java; what happens goes into files, because it is much:
 *   load     acknowledged messages, one a line: time in ms, key, queue, queue offset, offset message id (which holds the
 *            address of the broker that stored it and the place in its log)
 *   consume  what a push consumer was given meanwhile: time in ms, key, queue, queue offset
 *   read     everything that the queues hold now, read by a pull consumer: key, queue, queue offset, place in the log
 */
public final class Load {
    static final PrintStream OUT = System.out;
    static final Map<String, Runnable> STOPS = new ConcurrentHashMap<>();

    static synchronized void say(JSONObject o) {
        OUT.println(o);
        OUT.flush();
    }

    static PrintWriter file(JSONObject q) throws Exception {
        return new PrintWriter(new BufferedWriter(Files.newBufferedWriter(Paths.get(q.getString("file")))), false);
    }

    // ---- sending

    static final class Senders {
        final DefaultMQProducer producer;
        final String topic;
        final String prefix;
        final PrintWriter acked;
        final byte[] body;
        final long intervalNs;
        final boolean waitStoreMsgOK;
        final Map<String, Integer> errors = new TreeMap<>();
        final AtomicLong count = new AtomicLong();
        final AtomicLongArray ended;  // of each thread: sends that were acknowledged, or failed
        final List<Thread> threads = new ArrayList<>();
        long lastMs;              // guarded by acked
        long longestGapMs;
        volatile boolean stop;

        Senders(JSONObject q) throws Exception {
            topic = q.getString("topic");
            prefix = q.getString("prefix");
            acked = file(q);
            body = new byte[q.getIntValue("size", 256)];
            new java.util.Random(prefix.hashCode()).nextBytes(body);
            waitStoreMsgOK = !q.getBooleanValue("no_wait");
            int n = q.getIntValue("threads", 8);
            ended = new AtomicLongArray(n);
            intervalNs = (long) (1e9 * n / q.getDoubleValue("rate"));
            producer = new DefaultMQProducer("load-producers", Client.hook());
            producer.setNamesrvAddr(q.getString("namesrv"));
            producer.setInstanceName(prefix);
            producer.setRetryTimesWhenSendFailed(q.getIntValue("retries", 0));
            producer.setCompressMsgBodyOverHowmuch(Integer.MAX_VALUE);
            producer.setSendMsgTimeout(q.getIntValue("timeout_ms", 3000));
            producer.setPollNameServerInterval(q.getIntValue("poll_namesrv_ms", 100));
            producer.start();
            for (int i = 0; i < n; i++) {
                int number = i;
                threads.add(new Thread(() -> send(number)));
            }
            threads.forEach(Thread::start);
        }

        void send(int number) {
            long due = System.nanoTime();
            for (long i = 0; !stop; i++) {
                due = Math.max(due + intervalNs, System.nanoTime() - intervalNs);
                long wait = due - System.nanoTime();
                if (wait > 0) {
                    LockSupport.parkNanos(wait);
                }
                String key = prefix + "-" + number + "-" + i;
                String why;
                ended.set(number, i);
                try {
                    Message m = new Message(topic, null, key, body);
                    m.setWaitStoreMsgOK(waitStoreMsgOK);
                    SendResult r = producer.send(m);
                    if (r.getSendStatus() == SendStatus.SEND_OK) {
                        done(key, r);
                        continue;
                    }
                    why = r.getSendStatus().name();
                } catch (MQBrokerException e) {
                    why = "code " + e.getResponseCode();
                } catch (Exception e) {
                    why = (e.getClass().getSimpleName() + ": " + e.getMessage()).replaceAll("[0-9]+", "#");
                    why = why.substring(0, Math.min(100, why.length())).split("\n")[0];
                }
                synchronized (errors) {
                    errors.merge(why, 1, Integer::sum);
                }
                LockSupport.parkNanos(20_000_000L);
            }
        }

        void done(String key, SendResult r) {
            synchronized (acked) {
                long now = System.currentTimeMillis();
                acked.println(now + "\t" + key + "\t" + r.getMessageQueue().getQueueId() + "\t" + r.getQueueOffset() + "\t" + r.getOffsetMsgId());
                if (lastMs != 0) {
                    longestGapMs = Math.max(longestGapMs, now - lastMs);
                }
                lastMs = now;
            }
            count.incrementAndGet();
        }

        JSONObject state(JSONObject q) {
            JSONObject o = new JSONObject();
            synchronized (acked) {
                acked.flush();
                o.fluentPut("count", count.get()).fluentPut("last_ms", lastMs).fluentPut("longest_gap_ms", longestGapMs);
                if (q.getBooleanValue("reset_gap")) {
                    longestGapMs = 0;
                }
            }
            synchronized (errors) {
                o.put("errors", new TreeMap<>(errors));
            }
            List<Long> each = new ArrayList<>();
            for (int i = 0; i < ended.length(); i++) {
                each.add(ended.get(i));
            }
            o.put("ended", each);
            return o;
        }

        JSONObject end() throws InterruptedException {
            stop = true;
            for (Thread t : threads) {
                t.join();
            }
            JSONObject o = state(new JSONObject());
            acked.close();
            producer.shutdown();
            return o;
        }
    }

    static final Map<String, Senders> SENDERS = new ConcurrentHashMap<>();

    // ---- consuming while it happens

    static void consume(JSONObject q) throws Exception {
        PrintWriter out = file(q);
        DefaultMQPushConsumer c = new DefaultMQPushConsumer(q.getString("group"), Client.hook());
        c.setNamesrvAddr(q.getString("namesrv"));
        c.setInstanceName(q.getString("group"));
        c.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        c.setPollNameServerInterval(q.getIntValue("poll_namesrv_ms", 100));
        c.setConsumeMessageBatchMaxSize(32);
        c.setConsumeThreadMin(2);
        c.setConsumeThreadMax(2);
        c.subscribe(q.getString("topic"), "*");
        c.registerMessageListener((MessageListenerConcurrently) (ms, ctx) -> {
            synchronized (out) {
                for (MessageExt m : ms) {
                    out.println(System.currentTimeMillis() + "\t" + m.getKeys() + "\t" + m.getQueueId() + "\t" + m.getQueueOffset());
                }
                out.flush();
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        c.start();
        STOPS.put(q.getString("group"), () -> {
            c.shutdown();
            synchronized (out) {
                out.close();
            }
        });
    }

    // ---- reading all, afterwards

    interface Question<T> {
        T ask() throws Exception;
    }

    /** Asks until it is answered: the route may have no master just now. */
    static <T> T again(long end, Question<T> question) throws Exception {
        while (true) {
            try {
                return question.ask();
            } catch (Exception e) {
                if (System.currentTimeMillis() > end) {
                    throw e;
                }
                LockSupport.parkNanos(50_000_000L);
            }
        }
    }

    static JSONObject read(JSONObject q) throws Exception {
        PrintWriter out = file(q);
        DefaultMQPullConsumer c = new DefaultMQPullConsumer(q.getString("group"), Client.hook());
        c.setNamesrvAddr(q.getString("namesrv"));
        c.setInstanceName(q.getString("group") + System.nanoTime());
        c.setPollNameServerInterval(100);
        c.start();
        long n = 0;
        long end = System.currentTimeMillis() + q.getLongValue("limit_ms", 120_000);
        try {
            for (MessageQueue mq : again(end, () -> c.fetchSubscribeMessageQueues(q.getString("topic")))) {
                long at = again(end, () -> c.minOffset(mq));
                long max = again(end, () -> c.maxOffset(mq));
                while (at < max) {
                    if (System.currentTimeMillis() > end) {
                        throw new IllegalStateException("not read in time: " + mq + " at " + at + " of " + max);
                    }
                    PullResult r;
                    try {
                        r = c.pull(mq, "*", at, 1024, 3000);
                    } catch (Exception e) {
                        LockSupport.parkNanos(50_000_000L);
                        continue;
                    }
                    if (r.getMsgFoundList() != null) {
                        for (MessageExt m : r.getMsgFoundList()) {
                            out.println(m.getKeys() + "\t" + m.getQueueId() + "\t" + m.getQueueOffset() + "\t" + m.getCommitLogOffset());
                            n++;
                        }
                    } else if (r.getNextBeginOffset() <= at) {
                        LockSupport.parkNanos(50_000_000L);
                    }
                    at = Math.max(at, r.getNextBeginOffset());
                }
            }
        } finally {
            out.close();
            c.shutdown();
        }
        return new JSONObject().fluentPut("count", n);
    }

    static JSONObject run(JSONObject q) throws Exception {
        switch (q.getString("op")) {
            case "load":
                SENDERS.put(q.getString("prefix"), new Senders(q));
                return new JSONObject();
            case "state":
                return SENDERS.get(q.getString("prefix")).state(q);
            case "stop":
                return SENDERS.remove(q.getString("prefix")).end();
            case "consume":
                consume(q);
                return new JSONObject();
            case "stop_consumer":
                STOPS.remove(q.getString("group")).run();
                return new JSONObject();
            case "read":
                return read(q);
            default:
                throw new IllegalArgumentException("unknown op " + q.getString("op"));
        }
    }

    public static void main(String[] argv) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        ExecutorService pool = Executors.newCachedThreadPool();
        say(new JSONObject().fluentPut("ev", "ready"));
        for (String line; (line = in.readLine()) != null; ) {
            JSONObject q = JSON.parseObject(line);
            pool.execute(() -> {
                JSONObject a;
                try {
                    a = run(q);
                } catch (Throwable e) {
                    a = new JSONObject().fluentPut("error", e.toString());
                }
                say(a.fluentPut("re", q.get("id")));
            });
        }
        Runtime.getRuntime().halt(0);      // stdin closed: whoever drove this is gone
    }
}
