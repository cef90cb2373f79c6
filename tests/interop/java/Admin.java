import com.alibaba.fastjson2.JSON;
import com.alibaba.fastjson2.JSONObject;
import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.stream.Collectors;
import org.apache.rocketmq.tools.command.MQAdminStartup;
import org.apache.rocketmq.tools.command.SubCommand;

/**
 * Runs unmodified mqadmin commands in one JVM (a JVM start costs more than a command): one JSON line {"id":1,"args":[...]} in,
 * one JSON line {"re":1,"out":"what it printed","ended":true} out. Commands that would end the process (bad usage) end this one as
 * well. With "limit_ms" a command that goes on for ever is interrupted then, and "ended" is false.
 * {"id":1,"names":true} is answered with the names of all commands.
 */
public final class Admin {
    public static void main(String[] argv) throws Exception {
        PrintStream out = System.out;
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        out.println("{\"ev\":\"ready\"}");
        out.flush();
        for (String line; (line = in.readLine()) != null; ) {
            JSONObject q = JSON.parseObject(line);
            JSONObject answer = new JSONObject().fluentPut("re", q.get("id"));
            if (q.getBooleanValue("names")) {
                answer.put("names", names());
            } else {
                run(q.getList("args", String.class).toArray(new String[0]), q.getLongValue("limit_ms"), answer);
            }
            out.println(answer);
            out.flush();
        }
        Runtime.getRuntime().halt(0);
    }

    private static void run(String[] args, long limitMs, JSONObject answer) throws InterruptedException {
        ByteArrayOutputStream said = new ByteArrayOutputStream();
        PrintStream to = new PrintStream(said, true, StandardCharsets.UTF_8);
        System.setOut(to);
        System.setErr(to);
        Thread command = new Thread(() -> {
            try {
                MQAdminStartup.main0(args, null);
            } catch (Throwable e) {
                e.printStackTrace(to);
            }
        }, "mqadmin");
        command.start();
        command.join(limitMs);
        boolean ended = !command.isAlive();
        to.flush();
        answer.fluentPut("out", said.toString(StandardCharsets.UTF_8)).put("ended", ended);
        if (!ended) {
            command.interrupt();
            command.join(5000);
        }
    }

    private static List<String> names() throws Exception {
        MQAdminStartup.initCommand();
        Field all = MQAdminStartup.class.getDeclaredField("SUB_COMMANDS");
        all.setAccessible(true);
        return ((List<?>) all.get(null)).stream().map(c -> ((SubCommand) c).commandName()).distinct().sorted()
            .collect(Collectors.toList());
    }
}
