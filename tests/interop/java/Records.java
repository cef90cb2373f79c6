import com.alibaba.fastjson2.JSONObject;
import java.io.File;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.security.MessageDigest;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.TreeMap;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.sysflag.MessageSysFlag;

/**
 * Prints every record of a commitlog directory as Java's own MessageDecoder understands it, one JSON object a line:
 * java Records DIR. A record that does not decode, or whose body CRC is wrong, is printed with "error" and ends its file.
 */
public final class Records {
    static String host(Object address) {
        InetSocketAddress a = (InetSocketAddress) address;
        String ip = a.getAddress().getHostAddress();
        return (ip.contains(":") ? "[" + ip + "]" : ip) + ":" + a.getPort();
    }

    static void rest(JSONObject o, MessageExt m) throws Exception {
        byte[] body = m.getBody() == null ? new byte[0] : m.getBody();
        o.put("body_sha256", HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(body)));
        o.put("body_length", body.length);
        o.put("body_crc", m.getBodyCRC());
        o.put("born_ms", m.getBornTimestamp());
        o.put("store_ms", m.getStoreTimestamp());
        o.put("born_host", host(m.getBornHost()));
        o.put("store_host", host(m.getStoreHost()));
        o.put("msg_id", m.getMsgId());
        o.put("reconsume_times", m.getReconsumeTimes());
        o.put("prepared_offset", m.getPreparedTransactionOffset());
        o.put("tags", m.getTags());
        o.put("uniq_key", m.getProperty("UNIQ_KEY"));
        try {
            o.put("delay_level", m.getDelayTimeLevel());
        } catch (NumberFormatException e) {
            o.put("delay_level", null);
        }
        boolean packed = (m.getSysFlag() & MessageSysFlag.COMPRESSED_FLAG) != 0;
        try {
            o.put("codec", packed ? MessageSysFlag.getCompressionType(m.getSysFlag()).name() : null);
        } catch (RuntimeException e) {
            o.put("codec", null);
        }
    }

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
                rest(o, m);
                System.out.println(o);
                b.position(at + size);
            }
        }
    }
}
