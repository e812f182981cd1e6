/** Charts that code has drawn, drawn here from their numbers. */
import { axis, type Axis, type Value } from "./scale";

type Common = { type: string; title?: string | null; elements: unknown[]; x_label?: string | null; y_label?: string | null; x_scale?: string; y_scale?: string };
type Points = { label: string; points: [Value, Value][] };
type Bar = { label: string; group: string; value: number };
type Slice = { label: string; angle: number; radius: number };
type Box = { label: string; min: number; first_quartile: number; median: number; third_quartile: number; max: number; outliers: number[] };

const WIDTH = 560;
const HEIGHT = 300;
const LEFT = 62;
const RIGHT = 12;
const TOP = 12;
const BOTTOM = 44;
const COLORS = 6;
const MOST_POINTS = 5000;

/** True for a chart that can be drawn. */
export function isChart(value: unknown): value is Common {
  const chart = value as Common | null;
  if (typeof chart !== "object" || chart === null || !Array.isArray(chart.elements)) return false;
  return ["line", "scatter", "bar", "pie", "box_and_whisker"].includes(chart.type) ? chart.elements.length > 0 : chart.type === "superchart" && chart.elements.some(isChart);
}

export function Chart({ chart }: { chart: Common }) {
  if (chart.type === "superchart") {
    return (
      <div class="charts">
        {chart.title ? <h3>{chart.title}</h3> : null}
        {chart.elements.filter(isChart).map((part, index) => (
          <Chart key={index} chart={part} />
        ))}
      </div>
    );
  }
  return (
    <figure class="chart">
      {chart.title ? <figcaption>{chart.title}</figcaption> : null}
      <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label={`${chart.type.replaceAll("_", " ")} chart${chart.title ? `: ${chart.title}` : ""}`}>
        {chart.type === "pie" ? <Pie slices={chart.elements as Slice[]} /> : <Plane chart={chart} />}
      </svg>
      <Legend chart={chart} />
    </figure>
  );
}

const x = (part: number) => LEFT + part * (WIDTH - LEFT - RIGHT);
const y = (part: number) => HEIGHT - BOTTOM - part * (HEIGHT - TOP - BOTTOM);

function namesOf(chart: Common): string[] {
  if (chart.type === "bar") return [...new Set((chart.elements as Bar[]).map((bar) => bar.group))];
  return (chart.elements as { label: string }[]).map((one) => one.label);
}

function Legend({ chart }: { chart: Common }) {
  const names = namesOf(chart);
  if (chart.type === "box_and_whisker" || names.length < 2 || names.length > 12) return null;
  return (
    <ul class="legend">
      {names.map((name, index) => (
        <li key={index}>
          <i class={`fill-${index % COLORS}`} /> {name}
        </li>
      ))}
    </ul>
  );
}

function Plane({ chart }: { chart: Common }) {
  let across: Axis;
  let up: Axis;
  let marks;
  if (chart.type === "bar") {
    const bars = chart.elements as Bar[];
    across = axis(bars.map((bar) => String(bar.label)), "categorical");
    up = axis(bars.map((bar) => bar.value), "linear", true);
    marks = <Bars bars={bars} across={across} up={up} />;
  } else if (chart.type === "box_and_whisker") {
    const boxes = chart.elements as Box[];
    across = axis(boxes.map((box) => String(box.label)), "categorical");
    up = axis(boxes.flatMap((box) => [box.min, box.max, ...box.outliers]), "linear");
    marks = <Boxes boxes={boxes} across={across} up={up} />;
  } else {
    const series = chart.elements as Points[];
    across = axis(series.flatMap((one) => one.points.map((point) => point[0])), chart.x_scale);
    up = axis(series.flatMap((one) => one.points.map((point) => point[1])), chart.y_scale);
    marks = series.map((one, index) => <Series key={index} isLine={chart.type === "line"} points={one.points} index={index} across={across} up={up} />);
  }
  return (
    <>
      <g class="axis">
        {up.marks.map((mark) => (
          <g key={mark.label}>
            <line x1={LEFT} x2={WIDTH - RIGHT} y1={y(mark.at)} y2={y(mark.at)} />
            <text x={LEFT - 6} y={y(mark.at) + 4} text-anchor="end">
              {short(mark.label)}
            </text>
          </g>
        ))}
        {across.marks.map((mark) => (
          <text key={mark.label} x={x(mark.at)} y={HEIGHT - BOTTOM + 16} text-anchor="middle">
            {short(mark.label)}
          </text>
        ))}
        <text class="axis-name" x={(WIDTH + LEFT) / 2} y={HEIGHT - 6} text-anchor="middle">
          {chart.x_label}
        </text>
        <text class="axis-name" transform={`translate(13 ${(HEIGHT - BOTTOM) / 2}) rotate(-90)`} text-anchor="middle">
          {chart.y_label}
        </text>
      </g>
      {marks}
    </>
  );
}

