import com.alibaba.fastjson2.JSONObject;
import java.io.File;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.security.MessageDigest;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.TreeMap;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * Prints every record of a commitlog directory as Java's own MessageDecoder understands it, one JSON object a line:
 * java Records DIR. A record that does not decode, or whose body CRC is wrong, is printed with "error" and ends its file.
 */
public final class Records {
    public static void main(String[] argv) throws Exception {
        File[] files = new File(argv[0]).listFiles((d, n) -> n.matches("[0-9]{20}"));
        Arrays.sort(files);
        for (File f : files) {
            ByteBuffer b = ByteBuffer.wrap(Files.readAllBytes(f.toPath()));
            long base = Long.parseLong(f.getName());
            while (b.remaining() >= 8) {
                int at = b.position();
                int size = b.getInt(at);
                int magic = b.getInt(at + 4);
                if (magic == -875286124 || magic == 0) {
                    System.out.println(new JSONObject().fluentPut("blank", magic != 0).fluentPut("at", base + at).fluentPut("size", size));
                    break;
                }
                JSONObject o = new JSONObject();
                o.put("at", base + at);
                o.put("size", size);
                MessageExt m = null;
                if (size > 0 && size <= b.remaining()) {
                    ByteBuffer one = b.slice(at, size);
                    m = MessageDecoder.decode(one, true, false, false, false, true);
                }
                if (m == null) {
                    System.out.println(o.fluentPut("error", "does not decode"));
                    break;
                }
                o.put("topic", m.getTopic());
                o.put("q", m.getQueueId());
                o.put("off", m.getQueueOffset());
                o.put("phy", m.getCommitLogOffset());
                o.put("sys", m.getSysFlag());
                o.put("flag", m.getFlag());
                o.put("key", m.getKeys());
                o.put("sha", HexFormat.of().formatHex(MessageDigest.getInstance("SHA-1").digest(m.getBody() == null ? new byte[0] : m.getBody())));
                o.put("props", new TreeMap<>(m.getProperties()));
                System.out.println(o);
                b.position(at + size);
            }
        }
    }
}
