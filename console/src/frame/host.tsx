/** The place in a page for an output that may do anything: a frame of another origin. */
import { useEffect, useRef, useState } from "preact/hooks";
import { isDark } from "../state";
import { heightOf, Patience } from "./height";

const LARGEST = 5 << 20;

export function FrameOf({ bundle }: { bundle: Record<string, string> }) {
  const box = useRef<HTMLDivElement>(null);
  const [visible, setVisible] = useState(false);
  const size = Object.values(bundle).reduce((sum, text) => sum + text.length, 0);
  useEffect(() => {
    const observer = new IntersectionObserver((entries) => {
      if (entries.some((entry) => entry.isIntersecting)) setVisible(true);
    });
    observer.observe(box.current!);
    return () => observer.disconnect();
  }, []);
  if (size > LARGEST) return <p class="faint">An output of {(size / (1 << 20)).toFixed(1)} MiB is too large to be shown.</p>;
  return (
    <div ref={box} class="frame-box">
      {visible ? <Live bundle={bundle} /> : <div style={{ height: "60px" }} />}
    </div>
  );
}

function Live({ bundle }: { bundle: Record<string, string> }) {
  const frame = useRef<HTMLIFrameElement>(null);
  const [said, setSaid] = useState<unknown>({ height: 40 });
  const [whole, setWhole] = useState(false);
  const [internet, setInternet] = useState(false);
  const ports = useRef<MessagePort | undefined>(undefined);
  const hand = () => {
    ports.current?.close();
    const channel = new MessageChannel();
    const patience = new Patience();
    channel.port1.onmessage = (message: MessageEvent<unknown>) => {
      if (patience.takes(Date.now()) && heightOf(message.data, true)) setSaid(message.data);
    };
    ports.current = channel.port1;
    // The frame's origin is opaque, so it has no name to send to; what is sent is its own content.
    frame.current?.contentWindow?.postMessage({ bundle, theme: isDark() ? "dark" : "light" }, "*", [channel.port2]);
  };
  useEffect(() => () => ports.current?.close(), []);
  const { height, isCut } = heightOf(said, whole) ?? { height: 40, isCut: false };
  return (
    <>
      <iframe
        key={String(internet)}
        ref={frame}
        title="Output of the code"
        sandbox="allow-scripts"
        referrerpolicy="no-referrer"
        src={internet ? "/console/frame?internet" : "/console/frame"}
        style={{ height: `${height}px` }}
        onLoad={hand}
      />
      <div class="frame-end">
        {isCut && !whole ? (
          <button type="button" class="small quiet" onClick={() => setWhole(true)}>
            Show all
          </button>
        ) : null}
        {internet ? null : (
          <button type="button" class="small quiet" title="Lets this output, and nothing else, load from the internet" onClick={() => setInternet(true)}>
            Allow internet
          </button>
        )}
      </div>
    </>
  );
}
