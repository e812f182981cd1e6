package skep.kernel;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** As much of JSON as the protocol needs: any value in, strings out. */
final class Json {
    private final String text;
    private int place;

    private Json(String text) {
        this.text = text;
    }

    /** Reads one value: a map, a list, a string, a Boolean, a Double or null. */
    static Object parse(String text) {
        Json reader = new Json(text);
        Object value = reader.value();
        reader.blanks();
        if (reader.place != text.length()) {
            throw reader.unexpected();
        }
        return value;
    }

    /** Writes a map, a list, a string, a number, a Boolean or null. */
    static void write(Object value, StringBuilder into) {
        switch (value) {
            case Map<?, ?> map -> {
                into.append('{');
                String before = "";
                for (Map.Entry<?, ?> entry : map.entrySet()) {
                    into.append(before);
                    quote(String.valueOf(entry.getKey()), into);
                    into.append(':');
                    write(entry.getValue(), into);
                    before = ",";
                }
                into.append('}');
            }
            case List<?> list -> {
                into.append('[');
                String before = "";
                for (Object item : list) {
                    into.append(before);
                    write(item, into);
                    before = ",";
                }
                into.append(']');
            }
            case CharSequence text -> quote(text, into);
            case null, default -> into.append(value);
        }
    }

    /** Writes a string in pure ASCII. Halves of surrogate pairs become U+FFFD: strict readers refuse them. */
    static void quote(CharSequence text, StringBuilder into) {
        into.append('"');
        for (int index = 0; index < text.length(); index++) {
            char unit = text.charAt(index);
            if (unit == '"' || unit == '\\') {
                into.append('\\').append(unit);
            } else if (unit >= ' ' && unit < 0x7f) {
                into.append(unit);
            } else if (unit == '\n') {
                into.append("\\n");
            } else if (Character.isHighSurrogate(unit)
                    && index + 1 < text.length()
                    && Character.isLowSurrogate(text.charAt(index + 1))) {
                escape(unit, into);
                escape(text.charAt(++index), into);
            } else {
                escape(Character.isSurrogate(unit) ? '\ufffd' : unit, into);
            }
        }
        into.append('"');
    }

    private static void escape(char unit, StringBuilder into) {
        into.append("\\u");
        for (int shift = 12; shift >= 0; shift -= 4) {
            into.append(Character.forDigit(unit >> shift & 0xf, 16));
        }
    }

    private Object value() {
        blanks();
        switch (peek()) {
            case '{':
                return object();
            case '[':
                return list();
            case '"':
                return string();
            case 't':
                return word("true", true);
            case 'f':
                return word("false", false);
            case 'n':
                return word("null", null);
            default:
                return number();
        }
    }

    private Map<String, Object> object() {
        Map<String, Object> object = new LinkedHashMap<>();
        place++;
        blanks();
        if (take('}')) {
            return object;
        }
        do {
            blanks();
            String name = string();
            blanks();
            demand(':');
            object.put(name, value());
            blanks();
        } while (take(','));
        demand('}');
        return object;
    }

    private List<Object> list() {
        List<Object> list = new ArrayList<>();
        place++;
        blanks();
        if (take(']')) {
            return list;
        }
        do {
            list.add(value());
            blanks();
        } while (take(','));
        demand(']');
        return list;
    }

    private String string() {
        demand('"');
        StringBuilder string = new StringBuilder();
        while (true) {
            char unit = next();
            if (unit == '"') {
                return string.toString();
            }
            string.append(unit == '\\' ? escaped() : unit);
        }
    }

    private char escaped() {
        char unit = next();
        switch (unit) {
            case 'n':
                return '\n';
            case 't':
                return '\t';
            case 'r':
                return '\r';
            case 'b':
                return '\b';
            case 'f':
                return '\f';
            case 'u':
                place += 4;
                return (char) Integer.parseInt(text.substring(place - 4, place), 16);
            default:
                return unit;
        }
    }

    private Object word(String word, Object meaning) {
        if (!text.startsWith(word, place)) {
            throw unexpected();
        }
        place += word.length();
        return meaning;
    }

    private Double number() {
        int start = place;
        while (place < text.length() && "+-.eE0123456789".indexOf(text.charAt(place)) >= 0) {
            place++;
        }
        return Double.valueOf(text.substring(start, place));
    }

    private void blanks() {
        while (place < text.length() && text.charAt(place) <= ' ') {
            place++;
        }
    }

    private char peek() {
        if (place == text.length()) {
            throw unexpected();
        }
        return text.charAt(place);
    }

    private char next() {
        char unit = peek();
        place++;
        return unit;
    }

    private boolean take(char wanted) {
        if (place < text.length() && text.charAt(place) == wanted) {
            place++;
            return true;
        }
        return false;
    }

    private void demand(char wanted) {
        if (!take(wanted)) {
            throw unexpected();
        }
    }

    private IllegalArgumentException unexpected() {
        return new IllegalArgumentException("this is no JSON at character " + place);
    }
}
