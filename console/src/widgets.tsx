/** Small parts that all pages are made of. */
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { messageOf } from "./api";
import { moment, relative } from "./format";
import { now, pageActions, toast, utc, type Action } from "./state";

export function Head({ title, children, sub }: { title: ComponentChildren; sub?: ComponentChildren; children?: ComponentChildren }) {
  return (
    <header class="head">
      <div>
        <h1>{title}</h1>
        {sub ? <p class="sub">{sub}</p> : null}
      </div>
      <div class="actions">{children}</div>
    </header>
  );
}

export function Empty({ title, children }: { title: string; children?: ComponentChildren }) {
  return (
    <div class="empty">
      <h2>{title}</h2>
      {children}
    </div>
  );
}

export function Badge({ kind, children, title }: { kind: string; children: ComponentChildren; title?: string }) {
  return (
    <span class={`badge ${kind}`} title={title}>
      {children}
    </span>
  );
}

/** A moment as people think of it, with the exact one when pointed at. */
export function When({ at }: { at: string | null | undefined }) {
  if (!at) return <span class="faint">never</span>;
  return (
    <time dateTime={at} title={moment(at, utc.value)}>
      {relative(at, now.value)}
    </time>
  );
}

export function Code({ text }: { text: string }) {
  return (
    <div class="snippet">
      <pre>{text}</pre>
      <Copy text={text} />
    </div>
  );
}

export function Copy({ text, label = "Copy" }: { text: string; label?: string }) {
  const [done, setDone] = useState(false);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      setDone(true);
      setTimeout(() => setDone(false), 1500);
    } catch {
      toast("the browser does not let this page copy", "error");
    }
  };
  return (
    <button type="button" class="small quiet" onClick={copy}>
      {done ? "Copied" : label}
    </button>
  );
}

/** A button that is busy while what it does is under way, and says what went wrong. */
export function Act({
  run,
  children,
  ...rest
}: { run: () => Promise<unknown>; children: ComponentChildren } & Omit<JSX.IntrinsicElements["button"], "onClick">) {
  const [busy, setBusy] = useState(false);
  const act = async () => {
    setBusy(true);
    try {
      await run();
    } catch (error) {
      toast(messageOf(error), "error", 8000);
    } finally {
      setBusy(false);
    }
  };
  return (
    <button type="button" disabled={busy} aria-busy={busy} onClick={act} {...rest}>
      {children}
    </button>
  );
}

export function Dialog({ title, close, children }: { title: string; close: () => void; children: ComponentChildren }) {
  const element = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    element.current?.showModal();
  }, []);
  return (
    <dialog
      ref={element}
      aria-label={title}
      onClose={close}
      onClick={(event) => {
        if (event.target === element.current) close();
      }}
    >
      <div class="dialog">
        <h2>{title}</h2>
        {children}
      </div>
    </dialog>
  );
}

/** What is asked for once, and again when `keys` change or somebody says so. */
export function useLoaded<T>(load: () => Promise<T>, keys: unknown[], every?: number): { value: T | undefined; error: string | undefined; again: () => void } {
  const [state, setState] = useState<{ value?: T; error?: string }>({});
  const [turn, setTurn] = useState(0);
  useEffect(() => {
    let current = true;
    const ask = async () => {
      try {
        const value = await load();
        if (current) setState({ value });
      } catch (error) {
        if (current) setState((before) => ({ ...before, error: messageOf(error) }));
      }
    };
    void ask();
    const timer = every === undefined ? undefined : setInterval(() => void (document.hidden || ask()), every);
    return () => {
      current = false;
      clearInterval(timer);
    };
  }, [...keys, turn]);
  return { value: state.value, error: state.error, again: () => setTurn((before) => before + 1) };
}

/** Says why there is nothing, or that it is on its way. */
export function Pending({ error }: { error: string | undefined }) {
  return error ? (
    <p class="notice error" role="alert">
      {error}
    </p>
  ) : (
    <p class="faint pending" aria-busy="true">
      Loading…
    </p>
  );
}

/** Offers actions to the palette while a page is shown. */
export function useActions(actions: Action[], keys: unknown[]): void {
  useEffect(() => {
    pageActions.value = actions;
    return () => {
      pageActions.value = [];
    };
  }, keys);
}

export function Spark({ values, most, label }: { values: number[]; most: number; label: string }) {
  const width = 64;
  const height = 18;
  const step = width / 39;
  const top = Math.max(most, 1);
  const points = values.map((value, index) => {
    const x = width - (values.length - 1 - index) * step;
    const y = height - 1 - (Math.min(value, top) / top) * (height - 2);
    return `${x.toFixed(1)},${y.toFixed(1)}`;
  });
  return (
    <svg class="spark" width={width} height={height} role="img" aria-label={label}>
      <polyline points={points.join(" ")} />
    </svg>
  );
}

/** One name and its value. */
export function Fact({ name, children }: { name: string; children: ComponentChildren }) {
  return (
    <div class="fact">
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}
