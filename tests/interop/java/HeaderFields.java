import com.alibaba.fastjson2.JSON;
import com.alibaba.fastjson2.JSONWriter;
import java.io.*;
import java.lang.reflect.*;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.*;
import org.apache.rocketmq.remoting.CommandCustomHeader;
import org.apache.rocketmq.remoting.annotation.*;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;
import org.apache.rocketmq.remoting.protocol.header.SendMessageRequestHeader;

/** Frames in, the fields that Java's header classes have afterwards out. */
public final class HeaderFields {
    /** A field of every type that a header class may declare. */
    public static class Types implements CommandCustomHeader {
        @CFNotNull private String text; @CFNullable private String textNullable;
        @CFNotNull private Integer boxed; @CFNullable private Integer boxedNullable; private int integer;
        @CFNotNull private Long boxedLong; @CFNullable private Long boxedLongNullable; private long big;
        @CFNotNull private Boolean boxedFlag; @CFNullable private Boolean boxedFlagNullable; private boolean flag;
        @Override public void checkFields() { }
    }
    private static Class<?> named(String name) throws ClassNotFoundException {
        if (name.equals("Types")) return Types.class;
        String[] packages = {"", "controller.", "controller.register.", "controller.admin.", "namesrv."};
        for (String each : packages) {
            try { return Class.forName("org.apache.rocketmq.remoting.protocol.header." + each + name); } catch (ClassNotFoundException e) { }
        }
        throw new ClassNotFoundException(name);
    }
    @SuppressWarnings("unchecked")
    private static Map<String, Object> read(String name, byte[] frame) throws Exception {
        RemotingCommand command = RemotingCommand.decode(ByteBuffer.wrap(frame));
        Object header = name.startsWith("SendMessageRequestHeader") ? SendMessageRequestHeader.parseRequestHeader(command)
            : command.decodeCommandCustomHeader((Class<? extends CommandCustomHeader>) named(name));
        Map<String, Object> found = new TreeMap<>();
        for (Class<?> c = header.getClass(); c != Object.class; c = c.getSuperclass()) {
            for (Field each : c.getDeclaredFields()) {
                if (Modifier.isStatic(each.getModifiers())) continue;
                each.setAccessible(true);
                Object value = each.get(header);
                found.put(each.getName(), value == null ? null : String.valueOf(value));
            }
        }
        return found;
    }
    public static void main(String[] argv) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(new BufferedOutputStream(new FileOutputStream(FileDescriptor.out)), false, "UTF-8");
        for (String line; (line = in.readLine()) != null;) {
            int tab = line.indexOf('\t');
            String answer;
            try {
                Map<String, Object> found = read(line.substring(0, tab), Base64.getDecoder().decode(line.substring(tab + 1)));
                answer = JSON.toJSONString(found, JSONWriter.Feature.WriteNulls);
            } catch (ClassNotFoundException e) {
                throw e;
            } catch (Throwable e) {
                answer = "!" + e.getClass().getName() + ": " + String.valueOf(e.getMessage()).replace('\n', ' ');
            }
            out.println(answer);
        }
        out.flush();
    }
}
