import com.alibaba.fastjson2.JSON;
import com.alibaba.fastjson2.JSONObject;
import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.List;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/**
 * Runs unmodified mqadmin commands in one JVM (a JVM start costs more than a command): one JSON line {"id":1,"args":[...]} in,
 * one JSON line {"re":1,"out":"what it printed"} out. Commands that would end the process (bad usage) end this one as well.
 */
public final class Admin {
    public static void main(String[] argv) throws Exception {
        PrintStream out = System.out;
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        out.println("{\"ev\":\"ready\"}");
        out.flush();
        for (String line; (line = in.readLine()) != null; ) {
            JSONObject q = JSON.parseObject(line);
            List<String> args = q.getList("args", String.class);
            ByteArrayOutputStream said = new ByteArrayOutputStream();
            PrintStream to = new PrintStream(said, true, StandardCharsets.UTF_8);
            System.setOut(to);
            System.setErr(to);
            try {
                MQAdminStartup.main0(args.toArray(new String[0]), null);
            } catch (Throwable e) {
                e.printStackTrace(to);
            }
            to.flush();
            out.println(new JSONObject().fluentPut("re", q.get("id")).fluentPut("out", said.toString(StandardCharsets.UTF_8)));
            out.flush();
        }
        Runtime.getRuntime().halt(0);
    }
}
