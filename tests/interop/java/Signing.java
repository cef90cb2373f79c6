import com.alibaba.fastjson2.JSON;
import com.alibaba.fastjson2.JSONObject;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.HashMap;
import org.apache.rocketmq.acl.common.AclClientRPCHook;
import org.apache.rocketmq.acl.common.SessionCredentials;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;

/** Requests on standard input, a JSON object a line (user, secret, token, fields, body in Base64); their signatures, a line each, by the client's own hook. */
public class Signing {
    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        StringBuilder out = new StringBuilder();
        for (String line; (line = in.readLine()) != null;) {
            JSONObject q = JSON.parseObject(line);
            RemotingCommand command = RemotingCommand.createRequestCommand(310, null);
            HashMap<String, String> fields = new HashMap<>();
            for (String name : q.getJSONObject("fields").keySet()) {
                fields.put(name, q.getJSONObject("fields").getString(name));
            }
            command.setExtFields(fields);
            byte[] body = Base64.getDecoder().decode(q.getString("body"));
            if (body.length > 0) {
                command.setBody(body);
            }
            SessionCredentials who = new SessionCredentials(q.getString("user"), q.getString("secret"));
            if (q.getString("token") != null) {
                who = new SessionCredentials(q.getString("user"), q.getString("secret"), q.getString("token"));
            }
            new AclClientRPCHook(who).doBeforeRequest("127.0.0.1:1", command);
            out.append(command.getExtFields().get("Signature")).append('\n');
        }
        System.out.print(out);
    }
}
