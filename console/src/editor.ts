/** CodeMirror as this console uses it. Loaded when code is to be written. */
import { autocompletion, closeBrackets, closeBracketsKeymap, completionKeymap, type CompletionContext, type CompletionResult } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { java } from "@codemirror/lang-java";
import { javascript } from "@codemirror/lang-javascript";
import { python } from "@codemirror/lang-python";
import { bracketMatching, HighlightStyle, indentOnInput, StreamLanguage, syntaxHighlighting } from "@codemirror/language";
import { r } from "@codemirror/legacy-modes/mode/r";
import { shell } from "@codemirror/legacy-modes/mode/shell";
import { EditorState, type Extension } from "@codemirror/state";
import { drawSelection, EditorView, keymap, lineNumbers, type KeyBinding } from "@codemirror/view";
import { tags } from "@lezer/highlight";

/** Colours come from the page's own style, so that both looks have them. */
const STYLE = HighlightStyle.define([
  { tag: [tags.keyword, tags.operatorKeyword, tags.modifier], color: "var(--code-keyword)" },
  { tag: [tags.string, tags.special(tags.string), tags.regexp], color: "var(--code-string)" },
  { tag: [tags.number, tags.bool, tags.null], color: "var(--code-number)" },
  { tag: [tags.comment], color: "var(--code-comment)", fontStyle: "italic" },
  { tag: [tags.function(tags.variableName), tags.function(tags.propertyName)], color: "var(--code-function)" },
  { tag: [tags.className, tags.typeName, tags.definition(tags.typeName)], color: "var(--code-type)" },
]);

const LOOK = EditorView.theme({
  "&": { backgroundColor: "transparent", color: "var(--text)", fontSize: "13px" },
  ".cm-content": { fontFamily: "var(--mono)", caretColor: "var(--accent)", padding: "8px 0" },
  ".cm-gutters": { backgroundColor: "transparent", color: "var(--faint)", border: "none" },
  "&.cm-focused": { outline: "none" },
  ".cm-cursor": { borderLeftColor: "var(--accent)", borderLeftWidth: "2px" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": { backgroundColor: "var(--selection) !important" },
  ".cm-tooltip": { backgroundColor: "var(--raised)", color: "var(--text)", border: "1px solid var(--line)", borderRadius: "6px", overflow: "hidden" },
  ".cm-tooltip-autocomplete > ul > li[aria-selected]": { backgroundColor: "var(--accent)", color: "var(--on-accent)" },
  ".cm-matchingBracket": { backgroundColor: "var(--selection) !important" },
});

export function languageOf(name: string): Extension {
  switch (name) {
    case "python":
    case "py":
    case "pyi":
      return python();
    case "javascript":
    case "js":
    case "mjs":
    case "cjs":
    case "jsx":
      return javascript({ jsx: true });
    case "typescript":
    case "ts":
    case "tsx":
      return javascript({ typescript: true, jsx: true });
    case "java":
      return java();
    case "r":
      return StreamLanguage.define(r);
    case "bash":
    case "sh":
      return StreamLanguage.define(shell);
    default:
      return [];
  }
}

export type Editor = { view: EditorView; text: () => string; setText: (text: string) => void; destroy: () => void };

export type EditorOptions = {
  text: string;
  language: string;
  label: string;
  keys?: KeyBinding[];
  numbers?: boolean;
  changed?: (text: string) => void;
  complete?: (context: CompletionContext) => Promise<CompletionResult | null>;
};

export function edit(parent: HTMLElement, options: EditorOptions): Editor {
  const view = new EditorView({
    parent,
    state: EditorState.create({
      doc: options.text,
      extensions: [
        keymap.of([...(options.keys ?? []), ...completionKeymap, ...closeBracketsKeymap, ...historyKeymap, indentWithTab, ...defaultKeymap]),
        options.numbers ? lineNumbers() : [],
        history(),
        drawSelection(),
        indentOnInput(),
        bracketMatching(),
        closeBrackets(),
        options.complete ? autocompletion({ override: [options.complete], activateOnTyping: true, activateOnTypingDelay: 250 }) : autocompletion(),
        languageOf(options.language),
        syntaxHighlighting(STYLE),
        LOOK,
        EditorView.lineWrapping,
        EditorView.contentAttributes.of({ "aria-label": options.label }),
        EditorView.updateListener.of((update) => {
          if (update.docChanged) options.changed?.(update.state.doc.toString());
        }),
      ],
    }),
  });
  return {
    view,
    text: () => view.state.doc.toString(),
    setText: (text) => view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: text } }),
    destroy: () => view.destroy(),
  };
}
