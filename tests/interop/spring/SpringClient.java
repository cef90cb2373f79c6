package interop;

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
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.spring.annotation.ConsumeMode;
import org.apache.rocketmq.spring.annotation.RocketMQMessageListener;
import org.apache.rocketmq.spring.annotation.RocketMQTransactionListener;
import org.apache.rocketmq.spring.core.RocketMQListener;
import org.apache.rocketmq.spring.core.RocketMQLocalTransactionListener;
import org.apache.rocketmq.spring.core.RocketMQLocalTransactionState;
import org.apache.rocketmq.spring.core.RocketMQTemplate;
import org.apache.rocketmq.spring.support.RocketMQHeaders;
import org.springframework.beans.factory.annotation.Value;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.boot.autoconfigure.condition.ConditionalOnProperty;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.messaging.Message;
import org.springframework.messaging.support.MessageBuilder;
import org.springframework.stereotype.Component;

/**
 * A Spring Boot application on RocketMQ's starter, driven as ../java4/OldClient.java is: JSON lines in, JSON lines out. The
 * producer is one application, with RocketMQTemplate; each consumer is another, with an annotated listener.
 */
@SpringBootApplication
public class SpringClient {
    static final PrintStream OUT = System.out;
    static final Map<String, ConfigurableApplicationContext> CONSUMERS = new ConcurrentHashMap<>();
    static volatile RocketMQTemplate template;

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

    static ConfigurableApplicationContext application(JSONObject q, String... properties) {
        List<String> arguments = new ArrayList<>(List.of("--spring.main.banner-mode=off", "--spring.jmx.enabled=false",
            "--rocketmq.name-server=" + q.getString("namesrv")));
        for (String property : properties) {
            arguments.add("--" + property);
        }
        return new SpringApplication(SpringClient.class).run(arguments.toArray(new String[0]));
    }

    // ---- receiving

    abstract static class Listener implements RocketMQListener<MessageExt> {
        @Value("${interop.name}")
        String name;

        @Override
        public void onMessage(MessageExt m) {
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

    @Component
    @ConditionalOnProperty(name = "interop.kind", havingValue = "push")
    @RocketMQMessageListener(topic = "${interop.topic}", consumerGroup = "${interop.group}")
    static class Concurrently extends Listener {
    }

    @Component
    @ConditionalOnProperty(name = "interop.kind", havingValue = "orderly")
    @RocketMQMessageListener(topic = "${interop.topic}", consumerGroup = "${interop.group}", consumeMode = ConsumeMode.ORDERLY)
    static class Orderly extends Listener {
    }

    static void consume(JSONObject q) {
        String topic = q.getJSONObject("topics").keySet().iterator().next();
        CONSUMERS.put(q.getString("name"), application(q, "interop.kind=" + q.getString("kind"), "interop.topic=" + topic,
            "interop.group=" + q.getString("group"), "interop.name=" + q.getString("name")));
    }

    // ---- sending

    @RocketMQTransactionListener
    @ConditionalOnProperty(name = "interop.kind", havingValue = "producer")
    static class Transactions implements RocketMQLocalTransactionListener {
        @Override
        public RocketMQLocalTransactionState executeLocalTransaction(Message m, Object argument) {
            return RocketMQLocalTransactionState.COMMIT;
        }

        @Override
        public RocketMQLocalTransactionState checkLocalTransaction(Message m) {
            return RocketMQLocalTransactionState.COMMIT;
        }
    }

    static void startProducer(JSONObject q) {
        template = application(q, "interop.kind=producer", "rocketmq.producer.group=" + q.getString("group"),
            "rocketmq.producer.send-message-timeout=10000").getBean(RocketMQTemplate.class);
    }

    static SendResult one(JSONObject q, int i, String to, Message<byte[]> m) {
        switch (q.getString("mode")) {
            case "orderly":
                return template.syncSendOrderly(to, m, String.valueOf(i % 3));
            case "transaction":
                return template.sendMessageInTransaction(to, m, null);
            default:
                return template.syncSend(to, m, 10000, q.getIntValue("delay_level"));
        }
    }

    static void send(JSONObject q) throws Exception {
        JSONArray tags = q.getJSONArray("tags");
        for (int i = 0; i < q.getIntValue("count"); i++) {
            String key = q.getString("prefix") + "-" + i;
            String tag = tags == null ? "" : tags.getString(i % tags.size());
            byte[] body = (key + ";").repeat(q.getIntValue("min_size") / (key.length() + 1) + 1).getBytes(StandardCharsets.UTF_8);
            Message<byte[]> m = MessageBuilder.withPayload(body).setHeader(RocketMQHeaders.KEYS, key).build();
            Object why;
            try {
                why = one(q, i, tag.isEmpty() ? q.getString("topic") : q.getString("topic") + ":" + tag, m).getSendStatus();
            } catch (Exception e) {
                Throwable cause = e;
                while (cause.getCause() != null) {
                    cause = cause.getCause();
                }
                why = cause;
            }
            JSONObject said = event(why == SendStatus.SEND_OK ? "sent" : "send_error").fluentPut("key", key)
                .fluentPut("mode", q.getString("mode")).fluentPut("topic", q.getString("topic")).fluentPut("tags", tag)
                .fluentPut("size", body.length).fluentPut("sha", digest(body));
            say(why == SendStatus.SEND_OK ? said : said.fluentPut("error", String.valueOf(why)));
        }
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
                consume(q);
                break;
            case "stop_consumer":
                CONSUMERS.remove(q.getString("name")).close();
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
