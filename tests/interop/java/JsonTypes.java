import com.alibaba.fastjson2.JSON;
import com.alibaba.fastjson2.JSONWriter;
import java.io.*;
import java.nio.charset.StandardCharsets;
import java.util.*;
import org.apache.rocketmq.remoting.protocol.RemotingSerializable;

public final class JsonTypes {
    public enum Colour { RED, GREEN, BLUE }
    public static class Inner {
        private int number = 5; private String word = "w";
        public int getNumber() { return number; } public void setNumber(int v) { number = v; }
        public String getWord() { return word; } public void setWord(String v) { word = v; }
    }
    public static class Types extends RemotingSerializable {
        private int integer = 7; private long big = 7; private boolean flag = true; private Integer boxed = 7; private Long boxedLong = 7L; private Boolean boxedFlag = true;
        private String text = "d"; private Colour colour = Colour.GREEN; private double real = 7;
        private List<String> texts = new ArrayList<>(List.of("d")); private Set<String> textSet = new HashSet<>(Set.of("d")); private Set<Integer> numbers = new HashSet<>(Set.of(7)); private Set<Long> longs = new HashSet<>(Set.of(7L));
        private Map<String, Long> counts = new HashMap<>(Map.of("d", 7L)); private Map<Integer, Long> table = new HashMap<>(Map.of(7, 7L)); private Map<String, String> words = new HashMap<>(Map.of("d","d"));
        private Inner inner = new Inner(); private Set<Inner> inners = new HashSet<>(); private List<Inner> rows = new ArrayList<>();
        private java.util.concurrent.ConcurrentMap<String, java.util.concurrent.ConcurrentMap<Integer, Long>> nested = new java.util.concurrent.ConcurrentHashMap<>();
        private java.util.concurrent.atomic.AtomicLong atomic = new java.util.concurrent.atomic.AtomicLong(7);
        public int getInteger() { return integer; } public void setInteger(int v) { integer = v; }
        public long getBig() { return big; } public void setBig(long v) { big = v; }
        public boolean isFlag() { return flag; } public void setFlag(boolean v) { flag = v; }
        public Integer getBoxed() { return boxed; } public void setBoxed(Integer v) { boxed = v; }
        public Long getBoxedLong() { return boxedLong; } public void setBoxedLong(Long v) { boxedLong = v; }
        public Boolean getBoxedFlag() { return boxedFlag; } public void setBoxedFlag(Boolean v) { boxedFlag = v; }
        public String getText() { return text; } public void setText(String v) { text = v; }
        public Colour getColour() { return colour; } public void setColour(Colour v) { colour = v; }
        public double getReal() { return real; } public void setReal(double v) { real = v; }
        public List<String> getTexts() { return texts; } public void setTexts(List<String> v) { texts = v; }
        public Set<String> getTextSet() { return textSet; } public void setTextSet(Set<String> v) { textSet = v; }
        public Set<Integer> getNumbers() { return numbers; } public void setNumbers(Set<Integer> v) { numbers = v; }
        public Set<Long> getLongs() { return longs; } public void setLongs(Set<Long> v) { longs = v; }
        public Map<String, Long> getCounts() { return counts; } public void setCounts(Map<String, Long> v) { counts = v; }
        public Map<Integer, Long> getTable() { return table; } public void setTable(Map<Integer, Long> v) { table = v; }
        public Map<String, String> getWords() { return words; } public void setWords(Map<String, String> v) { words = v; }
        public Inner getInner() { return inner; } public void setInner(Inner v) { inner = v; }
        public Set<Inner> getInners() { return inners; } public void setInners(Set<Inner> v) { inners = v; }
        public List<Inner> getRows() { return rows; } public void setRows(List<Inner> v) { rows = v; }
        public java.util.concurrent.ConcurrentMap<String, java.util.concurrent.ConcurrentMap<Integer, Long>> getNested() { return nested; } public void setNested(java.util.concurrent.ConcurrentMap<String, java.util.concurrent.ConcurrentMap<Integer, Long>> v) { nested = v; }
        public java.util.concurrent.atomic.AtomicLong getAtomic() { return atomic; } public void setAtomic(java.util.concurrent.atomic.AtomicLong v) { atomic = v; }
    }
    public static void main(String[] argv) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(new BufferedOutputStream(new FileOutputStream(FileDescriptor.out)), false, "UTF-8");
        for (String line; (line = in.readLine()) != null;) {
            int tab = line.indexOf('\t');
            Class<?> cls = Class.forName(line.substring(0, tab));
            String text = line.substring(tab + 1);
            String answer;
            try {
                Object o = RemotingSerializable.decode(text.getBytes(StandardCharsets.UTF_8), cls);
                answer = JSON.toJSONString(o, JSONWriter.Feature.WriteNulls, JSONWriter.Feature.MapSortField, JSONWriter.Feature.WriteNonStringKeyAsString);
            } catch (Throwable e) {
                answer = "!" + e.getClass().getName() + ": " + String.valueOf(e.getMessage()).replace('\n', ' ');
            }
            out.println(answer);
        }
        out.flush();
    }
}
