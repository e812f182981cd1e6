package skep.kernel;

import java.util.List;

/** A run at build time, in which the virtual machine learns what a kernel needs. */
final class Training {
    private static final List<String> CELLS = List.of(
            "System.out.println(\"Hello, World!\")",
            "int x = 5; x + 1",
            "int square(int n) { return n * n; }\nrecord Point(int x, int y) {}\nnew Point(square(3), 1)",
            "var words = List.of(\"a\", \"b\"); words.stream().map(w -> w + w).collect(Collectors.joining(\",\"))",
            "for (int i = 0; i < 3; i++) { System.err.println(\"%d\".formatted(i)); }",
            "class Counter { int count; void add() { count++; } }\nvar counter = new Counter(); counter.add(); counter.count",
            "int y = missing;",
            "throw new IllegalStateException(\"on purpose\")");

    private Training() {}

    static void run() throws Exception {
        new Environment();
        Json.parse("{\"type\":\"execute\",\"id\":\"e1\",\"code\":\"\\u00e9\",\"env\":{},\"list\":[1,true,null]}");
        Cells cells = new Cells();
        for (String cell : CELLS) {
            cells.countUp();
            Cells.Outcome outcome = cells.run(cell);
            System.out.println(outcome);
        }
        Folder.enter("/");
    }
}
