/**
 * Shows what code has made, in an origin of its own that reaches nothing.
 *
 * A page hands over one bundle through a port, once. Nothing goes back but a height, so whatever
 * runs here can at most be tall.
 */
import { marked } from "marked";

type Shown = { bundle: Record<string, string>; theme: string };

addEventListener(
  "message",
  (event: MessageEvent<Shown>) => {
    const port = event.ports[0];
    if (!port) return;
    const { bundle, theme } = event.data;
    document.body.dataset["theme"] = theme;
    document.documentElement.style.colorScheme = theme;
    const tell = () => port.postMessage({ height: document.documentElement.offsetHeight });
    show(bundle);
    new ResizeObserver(tell).observe(document.documentElement);
    tell();
  },
  { once: true },
);

function show(bundle: Record<string, string>): void {
  const box = document.createElement("div");
  document.body.append(box);
  const html = bundle["text/html"];
  const svg = bundle["image/svg+xml"];
  const markdown = bundle["text/markdown"];
  const script = bundle["application/javascript"];
  if (html !== undefined) write(box, html);
  else if (svg !== undefined) write(box, svg);
  else if (markdown !== undefined) write(box, marked.parse(markdown, { async: false }));
  else if (script !== undefined) run(script);
}

/** Markup with its scripts, which a document only runs when they are made as elements. */
function write(box: HTMLElement, markup: string): void {
  box.innerHTML = markup;
  for (const inert of box.querySelectorAll("script")) {
    const live = document.createElement("script");
    for (const { name, value } of inert.attributes) live.setAttribute(name, value);
    live.textContent = inert.textContent;
    inert.replaceWith(live);
  }
}

function run(source: string): void {
  const script = document.createElement("script");
  script.textContent = source;
  document.body.append(script);
}
