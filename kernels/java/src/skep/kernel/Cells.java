package skep.kernel;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import jdk.jshell.DeclarationSnippet;
import jdk.jshell.Diag;
import jdk.jshell.EvalException;
import jdk.jshell.JShell;
import jdk.jshell.JShellException;
import jdk.jshell.Snippet;
import jdk.jshell.SnippetEvent;
import jdk.jshell.SourceCodeAnalysis;
import jdk.jshell.SourceCodeAnalysis.CompletionInfo;
import jdk.jshell.UnresolvedReferenceException;

/** Runs cells in one JShell, whose declarations stay. */
final class Cells {
    private static final Pattern JSHELL_CLASS = Pattern.compile("REPL\\.\\$JShell\\$\\w+\\.");

    private final Control control = new Control();
    private final JShell shell;
    private final Questions questions;
    private final Map<String, Place> places = new HashMap<>();
    private int count;

    /** Where a snippet stands: lines before it, in which cell. */
    private record Place(int cell, int linesBefore) {}

    /** What came of a cell: at most one of both. */
    record Outcome(String value, Failure failure) {}

    Cells() {
        shell = JShell.builder()
                .executionEngine(new Control.Provider(control), Map.of())
                .idGenerator((snippet, number) -> Integer.toString(number))
                .build();
        questions = new Questions(shell);
        String libraries = System.getenv("CLASSPATH");
        if (libraries != null && !libraries.isBlank()) {
            shell.addToClasspath(libraries);
        }
        // One import of everything takes a third of the time of the ten that the jshell command makes.
        shell.eval("import module java.base;");
    }

    /** What can be asked about code that is not run. */
    Questions questions() {
        return questions;
    }

    int count() {
        return count;
    }

    void countUp() {
        count++;
    }

    /** Ends the cell that runs. */
    void interrupt() {
        control.stop();
    }

    /** Runs a cell, snippet by snippet, until one fails. */
    Outcome run(String code) {
        control.begin();
        String value = null;
        int start = 0;
        SourceCodeAnalysis analysis = shell.sourceCodeAnalysis();
        while (!code.substring(start).isBlank()) {
            CompletionInfo next = analysis.analyzeCompletion(code.substring(start));
            if (control.isInterrupted()) {
                return failed(Failure.interrupted());
            }
            if (next.completeness() == SourceCodeAnalysis.Completeness.EMPTY) {
                break;
            }
            if (!next.completeness().isComplete() && next.completeness() != SourceCodeAnalysis.Completeness.UNKNOWN) {
                int line = lineOf(code, code.length());
                return failed(new Failure("syntax", "IncompleteSourceException", "the code ends in the middle of something", List.of(
                        "line " + line + ": the code ends in the middle of something\n" + code.substring(start).strip() + "\n")));
            }
            boolean isKnown = next.source() != null && next.completeness() != SourceCodeAnalysis.Completeness.UNKNOWN;
            // JShell counts lines wrongly when something comes before the first word.
            int from = firstWord(code, start);
            int skipped = from - start;
            String source = isKnown && next.source().length() > skipped ? next.source().substring(skipped) : code.substring(from);
            value = null;
            for (SnippetEvent event : shell.eval(source)) {
                Failure failure = failureOf(event, code, from);
                if (failure != null) {
                    return failed(failure);
                }
                if (event.causeSnippet() == null && isExpression(event.snippet())) {
                    value = control.text();
                }
            }
            start = isKnown ? code.length() - next.remaining().length() : code.length();
        }
        return new Outcome(value, null);
    }

    private static Outcome failed(Failure failure) {
        return new Outcome(null, failure);
    }

    /** Where blanks and comments end. */
    private static int firstWord(String code, int start) {
        int place = start;
        while (place < code.length()) {
            int end = place;
            if (Character.isWhitespace(code.charAt(place))) {
                end = place + 1;
            } else if (code.startsWith("//", place)) {
                end = code.indexOf('\n', place);
            } else if (code.startsWith("/*", place)) {
                end = code.indexOf("*/", place) + 1;
                end = end == 0 ? -1 : end + 1;
            }
            if (end == place) {
                return place;
            }
            place = end < 0 ? code.length() : end;
        }
        return place;
    }

    private static boolean isExpression(Snippet snippet) {
        return switch (snippet.subKind()) {
            case VAR_VALUE_SUBKIND, TEMP_VAR_EXPRESSION_SUBKIND, ASSIGNMENT_SUBKIND, OTHER_EXPRESSION_SUBKIND -> true;
            default -> false;
        };
    }