function short(text: string): string {
  return text.length > 14 ? `${text.slice(0, 13)}…` : text;
}

function Series({ isLine, points, index, across, up }: { isLine: boolean; points: [Value, Value][]; index: number; across: Axis; up: Axis }) {
  const every = Math.ceil(points.length / MOST_POINTS);
  const places = points
    .filter((_, at) => at % every === 0)
    .map(([right, above]) => [across.place(right), up.place(above)] as const)
    .filter((place): place is readonly [number, number] => place[0] !== undefined && place[1] !== undefined);
  if (isLine) return <polyline class={`stroke-${index % COLORS}`} points={places.map(([right, above]) => `${x(right).toFixed(1)},${y(above).toFixed(1)}`).join(" ")} />;
  return (
    <g class={`fill-${index % COLORS}`}>
      {places.map(([right, above], at) => (
        <circle key={at} cx={x(right)} cy={y(above)} r={3} />
      ))}
    </g>
  );
}

function Bars({ bars, across, up }: { bars: Bar[]; across: Axis; up: Axis }) {
  const groups = [...new Set(bars.map((bar) => bar.group))];
  const labels = new Set(bars.map((bar) => bar.label)).size;
  const room = (((WIDTH - LEFT - RIGHT) / labels) * 0.8) / groups.length;
  const floor = y(up.place(0) ?? 0);
  return (
    <>
      {bars.map((bar, at) => {
        const group = groups.indexOf(bar.group);
        const left = x(across.place(String(bar.label)) ?? 0) - (room * groups.length) / 2 + group * room;
        const top = y(up.place(bar.value) ?? 0);
        return (
          <rect key={at} class={`fill-${group % COLORS}`} x={left} width={Math.max(1, room - 2)} y={Math.min(top, floor)} height={Math.max(1, Math.abs(floor - top))}>
            <title>{`${bar.label}: ${bar.value}`}</title>
          </rect>
        );
      })}
    </>
  );
}

function Boxes({ boxes, across, up }: { boxes: Box[]; across: Axis; up: Axis }) {
  const half = ((WIDTH - LEFT - RIGHT) / boxes.length) * 0.2;
  const at = (value: number) => y(up.place(value) ?? 0);
  return (
    <>
      {boxes.map((box, index) => {
        const middle = x(across.place(String(box.label)) ?? 0);
        return (
          <g key={index} class="box">
            <line x1={middle} x2={middle} y1={at(box.min)} y2={at(box.max)} />
            <rect class="fill-0" x={middle - half} width={half * 2} y={at(box.third_quartile)} height={Math.max(1, at(box.first_quartile) - at(box.third_quartile))} />
            <line x1={middle - half} x2={middle + half} y1={at(box.median)} y2={at(box.median)} />
            {box.outliers.map((value, number) => (
              <circle key={number} cx={middle} cy={at(value)} r={3} />
            ))}
          </g>
        );
      })}
    </>
  );
}

function Pie({ slices }: { slices: Slice[] }) {
  const radius = HEIGHT / 2 - 14;
  const whole = slices.reduce((sum, slice) => sum + slice.angle, 0) || 360;
  let turned = -Math.PI / 2;
  return (
    <g transform={`translate(${WIDTH / 2} ${HEIGHT / 2})`}>
      {slices.map((slice, index) => {
        const angle = Math.min((slice.angle / whole) * 2 * Math.PI, 2 * Math.PI - 1e-4);
        const end = turned + angle;
        const point = (at: number) => `${(Math.cos(at) * radius).toFixed(2)} ${(Math.sin(at) * radius).toFixed(2)}`;
        const path = `M0 0L${point(turned)}A${radius} ${radius} 0 ${angle > Math.PI ? 1 : 0} 1 ${point(end)}Z`;
        turned = end;
        return (
          <path key={index} class={`fill-${index % COLORS} slice`} d={path}>
            <title>{`${slice.label}: ${((slice.angle / whole) * 100).toFixed(1)} %`}</title>
          </path>
        );
      })}
    </g>
  );
}
