package skep.kernel;

import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import jdk.jshell.JShell;
import jdk.jshell.SourceCodeAnalysis;
import jdk.jshell.SourceCodeAnalysis.Completeness;
import jdk.jshell.SourceCodeAnalysis.CompletionInfo;
import jdk.jshell.SourceCodeAnalysis.Suggestion;

/** Questions about code that is not run: what may follow it, what a name in it is, whether it is whole. JShell knows all of it. */
final class Questions {
    /** A person looks at a screenful; a package may have thousands of names. */
    private static final int MOST_MATCHES = 1000;

    private final SourceCodeAnalysis analysis;

    Questions(JShell shell) {
        analysis = shell.sourceCodeAnalysis();
    }

    /** The answer, or null if there is no such question. */
    Map<String, Object> answer(String type, Map<String, Object> request) {
        return switch (type) {
            case "complete" -> complete(Cursor.in(request));
            case "inspect" -> inspect(Cursor.in(request), request.get("detail"));
            case "is_complete" -> isComplete(Cursor.in(request).code());
            case "info" -> info();
            default -> null;
        };
    }

    /** Code and a place in it. JShell counts in UTF-16, as Java does; the protocol counts characters. */
    private record Cursor(String code, int place) {
        static Cursor in(Map<String, Object> request) {
            if (!(request.get("code") instanceof String code)) {
                throw new IllegalArgumentException("code is a string");
            }
            if (!(request.get("cursor") instanceof Number number)) {
                return new Cursor(code, code.length());
            }
            int characters = number.intValue();
            if (characters < 0 || characters > code.codePointCount(0, code.length())) {
                throw new IllegalArgumentException("the cursor is a number of characters of the code");
            }
            return new Cursor(code, code.offsetByCodePoints(0, characters));
        }

        int characters(int place) {
            return code.codePointCount(0, place);
        }
    }

    private Map<String, Object> complete(Cursor cursor) {
        int start = lastSnippet(cursor);
        int[] anchor = {cursor.place() - start};
        List<Suggestion> found = analysis.completionSuggestions(cursor.code().substring(start), cursor.place() - start, anchor);
        Set<String> matches = new LinkedHashSet<>();
        // Those of the type that is wanted there come first.
        found.stream().filter(Suggestion::matchesType).map(Suggestion::continuation).forEach(matches::add);
        found.stream().map(Suggestion::continuation).forEach(matches::add);
        return Map.of(
                "matches", matches.stream().limit(MOST_MATCHES).toList(),
                "cursor_start", cursor.characters(start + anchor[0]),
                "cursor_end", cursor.characters(cursor.place()));
    }

    private Map<String, Object> inspect(Cursor cursor, Object detail) {
        if (detail != null && !(detail instanceof Number number && (number.intValue() == 0 || number.intValue() == 1))) {
            throw new IllegalArgumentException("detail is 0 or 1");
        }
        int start = lastSnippet(cursor);
        int end = endOfName(cursor.code(), cursor.place());
        String snippet = cursor.code().substring(start, end);
        String text = documented(snippet);
        // Of a method JShell only speaks within the parentheses behind it.
        if (text.isEmpty() && !snippet.isBlank()) {
            text = documented(snippet + "(");
        }
        return text.isEmpty() ? Map.of("found", false, "data", Map.of()) : Map.of("found", true, "data", Map.of("text/plain", text));
    }

    private String documented(String snippet) {
        return analysis.documentation(snippet, snippet.length(), false).stream()
                .map(SourceCodeAnalysis.Documentation::signature)
                .distinct()
                .collect(Collectors.joining("\n"));
    }

    private Map<String, Object> isComplete(String code) {
        CompletionInfo info = analysis.analyzeCompletion(code.substring(lastSnippet(new Cursor(code, code.length()))));
        return switch (info.completeness()) {
            case COMPLETE, COMPLETE_WITH_SEMI, EMPTY -> Map.of("completeness", "complete", "indent", "");
            case DEFINITELY_INCOMPLETE, CONSIDERED_INCOMPLETE -> Map.of("completeness", "incomplete", "indent", indentAfter(code));
            case UNKNOWN -> Map.of("completeness", "invalid", "indent", "");
        };
    }

    private static Map<String, Object> info() {
        return Map.of(
                "language", "java",
                "version", Runtime.version().toString(),
                "mimetype", "text/x-java",
                "file_extension", ".java",
                "kernel", Main.NAME);
    }

    /** Where the snippet begins that the cursor is in: JShell looks at one at a time. */
    private int lastSnippet(Cursor cursor) {
        int start = 0;
        while (true) {
            CompletionInfo next = analysis.analyzeCompletion(cursor.code().substring(start));
            boolean isWhole = next.completeness() == Completeness.COMPLETE;
            if (!isWhole || next.remaining().isBlank()) {
                return start;
            }
            int end = cursor.code().length() - next.remaining().length();
            if (end <= start || end > cursor.place()) {
                return start;
            }
            start = end;
        }
    }

    private static int endOfName(String code, int place) {
        int end = place;
        while (end < code.length() && Character.isJavaIdentifierPart(code.charAt(end))) {
            end++;
        }
        return end;
    }

    /** As far as the last line, and one step more behind what opens a block. */
    private static String indentAfter(String code) {
        String last = code.stripTrailing();
        last = last.substring(last.lastIndexOf('\n') + 1);
        String indent = last.substring(0, last.length() - last.stripLeading().length());
        return last.endsWith("{") || last.endsWith("(") ? indent + "    " : indent;
    }
}