    private Failure failureOf(SnippetEvent event, String code, int from) {
        if (event.causeSnippet() != null) {
            return null;
        }
        Snippet snippet = event.snippet();
        places.put(snippet.id(), new Place(count, lineOf(code, from) - 1));
        if (event.status() == Snippet.Status.REJECTED) {
            return refused(shell.diagnostics(snippet).filter(Diag::isError).toList(), code, from, snippet.source());
        }
        if (control.isInterrupted()) {
            return Failure.interrupted();
        }
        if (event.exception() != null) {
            return raised(event.exception());
        }
        if (snippet instanceof DeclarationSnippet declaration && event.status() != Snippet.Status.VALID) {
            String missing = shell.unresolvedDependencies(declaration).collect(Collectors.joining(", "));
            System.err.println("note: " + declaration.name() + " cannot be used until there is " + missing);
        }
        return null;
    }

    private static Failure refused(List<Diag> errors, String code, int from, String source) {
        List<String> traceback = new ArrayList<>();
        for (Diag error : errors) {
            int offset = (int) Math.min(error.getPosition(), source.length());
            int line = lineOf(code, Math.min(from + Math.max(offset, 0), code.length()));
            String[] lines = code.split("\n", -1);
            String shown = lines[Math.min(line, lines.length) - 1];
            int column = columnOf(code, Math.min(from + Math.max(offset, 0), code.length()));
            int width = (int) Math.max(1, Math.min(error.getEndPosition() - error.getStartPosition(), shown.length() - column));
            traceback.add("line " + line + ": " + error.getMessage(Locale.ROOT) + "\n" + shown + "\n"
                    + " ".repeat(column) + "^".repeat(width) + "\n");
        }
        String value = errors.isEmpty() ? "the code was refused" : headline(traceback.get(0));
        return new Failure("syntax", "CompilationException", value, traceback);
    }

    /** The first line, with the symbol that the compiler names on a line of its own. */
    private static String headline(String message) {
        List<String> lines = message.lines().map(String::strip).toList();
        Stream<String> symbols = lines.stream().filter(line -> line.startsWith("symbol:"));
        return lines.get(0) + symbols.findFirst().map(line -> ": " + line.substring("symbol:".length()).strip()).orElse("");
    }

    private Failure raised(JShellException exception) {
        List<String> traceback = new ArrayList<>();
        String prefix = "";
        for (Throwable cause = exception; cause != null; cause = cause.getCause()) {
            traceback.add(prefix + describe(cause) + "\n");
            for (StackTraceElement frame : cause.getStackTrace()) {
                traceback.add("    at " + describe(frame) + "\n");
            }
            prefix = "Caused by: ";
        }
        if (exception instanceof EvalException raised) {
            String name = raised.getExceptionClassName();
            String simple = name.substring(Math.max(name.lastIndexOf('.'), name.lastIndexOf('$')) + 1);
            return new Failure("runtime", simple, String.valueOf(message(raised)), traceback);
        }
        return new Failure("runtime", exception.getClass().getSimpleName(), describe(exception), traceback);
    }

    private String describe(Throwable throwable) {
        if (throwable instanceof UnresolvedReferenceException unresolved) {
            DeclarationSnippet snippet = unresolved.getSnippet();
            String missing = shell.unresolvedDependencies(snippet).collect(Collectors.joining(", "));
            return snippet.name() + " needs " + missing + ", which is not there";
        }
        String name = throwable instanceof EvalException raised ? raised.getExceptionClassName() : throwable.getClass().getName();
        String message = message(throwable);
        return message == null ? name : name + ": " + message;
    }

    /** What a throwable says. The machine calls a variable of a cell after the class that JShell put it into. */
    private static String message(Throwable throwable) {
        String message = throwable.getMessage();
        return message == null ? null : JSHELL_CLASS.matcher(message).replaceAll("");
    }

    private String describe(StackTraceElement frame) {
        String file = frame.getFileName();
        Place place = file != null && file.startsWith("#") ? places.get(file.substring(1)) : null;
        if (place == null) {
            return frame.toString();
        }
        String method = frame.getMethodName();
        String type = frame.getClassName();
        String where = "cell " + place.cell() + ", line " + (place.linesBefore() + frame.getLineNumber());
        String name = method.isEmpty() || method.equals("do_it$") ? "" : (type.isEmpty() ? "" : type + ".") + method + " ";
        return name + "(" + where + ")";
    }

    private static int lineOf(String code, int offset) {
        return (int) code.substring(0, offset).chars().filter(unit -> unit == '\n').count() + 1;
    }

    private static int columnOf(String code, int offset) {
        return offset - code.lastIndexOf('\n', offset - 1) - 1;
    }
}
