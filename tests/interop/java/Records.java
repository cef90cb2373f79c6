import com.alibaba.fastjson2.JSONObject;
import io.openmessaging.storage.dledger.entry.DLedgerEntry;
import io.openmessaging.storage.dledger.entry.DLedgerEntryCoder;
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
 * java Records DIR [dledger]; then as DLedger's own decoder finds them in its entries. A record that does not decode, or whose body CRC is wrong, is printed with "error" and ends its file.
 */
public final class Records {
    static String host(Object address) {
        InetSocketAddress a = (InetSocketAddress) address;
        String ip = a.getAddress().getHostAddress();
        return (ip.contains(":") ? "[" + ip + "]" : ip) + ":" + a.getPort();
    }

    static String sha256(byte[] data) throws Exception {
        return HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(data == null ? new byte[0] : data));
    }

    static void rest(JSONObject o, MessageExt m, MessageExt unpacked) throws Exception {
        byte[] body = m.getBody() == null ? new byte[0] : m.getBody();
        o.put("body_sha256", sha256(body));
        o.put("body_length", body.length);
        // null where the codec is none, or the body not of it
        o.put("unpacked_sha256", unpacked == null ? null : sha256(unpacked.getBody()));
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

    /** One record, or why it is none; whether it was one. */
    static boolean print(JSONObject o, ByteBuffer record) throws Exception {
        ByteBuffer again = record == null ? null : record.duplicate();
        MessageExt m = record == null ? null : MessageDecoder.decode(record, true, false, false, false, true);
        if (m == null) {
            System.out.println(o.fluentPut("error", "does not decode"));
            return false;
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
        o.put("v2", again.getInt(4) == MessageDecoder.MESSAGE_MAGIC_CODE_V2);
        rest(o, m, MessageDecoder.decode(again, true, true, false, false, true));
        System.out.println(o);
        return true;
    }

    static void blank(long at, int size, boolean said) {
        System.out.println(new JSONObject().fluentPut("blank", said).fluentPut("at", at).fluentPut("size", size));
    }

    static void records(long base, ByteBuffer b) throws Exception {
        while (b.remaining() >= 8) {
            int at = b.position();
            int size = b.getInt(at);
            int magic = b.getInt(at + 4);
            if (magic == -875286124 || magic == 0) {
                blank(base + at, size, magic != 0);
                return;
            }
            JSONObject o = new JSONObject().fluentPut("at", base + at).fluentPut("size", size);
            if (!print(o, size > 0 && size <= b.remaining() ? b.slice(at, size) : null)) {
                return;
            }
            b.position(at + size);
        }
    }

    static void entries(long base, ByteBuffer b) throws Exception {
        while (b.remaining() >= 8) {
            int at = b.position();
            if (b.getInt(at) <= 0) {
                blank(base + at, b.getInt(at + 4), b.getInt(at) == -1);
                return;
            }
            DLedgerEntry entry = DLedgerEntryCoder.decode(b, true);
            JSONObject o = new JSONObject().fluentPut("at", entry.getPos()).fluentPut("size", entry.getBody().length);
            o.fluentPut("index", entry.getIndex()).fluentPut("term", entry.getTerm());
            if (entry.getBody().length > 0 && !print(o, ByteBuffer.wrap(entry.getBody()))) {
                return;
            }
            b.position(at + entry.getSize());
        }
    }

    public static void main(String[] argv) throws Exception {
        File[] files = new File(argv[0]).listFiles((d, n) -> n.matches("[0-9]{20}"));
        Arrays.sort(files);
        for (File f : files) {
            ByteBuffer b = ByteBuffer.wrap(Files.readAllBytes(f.toPath()));
            long base = Long.parseLong(f.getName());
            if (argv.length > 1 && argv[1].equals("dledger")) {
                entries(base, b);
            } else {
                records(base, b);
            }
        }
    }
}
